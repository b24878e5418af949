# SPDX-License-Identifier: MIT
"""Writes the folder of a small decoder with a long context: two layers of GQA with RoPE and random weights.

usage: make_decoder.py FOLDER [WINDOW [FLAG...]]        requires the Python packages onnx and numpy

Flags:
  outputs     the model also has the outputs `hidden_states`, the head's input, and `doubled`, twice the logits
  positions   it has the input position_ids [batch, tokens]
  mrope       it has the input position_ids [3, batch, tokens], each of which rotates some pairs of elements
  counted     its attention mask is computed from position_ids, which must count the tokens
  switch      it selects other cos/sin caches for sequences of more than 24 tokens
  items       it combines all tokens of a run, so that they cannot be packed
  embeddings  its input is embeddings, which embedding.onnx computes from tokens; embedding.f32 has them all
  features    as embeddings, and embedding.onnx replaces tokens 30 by image_features
  layers      embedding.onnx also computes per_layer_inputs [batch, tokens, layers, 8], which the decoder adds
  both        it has both inputs, embeddings and tokens
"""

import json
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

LAYERS, HIDDEN, HEADS, KV_HEADS, SIZE, TOKENS, CONTEXT = 2, 64, 4, 2, 16, 32, 16384
IMAGE, LIMIT, PER_LAYER = 30, 24, 8
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info


def tensors_of(weights):
    return [numpy_helper.from_array(w if w.dtype.kind == "i" else w.astype(np.float32), name)
            for name, w in weights.items()]


def write(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, tensors_of(weights))
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17),
                                                               helper.make_opsetid("com.microsoft", 1)]), path)


def tables(angles, flags, weights):
    """The nodes that compute `cos` and `sin`."""
    if "switch" not in flags:
        weights.update(cos=np.cos(angles), sin=np.sin(angles))
        return []
    branches = []
    for scaled in (angles / 3, angles[:LIMIT]):
        made = [np.cos(scaled), np.sin(scaled)]
        names = [f"{what}_{len(scaled)}" for what in ("cos", "sin")]
        branches.append(helper.make_graph(
            [node("Constant", [], [name], value=numpy_helper.from_array(table.astype(np.float32)))
             for name, table in zip(names, made)], names[0], [],
            [value(name, F32, list(table.shape)) for name, table in zip(names, made)]))
    weights["limit"] = np.array(LIMIT)
    return [node("Greater", ["columns", "limit"], ["is_long"]),
            node("If", ["is_long"], ["cos", "sin"], then_branch=branches[0], else_branch=branches[1])]


def attention(i, pasts, presents, window, flags, random, weights):
    """Computes `attended{i}` from `norm{i}`."""
    q, kv = HEADS * SIZE, KV_HEADS * SIZE
    weights[f"qkv{i}"] = random.standard_normal((HIDDEN, q + 2 * kv)) / HIDDEN ** 0.5
    nodes = [node("MatMul", [f"norm{i}", f"qkv{i}"], [f"heads{i}"])]
    operands = [f"heads{i}", "", ""]
    rotary = {"do_rotary": 1}
    last = ["cos", "sin"]
    if flags & {"positions", "mrope", "counted"}:
        rotary, last = {}, []
        operands = [f"q{i}", f"k{i}", f"v{i}"]
        weights["parts"] = np.array([q, kv, kv])
        nodes.append(node("Split", [f"heads{i}", "parts"], [f"q{i}_", f"k{i}_", f"v{i}"], axis=2))
        for what, heads in (("q", HEADS), ("k", KV_HEADS)):
            at = {"num_heads": heads, "domain": "com.microsoft"}
            if "mrope" in flags:
                at.update(mrope_section=[3, 3, 2], mrope_layout=0)
            nodes.append(node("MRotaryEmbedding" if "mrope" in flags else "RotaryEmbedding",
                              [f"{what}{i}_", "position_ids", "cos", "sin"], [f"{what}{i}"], **at))
    if "counted" in flags:
        last = ["", "", "", "bias"]
    nodes.append(node("GroupQueryAttention", [*operands, *pasts, "seqlens_k", "total_length", *last],
                      [f"attended{i}", *presents], domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS,
                      local_window_size=window, **rotary))
    return nodes


def bias_of_positions(weights):
    """A causal mask [1, 1, tokens, total]."""
    weights.update(zero=np.array(0), step=np.array(1), to_columns=np.array([1, 3]), far=np.array(-1e9, np.float32),
                   near=np.array(0, np.float32))
    return [node("Range", ["zero", "columns", "step"], ["all"]),
            node("Unsqueeze", ["position_ids", "to_columns"], ["column"]),
            node("Greater", ["all", "column"], ["behind"]),
            node("Where", ["behind", "far", "near"], ["bias"])]


def write_decoder(folder, window, flags, random, weights):
    angles = np.arange(CONTEXT)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
    weights["gain"] = np.ones(HIDDEN)
    nodes = [node("Gather", ["embedding", "input_ids"], ["x0"])]
    inputs = [value("input_ids", I64, ["batch", "sequence"])]
    if "embeddings" in flags:
        nodes = [node("Identity", ["inputs_embeds"], ["x0"])]
        embeddings = value("inputs_embeds", F32, ["batch", "sequence", HIDDEN])
        inputs = [embeddings]
        if "both" in flags:
            weights["more"] = random.standard_normal((TOKENS, HIDDEN))
            nodes = [node("Gather", ["more", "input_ids"], ["more0"]), node("Add", ["inputs_embeds", "more0"], ["x0"])]
            inputs = [value("input_ids", I64, ["batch", "sequence"]), embeddings]
        else:
            del weights["embedding"]
    if "layers" in flags:
        inputs.append(value("per_layer_inputs", F32, ["batch", "sequence", LAYERS, PER_LAYER]))
    inputs.append(value("attention_mask", I64, ["batch", "total"]))
    if flags & {"positions", "mrope", "counted"}:
        dims = ["batch", "sequence"]
        inputs.append(value("position_ids", I64, [3, *dims] if "mrope" in flags else dims))
    nodes += [
        node("ReduceSum", ["attention_mask", "axis"], ["filled"], keepdims=0),
        node("Sub", ["filled", "one"], ["last"]),
        node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["columns"]),
        node("Cast", ["columns"], ["total_length"], to=TensorProto.INT32),
    ]
    weights["one"] = np.array(1)
    weights["axis"] = np.array([1])
    nodes += tables(angles, flags, weights)
    if "counted" in flags:
        nodes += bias_of_positions(weights)
    states = []
    for i in range(LAYERS):
        pasts = [f"past_key_values.{i}.{what}" for what in ("key", "value")]
        presents = [f"present.{i}.{what}" for what in ("key", "value")]
        states += zip(pasts, presents)
        nodes.append(node("SimplifiedLayerNormalization", [f"x{i}", "gain"], [f"norm{i}"], epsilon=1e-5))
        nodes += attention(i, pasts, presents, window, flags, random, weights)
        weights[f"out{i}"] = random.standard_normal((HEADS * SIZE, HIDDEN)) / HIDDEN ** 0.5
        nodes.append(node("MatMul", [f"attended{i}", f"out{i}"], [f"y{i}"]))
        if "layers" in flags:
            weights[f"layer{i}"] = np.array(i)
            weights[f"from_layer{i}"] = random.standard_normal((PER_LAYER, HIDDEN))
            nodes += [node("Gather", ["per_layer_inputs", f"layer{i}"], [f"own{i}"], axis=2),
                      node("MatMul", [f"own{i}", f"from_layer{i}"], [f"wide{i}"]),
                      node("Add", [f"y{i}", f"wide{i}"], [f"z{i}"])]
        nodes.append(node("Add", [f"x{i}", f"z{i}" if "layers" in flags else f"y{i}"], [f"x{i + 1}"]))
    head = f"x{LAYERS}"
    if "items" in flags:
        weights["nothing"] = np.array(0, np.float32)
        nodes += [node("ReduceMax", [head], ["largest"], axes=[1], keepdims=1),
                  node("Mul", ["largest", "nothing"], ["none"]), node("Add", [head, "none"], ["mixed"])]
        head = "mixed"
    nodes.append(node("MatMul", [head, "head"], ["logits"]))
    inputs += [value(past, F32, ["batch", KV_HEADS, "past", SIZE]) for past, _ in states]
    outputs = [value("logits", F32, ["batch", "sequence", TOKENS])]
    outputs += [value(present, F32, ["batch", KV_HEADS, "total", SIZE]) for _, present in states]
    if "outputs" in flags:
        nodes.append(node("Add", ["logits", "logits"], ["doubled"]))
        nodes.append(node("Identity", [head], ["hidden_states"]))
        outputs += [value("hidden_states", F32, ["batch", "sequence", HIDDEN]),
                    value("doubled", F32, ["batch", "sequence", TOKENS])]
    write(folder / "model.onnx", nodes, inputs, outputs, weights)
    names = {"attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
             "past_value_names": "past_key_values.%d.value"}
    names.update({given.name: given.name for given in inputs if not given.name.startswith("past")})
    return names


def write_embedding(folder, flags, embedding, random):
    weights = {"embedding": embedding}
    outputs = [value("inputs_embeds", F32, ["batch", "sequence", HIDDEN])]
    inputs = [value("input_ids", I64, ["batch", "sequence"]), value("image_features", F32, ["images", HIDDEN])]
    nodes = [node("Gather", ["embedding", "input_ids"], ["text" if "features" in flags else "inputs_embeds"])]
    if "features" in flags:
        weights["image"] = np.array(IMAGE)
        nodes += [node("Equal", ["input_ids", "image"], ["is_image"]), node("NonZero", ["is_image"], ["places_"]),
                  node("Transpose", ["places_"], ["places"], perm=[1, 0]),
                  node("ScatterND", ["text", "places", "image_features"], ["inputs_embeds"])]
    if "layers" in flags:
        weights["layers"] = random.standard_normal((TOKENS, LAYERS, PER_LAYER))
        nodes.append(node("Gather", ["layers", "input_ids"], ["per_layer_inputs"]))
        outputs.append(value("per_layer_inputs", F32, ["batch", "sequence", LAYERS, PER_LAYER]))
    write(folder / "embedding.onnx", nodes, inputs, outputs, weights)
    (folder / "embedding.f32").write_bytes(embedding.astype("<f4").tobytes())
    return {"filename": "embedding.onnx", "inputs": {given.name: given.name for given in inputs},
            "outputs": {given.name: given.name for given in outputs}}


def main():
    folder = pathlib.Path(sys.argv[1])
    window = int(sys.argv[2]) if len(sys.argv) > 2 else -1
    flags = set(sys.argv[3:])
    if flags & {"features", "layers", "both"}:
        flags.add("embeddings")
    random = np.random.default_rng(7)
    embedding = random.standard_normal((TOKENS, HIDDEN))
    weights = {"embedding": embedding, "head": random.standard_normal((HIDDEN, TOKENS))}
    inputs = write_decoder(folder, window, flags, random, weights)
    decoder = {"filename": "model.onnx", "head_size": SIZE, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS, "inputs": inputs,
               "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                           "present_value_names": "present.%d.value"}}
    model = {"type": "llama", "vocab_size": TOKENS, "context_length": CONTEXT, "eos_token_id": TOKENS - 1,
             "decoder": decoder}
    if "embeddings" in flags:
        model.update(type="phi3v", image_token_id=IMAGE, embedding=write_embedding(folder, flags, embedding, random),
                     vision={"filename": "vision.onnx", "inputs": {"pixel_values": "pixel_values"},
                             "outputs": {"image_features": "image_features"}})
    config = {"model": model, "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")


main()
