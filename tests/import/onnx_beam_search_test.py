# SPDX-License-Identifier: MIT
"""Compares BeamSearch and GreedySearch of com.microsoft with ONNX Runtime: small models, each rule of the search."""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from contrib_models import RANDOM, compute, f32, verify

WORDS, SIZE, HEADS = 24, 8, 2
END, PAD, START = 2, 1, 3
TABLES = {"table": f32(WORDS, SIZE), "projection": 1.5 * f32(SIZE, WORDS), "half": np.array(0.5, np.float32),
          "heads": np.array([0, 0, HEADS, SIZE // HEADS]), "flat": np.array([0, 0, SIZE]),
          "zeroth": np.array([0]), "first": np.array([1]), "third": np.array([2]), "outer": np.array([1, 3]),
          "one": np.array(1)}


def tensor(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def split_heads(x, y):
    return [node("Reshape", f"{x} heads", f"{y}_rows"), node("Transpose", f"{y}_rows", y, perm=[0, 2, 1, 3])]


def graph(name, nodes, inputs, outputs):
    used = {x for n in nodes for x in n.input}
    return helper.make_graph(nodes, name, inputs, outputs,
                             [numpy_helper.from_array(v, k) for k, v in TABLES.items() if k in used])


def pasts(prefix, length, other):
    kind = TensorProto.FLOAT
    return [tensor(f"{prefix}_{part}_{which}_0", kind, "batch", HEADS, n, SIZE // HEADS)
            for which, n in (("self", length), ("cross", other)) for part in ("key", "value")]


def encoder(masked):
    nodes = [node("Gather", "table encoder_input_ids", "rows"), *split_heads("encoder_hidden_states", "present_key_cross_0"),
             node("Mul", "present_key_cross_0 half", "present_value_cross_0"),
             node("Gather", "table decoder_input_ids", "words"), *split_heads("words", "present_key_self_0"),
             node("Mul", "present_key_self_0 half", "present_value_self_0"),
             node("ReduceMean", "encoder_hidden_states first", "mean"), node("Add", "words mean", "sum"),
             node("MatMul", "sum projection", "logits")]
    if masked:
        nodes[1:1] = [node("Cast", "encoder_attention_mask", "number", to=TensorProto.FLOAT),
                      node("Unsqueeze", "number third", "column"), node("Mul", "rows column", "encoder_hidden_states")]
    else:
        nodes[0] = node("Transpose", "encoder_input_ids", "encoder_hidden_states", perm=[0, 2, 1])
    i32s = TensorProto.INT32
    if not masked:
        inputs = [tensor("encoder_input_ids", TensorProto.FLOAT, "batch", SIZE, "length")]
    else:
        inputs = [tensor("encoder_input_ids", i32s, "batch", "length")]
        inputs.append(tensor("encoder_attention_mask", i32s, "batch", "length"))
    inputs.append(tensor("decoder_input_ids", i32s, "batch", 1))
    outputs = [tensor("logits", TensorProto.FLOAT, "batch", 1, WORDS),
               tensor("encoder_hidden_states", TensorProto.FLOAT, "batch", "length", SIZE),
               *pasts("present", 1, "length")]
    return graph("encoder", nodes, inputs, outputs)


def decoder(masked):
    nodes = [node("Gather", "table input_ids", "words"), *split_heads("words", "key"),
             node("Concat", "past_key_self_0 key", "present_key_self_0", axis=2),
             node("Mul", "key half", "value"),
             node("Concat", "past_value_self_0 value", "present_value_self_0", axis=2),
             node("ReduceSum", "present_value_self_0 third", "own"), node("Tanh", "own", "bent"),
             node("ReduceMean", "past_key_cross_0 third", "other"), node("Sub", "bent other", "state"),
             node("Transpose", "state", "row", perm=[0, 2, 1, 3]), node("Reshape", "row flat", "column"),
             node("Sub", "column words", "sum"), node("MatMul", "sum projection", "logits")]
    inputs = [tensor("input_ids", TensorProto.INT32, "batch", 1)]
    if masked:
        inputs.append(tensor("encoder_attention_mask", TensorProto.INT32, "batch", "length"))
    outputs = [tensor("logits", TensorProto.FLOAT, "batch", 1, WORDS), *pasts("present", "next", "length")[:2]]
    return graph("decoder", nodes, inputs + pasts("past", "before", "length"), outputs)


def lone_decoder():
    """A decoder that reads the prompts, too."""
    nodes = [node("Gather", "table input_ids", "words"), node("Gather", "table position_ids", "places"),
             node("Mul", "places half", "moved"), node("Add", "words moved", "rows"), *split_heads("rows", "key"),
             node("Unsqueeze", "key zeroth", "keys"), node("Mul", "keys half", "values"),
             node("Concat", "keys values", "added", axis=0), node("Concat", "past_0 added", "present_0", axis=3),
             node("Cast", "attention_mask", "number", to=TensorProto.FLOAT), node("Unsqueeze", "number outer", "column"),
             node("Gather", "present_0 one", "all_values"), node("Mul", "all_values column", "seen"),
             node("ReduceSum", "seen third", "own"), node("Tanh", "own", "bent"),
             node("Transpose", "bent", "turned", perm=[0, 2, 1, 3]), node("Reshape", "turned flat", "row"),
             node("Sub", "row rows", "sum"), node("MatMul", "sum projection", "logits")]
    inputs = [tensor(name, TensorProto.INT32, "batch", "length") for name in ("input_ids", "position_ids")]
    inputs.append(tensor("attention_mask", TensorProto.INT32, "batch", "total"))
    past, present = (tensor(name, TensorProto.FLOAT, 2, "batch", HEADS, length, SIZE // HEADS)
                     for name, length in (("past_0", "before"), ("present_0", "total")))
    return graph("decoder", nodes, [*inputs, past], [tensor("logits", TensorProto.FLOAT, "batch", "length", WORDS),
                                                     present])


def greedy(ids, longest=12, least=0, repetition=1, words=None, prefix=None, mask=None, **attributes):
    scalars = [np.array(longest, np.int32), np.array(least, np.int32), np.array(repetition, np.float32)]
    inputs = [ids, *scalars, words, prefix, mask]
    while inputs[-1] is None:
        inputs.pop()
    return "GreedySearch", inputs, {"decoder": lone_decoder(), "model_type": 0, "eos_token_id": END,
                                    "pad_token_id": PAD, **attributes}, 1


def search(ids, longest=12, least=0, beams=4, returned=2, penalty=1, repetition=None, words=None, prefix=None,
           mask=None, first=None, model_type=1, **attributes):
    """A search: operator, inputs, attributes and number of outputs."""
    masked = model_type == 1
    scalars = [(longest, np.int32), (least, np.int32), (beams, np.int32), (returned, np.int32), (penalty, np.float32),
               (repetition, np.float32)]
    inputs = [ids, *(None if value is None else np.array(value, kind) for value, kind in scalars), words, prefix, mask, first]
    while inputs[-1] is None:
        inputs.pop()
    graphs = {"encoder": encoder(masked), "decoder": decoder(masked)} if model_type != 0 else \
        {"decoder": lone_decoder()}
    return "BeamSearch", inputs, {**graphs, "model_type": model_type, "eos_token_id": END, "pad_token_id": PAD,
                                  "decoder_start_token_id": START, **attributes}, 2


def rows():
    ids = RANDOM.integers(4, WORDS, (3, 5)).astype(np.int32)
    padded = ids.copy()
    padded[1, 3:] = padded[2, :2] = PAD
    # ONNX Runtime decides whether a prompt is done by the candidates of another one: some rows have one prompt.
    one = padded[2:]
    words = np.ones(WORDS, np.int32)
    words[5:12] = 0
    prefix = RANDOM.integers(0, 2, (3, WORDS)).astype(np.int32)
    yield "plain", *search(ids)
    yield "padded", *search(padded)
    yield "attention_mask", *search(ids, mask=np.array([[1] * 5, [1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], np.int32))
    yield "one_beam", *search(ids, beams=1, returned=1)
    yield "many_beams", *search(ids, beams=9, returned=9, longest=7)
    yield "early_stopping", *search(ids, beams=6, longest=30, early_stopping=1)
    yield "length_penalty", *search(ids, penalty=2.5, longest=30)
    yield "short_is_better", *search(ids, penalty=-1.5, longest=20)
    yield "min_length", *search(ids, least=6)
    yield "repetition_penalty", *search(ids, repetition=1.8)
    yield "no_repeated_words", *search(one, no_repeat_ngram_size=1)
    yield "no_repeated_triples", *search(ids, no_repeat_ngram_size=3, longest=24)
    yield "vocabulary_mask", *search(ids, words=words)
    yield "prefix_mask", *search(ids, prefix=prefix)
    yield "all_rules", *search(one, least=4, longest=20, penalty=0.5, repetition=1.3, words=words, prefix=prefix[:1],
                               no_repeat_ngram_size=2)
    # ONNX Runtime reads memory that it has not written if there is room for one token alone.
    for name, how in (("decoder", search), ("greedy", greedy)):
        alone = {"model_type": 0} if how == search else {}
        mask = np.array([[1] * 5, [0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], np.int32)
        yield f"{name}_plain", *how(ids, **alone)
        # Behind the end of all sequences, ONNX Runtime's greedy search leaves memory that it has not written.
        yield f"{name}_padded", *how(padded if how == greedy else one, **alone)
        yield f"{name}_attention_mask", *how(ids, mask=mask, **alone)
        yield f"{name}_prefix_mask", *how(ids, prefix=prefix, words=words, **alone)
        yield f"{name}_rules", *how(one, least=9, longest=20, repetition=1.3, no_repeat_ngram_size=2, **alone)
    starts = np.full((3, 1), START, np.int32)
    yield "features", *search(f32(3, SIZE, 7), model_type=2, first=starts)
    yield "features_early_stopping", *search(f32(3, SIZE, 7), model_type=2, first=starts, early_stopping=1)
    yield "one_new_token", *search(ids, longest=2, returned=4), first_step(ids, beams=4)


def first_step(ids, beams):
    """The best sequences of one new token and their scores."""
    model = helper.make_model(encoder(True), ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    starts = np.full((len(ids), 1), START, np.int32)
    logits = compute(model, {"encoder_input_ids": ids, "encoder_attention_mask": np.ones_like(ids),
                             "decoder_input_ids": starts})[0][:, 0]
    scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    found = []
    for row in scores:
        best = [int(i) for i in np.argsort(-row)[:2 * beams]]
        ends = [(row[END], [START, PAD])] if END in best[:beams] else []
        live = [(row[i] / 2, [START, i]) for i in best if i != END][:beams]
        found.append(sorted(ends + live, key=lambda x: -x[0])[:beams])
    return [np.array([[words for _, words in row] for row in found], np.int32),
            np.array([[score for score, _ in row] for row in found], np.float32)]


if __name__ == "__main__":
    sys.exit(verify("onnx-beam-search", rows()))
