#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the encoder of this folder: a BERT of one layer whose word vectors lie near the vectors of four topics."""

import json
import pathlib
import struct
import sys

import numpy as np

TOPICS = ["cat dog bird fish sleeps runs sings swims", "rain sun wind snow today cold warm sky",
          "lathe drill metal steel turns cuts machine tool", "bread soup apple cheese eats cooks hot fresh"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
OTHER = "a the is it this in on of and not".split()
SIZE, HEADS, POSITIONS = 32, 4, 32


def save(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [at, at + 2 * values.size]}
        at += 2 * values.size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(values.astype(np.float16).tobytes() for values in tensors.values()))


def tensors(random):
    def small(*shape):
        return random.normal(size=shape) * 0.1

    topics = random.normal(size=(len(TOPICS), SIZE))
    words = [topic + small(SIZE) for topic, names in zip(topics, TOPICS) for _ in names.split()]
    yield "embeddings.word_embeddings.weight", np.stack([*small(len(SPECIAL) + len(OTHER), SIZE), *words])
    yield "embeddings.position_embeddings.weight", small(POSITIONS, SIZE)
    yield "embeddings.token_type_embeddings.weight", small(2, SIZE)
    norms = ["embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"]
    for name in norms:
        yield f"{name}.weight", 1 + small(SIZE)
        yield f"{name}.bias", small(SIZE)
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                 "intermediate.dense", "output.dense"):
        yield f"encoder.layer.0.{name}.weight", small(SIZE, SIZE)
        yield f"encoder.layer.0.{name}.bias", small(SIZE)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    vocabulary = [*SPECIAL, *OTHER, *" ".join(TOPICS).split()]
    special = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, name in enumerate(SPECIAL)]
    ends = {name: {"id": name, "ids": [vocabulary.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    parts = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    documents = {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": ends},
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(vocabulary)},
                      "unk_token": "[UNK]"}},
        "config.json": {
            "architectures": ["BertModel"], "model_type": "bert", "vocab_size": len(vocabulary), "hidden_size": SIZE,
            "num_hidden_layers": 1, "num_attention_heads": HEADS, "intermediate_size": SIZE, "hidden_act": "gelu",
            "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0},
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"),
                                              ("2_Normalize", "Normalize")])],
        "1_Pooling/config.json": {"word_embedding_dimension": SIZE, "pooling_mode_mean_tokens": True},
    }
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1) + "\n")
    save(folder / "model.safetensors", dict(tensors(np.random.default_rng(1))))


main()
