# SPDX-License-Identifier: MIT
"""Values of config.json that change the program: folders whose weights make up for the value have the logits of the
folder without it."""

import json
import pathlib
import sys
import tempfile

import numpy as np

import zoo
from checkpoints_test import float_tensors
from probe import Probe, Refused
from write_shards import write_safetensors

PROMPT = [1] + [(37 * i) % 500 + 3 for i in range(32)]


def own_head(tensors, config):
    """The head is the embedding, back to front."""
    del config
    name = next(name for name in tensors if name.endswith(("embed_tokens.weight", "wte.weight")))
    tensors["lm_head.weight"] = tensors[name][::-1]


def scale_queries(tensors, config, factor):
    """Multiplies GPT-2's queries of layer i by factor(i, head size)."""
    hidden = config["n_embd"]
    for i in range(config["n_layer"]):
        for name in tensors:
            if f"h.{i}.attn.c_attn." in name:
                tensors[name] = tensors[name].copy()
                tensors[name][..., :hidden] *= factor(i, hidden // config["n_head"])


def by_layer(tensors, config):
    scale_queries(tensors, config, lambda i, size: i + 1)


def unscaled(tensors, config):
    scale_queries(tensors, config, lambda i, size: size**-0.5)


# What it is, the zoo's type, values of config.json, the change of the weights.
CASES = (
    ("own head", "gemma2", {"tie_word_embeddings": False}, own_head),
    ("own head", "gpt2", {"tie_word_embeddings": False}, own_head),
    ("own head beside a wrong value", "llama", {"tie_word_embeddings": True}, own_head),
    ("scales by layer", "gpt2", {"scale_attn_by_inverse_layer_idx": True}, by_layer),
    ("no scale", "gpt2", {"scale_attn_weights": False}, unscaled),
)


def write_folder(source, target, config, tensors):
    target.mkdir()
    (target / "config.json").write_text(json.dumps(config))
    write_safetensors(target / "model.safetensors", {
        name: ({"dtype": "F32", "shape": list(values.shape)}, np.ascontiguousarray(values, "<f4").tobytes())
        for name, values in tensors.items()})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (source / name).exists():
            (target / name).write_bytes((source / name).read_bytes())


def check(probe, source, target, values, change):
    config = json.loads((source / "config.json").read_text())
    tensors = dict(float_tensors(source))
    change(tensors, config)
    write_folder(source, target, {**config, **values}, tensors)
    try:
        logits = [probe.logits({"folder": str(folder), "target": "cpu", "compute": "f32"}, [PROMPT])
                  for folder in (source, target)]
    except Refused as refused:
        yield str(refused)
        return
    if change is own_head and not config.get("tie_word_embeddings", True):
        tied = {**config, "tie_word_embeddings": True}
        del tensors["lm_head.weight"]
        write_folder(source, target.with_name("tied"), tied, tensors)
        logits[0] = probe.logits({"folder": str(target.with_name("tied")), "target": "cpu", "compute": "f32"}, [PROMPT])
    expected = logits[0][:, ::-1] if change is own_head else logits[0]
    distance = np.abs(logits[1] - expected).max()
    if not (distance <= 1e-4 and np.ptp(expected) > 1):
        yield f"logits of spread {np.ptp(expected)} are {distance} away, allowed 1e-4"


def main():
    if not zoo.ZOO.exists():
        print(f"skipped: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        list(zoo.types(pathlib.Path(work)))  # unpacks them
        for i, (what, kind, values, change) in enumerate(CASES):
            folder = pathlib.Path(work) / f"case{i}"
            folder.mkdir()
            problems = list(check(probe, pathlib.Path(work) / kind / "hf", folder / "changed", values, change))
            for problem in problems:
                print(f"wrong: {kind} with {what}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
