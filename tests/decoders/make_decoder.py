# SPDX-License-Identifier: MIT
"""Writes a model folder whose decoder is small but has room for many tokens: two layers of grouped attention with
rotary positions and random weights.

usage: make_decoder.py FOLDER [WINDOW [outputs]]        needs the Python packages onnx and numpy

With `outputs`, the model also gives `hidden_states`, which the head reads, and `doubled`, twice the logits.
"""

import json
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

LAYERS, HIDDEN, HEADS, KV_HEADS, SIZE, TOKENS, CONTEXT = 2, 64, 4, 2, 16, 32, 16384


def main():
    folder = pathlib.Path(sys.argv[1])
    window = int(sys.argv[2]) if len(sys.argv) > 2 else -1
    random = np.random.default_rng(7)
    angles = np.arange(CONTEXT)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
    weights = {"embedding": random.standard_normal((TOKENS, HIDDEN)), "head": random.standard_normal((HIDDEN, TOKENS)),
               "cos": np.cos(angles), "sin": np.sin(angles), "gain": np.ones(HIDDEN)}
    node = helper.make_node
    nodes = [
        node("Gather", ["embedding", "input_ids"], ["x0"]),
        node("ReduceSum", ["attention_mask", "axis"], ["filled"], keepdims=0),
        node("Sub", ["filled", "one"], ["last"]),
        node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["columns"]),
        node("Cast", ["columns"], ["total_length"], to=TensorProto.INT32),
    ]
    states = []
    for i in range(LAYERS):
        weights[f"qkv{i}"] = random.standard_normal((HIDDEN, (HEADS + 2 * KV_HEADS) * SIZE)) / HIDDEN ** 0.5
        weights[f"out{i}"] = random.standard_normal((HEADS * SIZE, HIDDEN)) / HIDDEN ** 0.5
        pasts = [f"past_key_values.{i}.{what}" for what in ("key", "value")]
        presents = [f"present.{i}.{what}" for what in ("key", "value")]
        states += zip(pasts, presents)
        nodes += [
            node("SimplifiedLayerNormalization", [f"x{i}", "gain"], [f"norm{i}"], epsilon=1e-5),
            node("MatMul", [f"norm{i}", f"qkv{i}"], [f"heads{i}"]),
            node("GroupQueryAttention", [f"heads{i}", "", "", *pasts, "seqlens_k", "total_length", "cos", "sin"],
                 [f"attended{i}", *presents], domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS,
                 do_rotary=1, local_window_size=window),
            node("MatMul", [f"attended{i}", f"out{i}"], [f"y{i}"]),
            node("Add", [f"x{i}", f"y{i}"], [f"x{i + 1}"]),
        ]
    nodes.append(node("MatMul", [f"x{LAYERS}", "head"], ["logits"]))
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", i64, ["batch", "sequence"]), value("attention_mask", i64, ["batch", "total"])]
    inputs += [value(past, f32, ["batch", KV_HEADS, "past", SIZE]) for past, _ in states]
    outputs = [value("logits", f32, ["batch", "sequence", TOKENS])]
    outputs += [value(present, f32, ["batch", KV_HEADS, "total", SIZE]) for _, present in states]
    tensors = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    tensors += [numpy_helper.from_array(np.array(1, np.int64), "one"),
                numpy_helper.from_array(np.array([1], np.int64), "axis")]
    if "outputs" in sys.argv[2:]:
        nodes.append(node("Add", ["logits", "logits"], ["doubled"]))
        nodes.append(node("Identity", [f"x{LAYERS}"], ["hidden_states"]))
        outputs += [value("hidden_states", f32, ["batch", "sequence", HIDDEN]),
                    value("doubled", f32, ["batch", "sequence", TOKENS])]
    model = helper.make_model(helper.make_graph(nodes, "decoder", inputs, outputs, tensors), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    save(model, folder / "model.onnx")
    decoder = {"filename": "model.onnx", "head_size": SIZE, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS,
               "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                          "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
               "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                           "present_value_names": "present.%d.value"}}
    config = {"model": {"type": "llama", "vocab_size": TOKENS, "context_length": CONTEXT, "eos_token_id": TOKENS - 1,
                        "decoder": decoder}, "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")


main()
