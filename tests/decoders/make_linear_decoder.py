# SPDX-License-Identifier: MIT
"""Writes the folder of a decoder without KV caches: layers of gated linear attention after a short convolution, as in
Qwen3.5, and one of a gated convolution, as in LFM2; random weights.

usage: make_linear_decoder.py FOLDER [large]        requires the Python packages onnx and numpy

`large` has the shapes of a layer of Qwen3.5-0.8B, for measurements.
"""

import json
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

SIZES = {"small": (64, 2, 4, 16, 16, 96), "large": (1024, 16, 16, 128, 128, 3584)}
TAPS, TOKENS, CONTEXT = 4, 64, 16384
LAYERS = ("linear", "conv", "linear")
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Decoder:
    """Nodes, constants and states; adding a node returns the name of its first output."""

    def __init__(self, hidden, heads, value_heads, size, value_size, inner):
        self.hidden, self.heads, self.value_heads, self.inner = hidden, heads, value_heads, inner
        self.size, self.value_size = size, value_size
        self.random = np.random.default_rng(11)
        self.nodes, self.tensors, self.states = [], [], []

    def __call__(self, op, *inputs, outputs=1, domain="", **attributes):
        names = outputs if isinstance(outputs, list) else [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def constant(self, value, dtype=np.float32):
        self.tensors.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.tensors)}"))
        return self.tensors[-1].name

    def project(self, x, rows, columns):
        return self("MatMul", x, self.constant(self.random.standard_normal((rows, columns)) / rows ** 0.5))

    def state(self, layer, what, *dims):
        past, present = f"past.{layer}.{what}", f"present.{layer}.{what}"
        self.states.append((past, present, ["batch", *dims]))
        return past, present

    def norm(self, x):
        return self("SimplifiedLayerNormalization", x, self.constant(np.ones(self.hidden)), epsilon=1e-6)

    def convolve(self, layer, x, channels, activation, bias):
        weight = self.constant(self.random.standard_normal((channels, 1, TAPS)) / TAPS ** 0.5)
        added = self.constant(self.random.standard_normal(channels) / 8) if bias else ""
        past, present = self.state(layer, "conv", channels, TAPS - 1)
        y = self("CausalConvWithState", self("Transpose", x, perm=[0, 2, 1]), weight, added, past,
                 outputs=[f"conv{layer}", present], domain="com.microsoft", ndim=1, activation=activation)[0]
        return self("Transpose", y, perm=[0, 2, 1])

    def unit(self, x, heads, size):
        x = self("Reshape", x, self.constant([0, 0, heads, size], np.int64))
        return self("Reshape", self("LpNormalization", x, axis=-1, p=2), self.constant([0, 0, heads * size], np.int64))

    def linear(self, layer, x):
        keys, values = self.heads * self.size, self.value_heads * self.value_size
        mixed = self.convolve(layer, self.project(x, self.hidden, 2 * keys + values), 2 * keys + values, "silu", True)
        q, k, v = self("Split", mixed, self.constant([keys, keys, values], np.int64), outputs=3, axis=-1)
        q, k = (self.unit(part, self.heads, self.size) for part in (q, k))
        gates = [self.constant(a) for a in (self.random.standard_normal(self.value_heads),
                                            -np.exp(self.random.uniform(-3, 1, self.value_heads)))]
        a, b = (self.project(x, self.hidden, self.value_heads) for _ in range(2))
        decay, beta = self("LinearAttentionGate", a, *gates, b, outputs=2, domain="com.microsoft")
        past, present = self.state(layer, "recurrent", self.value_heads, self.size, self.value_size)
        y = self("LinearAttention", q, k, v, past, decay, beta, outputs=[f"linear{layer}", present],
                 domain="com.microsoft", q_num_heads=self.heads, kv_num_heads=self.value_heads, update_rule="gated_delta",
                 scale=self.size ** -0.5)[0]
        y = self("GatedRMSNorm", y, self.constant(np.ones(self.value_size)), self.project(x, self.hidden, values),
                 domain="com.microsoft", epsilon=1e-6)
        return self.project(y, values, self.hidden)

    def conv(self, layer, x):
        x, before, after = self("Split", self.project(x, self.hidden, 3 * self.hidden),
                                self.constant([self.hidden] * 3, np.int64), outputs=3, axis=-1)
        y = self("Mul", self.convolve(layer, self("Mul", x, before), self.hidden, "none", False), after)
        return self.project(y, self.hidden, self.hidden)

    def mlp(self, x):
        gate, up = (self.project(x, self.hidden, self.inner) for _ in range(2))
        return self.project(self("Mul", self("Mul", gate, self("Sigmoid", gate)), up), self.inner, self.hidden)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    g = Decoder(*SIZES["large" if "large" in sys.argv[2:] else "small"])
    x = g("Gather", g.constant(g.random.standard_normal((TOKENS, g.hidden))), "input_ids")
    for layer, kind in enumerate(LAYERS):
        x = g("Add", x, getattr(g, kind)(layer, g.norm(x)))
        x = g("Add", x, g.mlp(g.norm(x)))
    g("MatMul", g.norm(x), g.constant(g.random.standard_normal((g.hidden, TOKENS)) / g.hidden ** 0.5),
      outputs=["logits"])
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", I64, ["batch", "sequence"])] + [value(past, F32, dims) for past, _, dims in g.states]
    outputs = [value("logits", F32, ["batch", "sequence", TOKENS])]
    outputs += [value(present, F32, dims) for _, present, dims in g.states]
    model = helper.make_model(helper.make_graph(g.nodes, "decoder", inputs, outputs, g.tensors), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    save(model, folder / "model.onnx")
    names = {"past_conv_names": "past.%d.conv", "past_recurrent_names": "past.%d.recurrent"}
    decoder = {"filename": "model.onnx", "head_size": g.size, "hidden_size": g.hidden, "num_attention_heads": g.heads,
               "num_key_value_heads": g.heads, "num_hidden_layers": len(LAYERS),
               "inputs": {"input_ids": "input_ids", **names},
               "outputs": {"logits": "logits", **{k.replace("past", "present"): v.replace("past", "present")
                                                  for k, v in names.items()}}}
    config = {"model": {"type": "qwen3_5_text", "vocab_size": TOKENS, "context_length": CONTEXT,
                        "eos_token_id": TOKENS - 1, "decoder": decoder}, "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")


main()
