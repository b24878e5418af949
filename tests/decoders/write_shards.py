# SPDX-License-Identifier: MIT
"""A Hugging Face folder written again: in shards, with a configuration of Transformers 4."""

import json
import struct


def tensors_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (info, data[8 + size:][slice(*info["data_offsets"])]) for name, info in header.items()}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (info, data) in tensors.items():
        header[name] = {"dtype": info["dtype"], "shape": info["shape"], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def config_of_4(config):
    """The configuration as Transformers 4 writes it."""
    config = {**config, "torch_dtype": config.pop("dtype", "bfloat16"), "transformers_version": "4.45.0"}
    if "text_config" in config:
        return {**config, "text_config": config_of_4(config["text_config"])}
    rope = config.pop("rope_parameters", None)
    if rope is None or "full_attention" in rope:
        return config if rope is None else {**config, "rope_parameters": rope}
    rope = dict(rope)
    config["rope_theta"] = rope.pop("rope_theta")
    for name in ("partial_rotary_factor",):
        if name in rope:
            config[name] = rope.pop(name)
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    return config


def write_shards(source, target):
    """The folder in three shards, with a configuration of Transformers 4."""
    target.mkdir()
    (target / "config.json").write_text(json.dumps(config_of_4(json.loads((source / "config.json").read_text()))))
    tensors = list(tensors_of(source / "model.safetensors").items())
    index = {}
    for i in range(3):
        name = f"model-{i + 1:05}-of-00003.safetensors"
        part = dict(tensors[i::3])
        write_safetensors(target / name, part)
        index.update({tensor: name for tensor in part})
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
