# SPDX-License-Identifier: MIT
"""Writes a model folder whose decoder counts: the token after n is n + 1, and 15 is the end token. It has the form
of an exported language model: group-query attention with a KV cache, a genai_config.json, a tokenizer whose words
are numbers, and a chat template.

usage: make_model.py [FOLDER]        requires the Python packages onnx and numpy
"""

import json
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

TOKENS, SIZE, CONTEXT = 16, 16, 256
WORDS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen").split()
END = "<end>"
TEMPLATE = ("{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}" + END +
            "{% endif %} {% endfor %}")


def tokenizer():
    """Splits at white space; an unknown word becomes token zero."""
    end = {"id": TOKENS - 1, "content": END, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS + [END])},
                      "unk_token": WORDS[0]}}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    zeros = np.zeros((SIZE, 3 * SIZE), np.float32)  # attention adds nothing
    weights = {"embedding": np.eye(TOKENS, SIZE, dtype=np.float32), "qkv": zeros,
               "head": 8 * np.roll(np.eye(SIZE, TOKENS, dtype=np.float32), 1, axis=1)}
    weights["one"] = np.array(1, np.int64)
    f32, i64, i32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
    cache = ["batch", 1, "past", SIZE]
    present = ["batch", 1, "total", SIZE]
    inputs = [("input_ids", i64, ["batch", "sequence"]), ("attention_mask", i64, ["batch", "total"]),
              ("past_key_values.0.key", f32, cache), ("past_key_values.0.value", f32, cache)]
    outputs = [("logits", f32, ["batch", "sequence", TOKENS]), ("present.0.key", f32, present),
               ("present.0.value", f32, present)]
    node = helper.make_node
    nodes = [
        node("Gather", ["embedding", "input_ids"], ["x"]),
        node("MatMul", ["x", "qkv"], ["qkv_x"]),
        node("ReduceSum", ["attention_mask", "axis"], ["filled"], keepdims=0),
        node("Sub", ["filled", "one"], ["last"]),
        node("Cast", ["last"], ["seqlens_k"], to=i32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["columns"]),
        node("Cast", ["columns"], ["total_length"], to=i32),
        node("GroupQueryAttention", ["qkv_x", "", "", "past_key_values.0.key", "past_key_values.0.value", "seqlens_k",
                                     "total_length"],
             ["attended", "present.0.key", "present.0.value"], domain="com.microsoft", num_heads=1, kv_num_heads=1),
        node("Add", ["x", "attended"], ["y"]),
        node("MatMul", ["y", "head"], ["logits"]),
    ]
    weights["axis"] = np.array([1], np.int64)
    graph = helper.make_graph(nodes, "counting", [helper.make_tensor_value_info(*v) for v in inputs],
                              [helper.make_tensor_value_info(*v) for v in outputs],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    save(model, folder / "model.onnx")
    names = {"inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                        "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
             "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                         "present_value_names": "present.%d.value"}}
    config = {"model": {"type": "llama", "vocab_size": TOKENS, "context_length": CONTEXT, "eos_token_id": 15,
                        "decoder": {"filename": "model.onnx", "head_size": SIZE, "hidden_size": SIZE,
                                    "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, **names}},
              "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE + "\n")


main()
