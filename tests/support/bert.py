# SPDX-License-Identifier: MIT
"""BERT in numpy and double precision, from a Hugging Face folder's tensors."""

import json
import math
import pathlib
import struct

import numpy as np

TYPES = {"F32": np.float32, "F16": np.float16}
erf = np.vectorize(math.erf)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, info in header.items():
        if info["dtype"] in TYPES:
            begin, end = info["data_offsets"]
            values = np.frombuffer(data[8 + size + begin:8 + size + end], TYPES[info["dtype"]])
            out[name] = values.reshape(info["shape"]).astype(np.float64)
    return out


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + 4 * values.size]}
        at += 4 * values.size
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text +
                                   b"".join(values.astype(np.float32).tobytes() for values in tensors.values()))


def encode(folder, ids):
    """The states [tokens, size] of one text."""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    w = read_safetensors(folder / "model.safetensors")

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return x * w[name + ".weight"] + w[name + ".bias"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    p = "embeddings."
    x = norm(w[p + "word_embeddings.weight"][ids] + w[p + "position_embeddings.weight"][:len(ids)] +
             w[p + "token_type_embeddings.weight"][0], p + "LayerNorm")
    heads = config["num_attention_heads"]
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}."
        q, k, v = (dense(x, f"{p}attention.self.{name}").reshape(len(ids), heads, -1).transpose(1, 0, 2)
                   for name in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = (scores / scores.sum(-1, keepdims=True)) @ v
        y = dense(y.transpose(1, 0, 2).reshape(len(ids), -1), p + "attention.output.dense")
        x = norm(x + y, p + "attention.output.LayerNorm")
        y = dense(x, p + "intermediate.dense")
        y = y * (1 + erf(y / math.sqrt(2))) / 2
        x = norm(x + dense(y, p + "output.dense"), p + "output.LayerNorm")
    return x
