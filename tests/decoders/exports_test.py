# SPDX-License-Identifier: MIT
"""Small decoders with attention in many forms, against ONNX Runtime: prompts, and steps with pasts. Forms that
mask by position must be packed, with the same bits for any chunks of a prompt. Others must run one sequence per
run and report the blocking instruction."""

import json
import pathlib
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import helper, save

from export_masks import (CONTEXT, F32, HEADS, HIDDEN, I32, I64, KV_HEADS, LOW, RING, SIZE, SLOPES, TOKENS, Graph,
                          computed, distances, halved, inverted, joined_zeros, lookups, overwritten,
                          overwritten_columns, overwritten_first, ranges, remainders, slots, squares, stored,
                          triangles, windows)
from probe import Probe


def by_heads(g, x, heads):
    return g("Transpose", g("Reshape", x, [0, 0, heads, SIZE]), perm=[0, 2, 1, 3])


def from_heads(g, x):
    return g("Reshape", g("Transpose", x, perm=[0, 2, 1, 3]), [0, 0, HEADS * SIZE])


def products(mask, where=False, cap=0.0, early=False, guard=False):
    """Matrix multiplication, softmax, matrix multiplication over concatenated KV caches."""
    def build(g, q, k, v):
        q, k, v = by_heads(g, q, HEADS), by_heads(g, k, KV_HEADS), by_heads(g, v, KV_HEADS)
        repeated = []
        for past, new, present in (("key", k, "present.0.key"), ("value", v, "present.0.value")):
            cache = g("Concat", f"past_key_values.0.{past}", new, axis=2, outputs=[present])
            wide = g("Expand", g("Unsqueeze", cache, [2]), [1, 1, HEADS // KV_HEADS, 1, 1])
            repeated.append(g("Reshape", wide, [0, HEADS, -1, SIZE]))
        scale = SIZE ** -0.5
        if early:  # half of the scale on each operand
            q, repeated[0] = g("Mul", q, scale ** 0.5), g("Mul", repeated[0], scale ** 0.5)
            turned = g("Transpose", g("Reshape", repeated[0], [HEADS, -1, SIZE]), perm=[0, 2, 1])
            scores = g("MatMul", q, g("Reshape", turned, [1, HEADS, SIZE, -1]))
        else:
            scores = g("MatMul", q, g("Transpose", repeated[0], perm=[0, 1, 3, 2]))
            scores = g("Div", scores, 1 / scale)
        if cap:
            scores = g("Mul", g("Tanh", g("Div", scores, cap)), cap)
        if where:
            scores = g("Where", g.four(g("Greater", g.columns(), g.lines())), LOW, scores)
        else:
            scores = g("Add", scores, mask(g))
        weights = g("Softmax", scores, axis=-1)
        if guard:  # queries without a key
            weights = g("Where", g("IsNaN", weights), 0.0, weights)
        return from_heads(g, g("MatMul", weights, repeated[1]))
    return build


def wide(g, x):
    """Multi-head attention: as many key heads as query heads."""
    return g("Reshape", g("Tile", g("Reshape", x, [0, 0, KV_HEADS, 1, SIZE]), [1, 1, 1, 2, 1]), [0, 0, -1])


def bloom(g, q, k, v):
    """ALiBi slopes times counted positions, added by a batched matrix multiplication."""
    counts = g("Mul", g("Sub", g("CumSum", "attention_mask", 1), 1), "attention_mask")
    alibi = g("Mul", SLOPES.reshape(HEADS, 1), g("Cast", g("Unsqueeze", counts, [1]), to=F32))
    all_heads = g("Reshape", g("Mul", g.extent("input_ids", 0), HEADS), [1])
    joint = lambda x, *rest: g("Reshape", x, g("Concat", all_heads, *(g.constant([r]) for r in rest), axis=0))
    caches = [g("Concat", f"past_key_values.0.{past}", by_heads(g, wide(g, new), HEADS), axis=2,
                outputs=[f"present.0.{past}"]) for past, new in (("key", k), ("value", v))]
    q, k, v = (joint(x, -1, SIZE) for x in (by_heads(g, q, HEADS), *caches))
    scores = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), SIZE ** -0.5)
    scores = g("Add", g("Mul", joint(alibi, 1, -1), 1.0), scores)
    form = g("Concat", g("Reshape", g.extent("input_ids", 0), [1]), g.constant([HEADS]),
             g("Reshape", g.tokens(), [1]), g.constant([-1]), axis=0)
    weights = g("Softmax", g("Add", g("Reshape", scores, form), ranges(g)), axis=-1)
    y = g("MatMul", g("Reshape", weights, g("Concat", all_heads, g("Reshape", g.tokens(), [1]), g.constant([-1]), axis=0)), v)
    return from_heads(g, g("Reshape", y, form))


def mpt(g, q, k, v):
    """The last columns of a bias table for the whole context."""
    table = (SLOPES[:, None] * np.arange(1 - CONTEXT, 1)).reshape(HEADS, 1, CONTEXT)
    begin = g("Max", g("Sub", CONTEXT, g.total()), 0)
    bias = g("Slice", table, g("Reshape", begin, [1]), [2 ** 62], [2])
    caches = [g("Concat", f"past_key_values.0.{past}", by_heads(g, wide(g, new), HEADS), axis=2,
                outputs=[f"present.0.{past}"]) for past, new in (("key", k), ("value", v))]
    scores = g("MatMul", by_heads(g, q, HEADS), g("Transpose", caches[0], perm=[0, 1, 3, 2]))
    scores = g("Add", g("Mul", scores, SIZE ** -0.5), bias)
    scores = g("Where", g.four(g("Greater", g.columns(), g.lines())), LOW, scores)
    return from_heads(g, g("MatMul", g("Softmax", scores, axis=-1), caches[1]))


def grouped(*others, window=-1, bias=None, late=False):
    """The contrib operator with RoPE; more of them over the same past, or (`borrowed`) over the present."""
    def build(g, q, k, v):
        lengths = g("Cast", g("Sub", g("ReduceSum", "attention_mask", [1], keepdims=0), 1), to=I32)
        total = g("Cast", g.total(), to=I32)
        angles = np.arange(CONTEXT)[:, None] / 100 ** (np.arange(SIZE // 2) / (SIZE // 2))
        tables = [g.constant(np.cos(angles)), g.constant(np.sin(angles))]
        pasts, presents = ([f"{what}.0.{part}" for part in ("key", "value")] for what in ("past_key_values", "present"))
        added = bias(g) if bias else ""

        def attend(query, keys, values, caches, outputs, window):
            return g("GroupQueryAttention", query, keys, values, *caches, lengths, total, *tables, "", added,
                     outputs=[f"attended_{g.count}", *outputs], domain="com.microsoft", num_heads=HEADS,
                     kv_num_heads=KV_HEADS, do_rotary=1, local_window_size=window)[0]

        def unused():
            return [f"unused_{g.count}_{i}" for i in range(2)]

        y = attend(q, k, v, pasts, unused() if late else presents, window)
        for number, (borrowed, window_of) in enumerate(others):
            query = g("Tanh", g("Mul", q, 1.5 + number))
            if borrowed:
                none = [g("Slice", x, [0], [0], [1]) for x in (k, v)]
                y = g("Add", y, attend(query, *none, presents, unused(), window_of))
            else:
                y = g("Add", y, attend(query, k, v, pasts, presents if late else unused(), window_of))
        return y
    return build


def gemm(g, q, k, v):
    """Batch and tokens on one axis, and a GEMM with bias."""
    y = g("Reshape", products(ranges)(g, q, k, v), [-1, HEADS * SIZE])
    y = g("Gemm", y, g.weight(HEADS * SIZE, HEADS * SIZE), g.weight(HEADS * SIZE), transB=1)
    return g("Reshape", y, g("Concat", g("Shape", "input_ids"), g.constant([HEADS * SIZE]), axis=0))


def one_head(g, q, k, v):
    """One key head for all query heads without repetition; the present has another type."""
    caches = []
    for past, new in (("key", k), ("value", v)):
        new = g("Unsqueeze", g("Slice", new, [0], [SIZE], [2]), [1])
        cache = g("Concat", f"past_key_values.0.{past}", new, axis=-2)
        caches.append(g("Cast", cache, to=F32, outputs=[f"present.0.{past}"]))
    q = by_heads(g, q, HEADS)
    scores = g("MatMul", q, g("Transpose", caches[0], perm=[0, 1, 3, 2]))
    scores = g("Div", scores, g("Sqrt", g("Cast", g.extent(q, 3), to=F32)))
    weights = g("Softmax", g("Add", scores, ranges(g)), axis=-1)
    return from_heads(g, g("MatMul", weights, caches[1]))


def streams(g, q, k, v):
    """Matrices per token, element-wise table lookups, streams written one by one."""
    y = products(ranges)(g, q, k, v)
    turned = g("GatherND", g("Transpose", y, perm=[2, 0, 1]), np.arange(HEADS * SIZE)[::-1, None])
    y = g("Add", y, g("Transpose", turned, perm=[1, 2, 0]))
    y = g("Add", y, g("GatherND", g.weight(TOKENS, HEADS * SIZE), g("Unsqueeze", "input_ids", [2])))
    own = g("Reshape", g("Tanh", y), [0, 0, HEADS, SIZE])
    mixed = g("MatMul", own, g("MatMul", g("Transpose", own, perm=[0, 1, 3, 2]), own))
    index = g("Tile", g("Unsqueeze", "position_ids", [2]), [1, 1, SIZE])
    mixed = g("Add", mixed, g("Unsqueeze", g("GatherElements", g.weight(1, CONTEXT, SIZE), index, axis=1), [2]))
    both = g("Concat", g("Unsqueeze", y, [0]), g("Unsqueeze", g("Neg", y), [0]), axis=0)
    second = g("Unsqueeze", g("Reshape", mixed, [0, 0, HEADS * SIZE]), [0])
    return g("ReduceSum", g("ScatterND", both, [[1]], second), [0], keepdims=0)


def standard(mask=None, flat=False, **attributes):
    """The operator Attention of opset 23."""
    def build(g, q, k, v):
        if flat:
            attributes.update(q_num_heads=HEADS, kv_num_heads=KV_HEADS)
        else:
            q, k, v = by_heads(g, q, HEADS), by_heads(g, k, KV_HEADS), by_heads(g, v, KV_HEADS)
        outputs = [f"attended_{g.count}", "present.0.key", "present.0.value"]
        y = g("Attention", q, k, v, mask(g) if mask else "", "past_key_values.0.key", "past_key_values.0.value",
              outputs=outputs, **attributes)[0]
        return y if flat else from_heads(g, y)
    return build


def joined(g, q, k, v):
    """The operator over KV caches of Concat."""
    caches = []
    for past, new, present in (("key", k, "present.0.key"), ("value", v, "present.0.value")):
        caches.append(g("Concat", f"past_key_values.0.{past}", by_heads(g, new, KV_HEADS), axis=-2, outputs=[present]))
    return from_heads(g, g("Attention", by_heads(g, q, HEADS), *caches, lookups(g)))


def multi_head(g, q, k, v, bias=ranges):
    """The contrib operator MultiHeadAttention."""
    outputs = [f"attended_{g.count}", "present.0.key", "present.0.value"]
    return g("MultiHeadAttention", q, wide(g, k), wide(g, v), "", "", bias(g), "past_key_values.0.key",
             "past_key_values.0.value", outputs=outputs, domain="com.microsoft", num_heads=HEADS)[0]


def multi_head_room(g, q, k, v):
    """MultiHeadAttention with an explicit past length."""
    length = g("Cast", g("Reshape", g.past(), [1]), to=I32)
    y = multi_head(g, q, k, v)
    g.nodes[-1].input.append(length)
    return y


def written(mask=None, flat=False, turned=False, mode="linear", product=False, **attributes):
    """Tokens written into KV caches of fixed shape."""
    def build(g, q, k, v):
        caches = []
        for past, new, present in (("key", k, "present.0.key"), ("value", v, "present.0.value")):
            new = new if flat else by_heads(g, new, KV_HEADS)
            cache = g("TensorScatter", f"past_key_values.0.{past}", new, "write_indices", outputs=[present], mode=mode,
                      axis=1 if flat else -2)
            caches.append(by_heads(g, cache, KV_HEADS) if turned else cache)
        if product:
            extent = RING if mode == "circular" else CONTEXT
            repeated = [g("Reshape", g("Expand", g("Unsqueeze", c, [2]), [1, 1, HEADS // KV_HEADS, 1, 1]),
                          [0, HEADS, extent, SIZE]) for c in caches]
            scores = g("MatMul", by_heads(g, q, HEADS), g("Transpose", repeated[0], perm=[0, 1, 3, 2]))
            scores = g("Add", g("Mul", scores, SIZE ** -0.5), mask(g))
            return from_heads(g, g("MatMul", g("Softmax", scores), repeated[1]))
        heads = {"q_num_heads": HEADS, "kv_num_heads": KV_HEADS} if flat and not turned else {}
        y = g("Attention", q if heads else by_heads(g, q, HEADS), *caches, mask(g) if mask else "", "", "",
              "nonpad_kv_seqlen", **heads, **attributes)
        return y if heads else from_heads(g, y)
    return build


def shared(*masks, standard=False):
    """A second attention over the KV cache of the first."""
    def build(g, q, k, v):
        q = by_heads(g, q, HEADS)
        if standard:
            caches = ["present.0.key", "present.0.value"]
            y = g("Attention", q, by_heads(g, k, KV_HEADS), by_heads(g, v, KV_HEADS), masks[0](g),
                  "past_key_values.0.key", "past_key_values.0.value", outputs=[f"attended_{g.count}", *caches])[0]
        else:
            caches = [g("Concat", f"past_key_values.0.{past}", by_heads(g, new, KV_HEADS), axis=2,
                        outputs=[f"present.0.{past}"]) for past, new in (("key", k), ("value", v))]
            y = g("Attention", q, *caches, masks[0](g))
        for mask in masks[1:]:
            y = g("Add", y, g("Attention", g("Tanh", y), *caches, mask(g)))
        return from_heads(g, y)
    return build


# Sources of position ids.
def given(g):
    return "position_ids"


def counted(g):
    return g("Unsqueeze", g("Range", g.past(), g("Add", g.past(), g.tokens()), 1), [0])


def by_writing(g):
    return g("Add", g("Unsqueeze", "write_indices", [1]), g("Unsqueeze", g("Range", 0, g.tokens(), 1), [0]))


def summed(g):
    """The last columns of the mask's cumulative sum."""
    positions = g("Sub", g("CumSum", "attention_mask", 1), 1)
    return g("Slice", positions, g("Reshape", g("Sub", g.total(), g.tokens()), [1]), g("Reshape", g.total(), [1]), [1])


def switched(g):
    """Those positions, in cos/sin caches of which long sequences read the second."""
    return "position_ids"


SWITCH = 9
# Forms that match the reference only in runs of single tokens, and the form they are equal to.
MEANT = {name: (17, products(mask), given, KV_HEADS, None) for name, mask in (
    ("written_ring", windows), ("written_ring_slots", windows), ("written_ring_products", windows),
    ("written_ring_remainders", windows), ("written_ring_narrow", lambda g: windows(g, 3)))}
MEANT["multi_head_room"] = (17, multi_head, given, HEADS, None)
# Forms whose runs of several tokens differ: the reference runs each token alone.


# Name: opset, attention, positions, KV cache heads, and the instruction that blocks packing.
FORMS = {
    "ranges": (17, products(ranges), given, KV_HEADS, None),
    "window": (17, products(windows), given, KV_HEADS, None),
    "triangle": (17, products(triangles), counted, KV_HEADS, None),
    "inverted": (17, products(inverted), summed, KV_HEADS, None),
    "where": (17, products(None, where=True), counted, KV_HEADS, None),
    "cap": (17, products(ranges, cap=3.0), given, KV_HEADS, None),
    "halves": (17, products(triangles, early=True), given, KV_HEADS, None),
    "joined_zeros": (17, products(joined_zeros), given, KV_HEADS, None),
    "halved": (17, products(halved), given, KV_HEADS, None),
    "overwritten": (17, products(overwritten), counted, KV_HEADS, None),
    "overwritten_columns": (17, products(overwritten_columns), given, KV_HEADS, None),
    "overwritten_first": (17, products(overwritten_first), given, KV_HEADS, "add"),
    "stored": (17, products(stored), counted, KV_HEADS, None),
    "gemm": (17, gemm, given, KV_HEADS, None),
    "one_head": (17, one_head, given, 1, None),
    "streams": (17, streams, given, KV_HEADS, None),
    "guard": (17, products(inverted, guard=True), counted, KV_HEADS, None),
    "joined": (23, joined, given, KV_HEADS, None),
    "attention": (23, standard(is_causal=1), given, KV_HEADS, None),
    "attention_flat": (23, standard(ranges, flat=True), counted, KV_HEADS, None),
    "attention_window": (24, standard(windows, flat=True, scale=0.3), given, KV_HEADS, None),
    "attention_cap": (23, standard(is_causal=1, softcap=2.0), given, KV_HEADS, None),
    "written": (24, written(is_causal=1), given, KV_HEADS, None),
    "written_flat": (24, written(flat=True, is_causal=1), by_writing, KV_HEADS, None),
    "written_turned": (24, written(slots, flat=True, turned=True), given, KV_HEADS, None),
    "written_held": (24, written(lambda g: slots(g, held=True)), by_writing, KV_HEADS, None),
    "written_window": (24, written(lambda g: slots(g, window=5)), given, KV_HEADS, None),
    "written_products": (24, written(slots, product=True), by_writing, KV_HEADS, None),
    "written_ring": (24, written(mode="circular", is_causal=1), given, KV_HEADS, None),
    "written_ring_slots": (24, written(lambda g: slots(g, extent=RING), mode="circular"), given, KV_HEADS, None),
    "written_ring_products": (24, written(lambda g: slots(g, extent=RING), mode="circular", product=True), given, KV_HEADS,
                              None),
    "written_ring_remainders": (24, written(remainders, mode="circular"), by_writing, KV_HEADS, "attention"),
    "written_ring_narrow": (24, written(lambda g: remainders(g, 3), mode="circular"), given, KV_HEADS, "attention"),
    "written_over": (24, written(), given, KV_HEADS, "attention"),
    "shared": (23, shared(ranges, ranges), given, KV_HEADS, None),
    "shared_window": (23, shared(windows, ranges), given, KV_HEADS, None),
    "shared_windows": (23, shared(windows, lambda g: windows(g, 3), windows), counted, KV_HEADS, None),
    "shared_standard": (23, shared(ranges, windows, standard=True), given, KV_HEADS, None),
    "shared_slopes": (23, shared(ranges, distances), given, KV_HEADS, None),
    "shared_biased": (23, shared(ranges, squares), given, KV_HEADS, "attention"),
    "grouped": (17, grouped(), given, KV_HEADS, None),
    "grouped_twice": (17, grouped((False, -1)), given, KV_HEADS, None),
    "grouped_late": (17, grouped((False, 4), late=True, window=7), given, KV_HEADS, None),
    "grouped_windows": (17, grouped((False, -1), (False, 3), window=5), counted, KV_HEADS, None),
    "grouped_borrowed": (17, grouped((True, -1), (True, 6), window=4), given, KV_HEADS, None),
    "grouped_all": (17, grouped((False, 4), (True, 5), (True, 9), window=3), given, KV_HEADS, None),
    "grouped_slopes": (17, grouped(bias=distances), given, KV_HEADS, None),
    "grouped_biased": (17, grouped(bias=squares), given, KV_HEADS, "group_query_attention"),
    "multi_head_slopes": (17, lambda *x: multi_head(*x, bias=distances), given, HEADS, None),
    "multi_head": (17, multi_head, given, HEADS, None),
    "multi_head_room": (17, multi_head_room, given, HEADS, None),
    "switched": (17, products(ranges), switched, KV_HEADS, None),
    "switched_items": (17, products(squares), switched, KV_HEADS, "add"),
    "distances": (17, products(distances), given, KV_HEADS, None),
    "computed_slopes": (17, products(computed, cap=3.0), counted, KV_HEADS, None),
    "attention_slopes": (23, standard(distances), given, KV_HEADS, None),
    "bloom": (17, bloom, given, HEADS, None),
    "mpt": (17, mpt, counted, HEADS, None),
    "squares": (17, products(squares), given, KV_HEADS, "add"),
    "not_causal": (23, standard(), given, KV_HEADS, "attention"),
    "biased": (23, standard(squares), given, KV_HEADS, "attention"),
}


def make(folder, opset, attention, positions, heads, _):
    g = Graph()
    table = g.weight(CONTEXT, HIDDEN)
    if positions is switched:
        table = g("Where", g("LessOrEqual", g.total(), SWITCH), table, g.weight(CONTEXT, HIDDEN))
    x = g("Add", g("Gather", g.weight(TOKENS, HIDDEN), "input_ids"), g("Gather", table, positions(g)))
    q, k, v = (g("MatMul", x, g.weight(HIDDEN, n * SIZE)) for n in (HEADS, KV_HEADS, KV_HEADS))
    x = g("Add", x, g("MatMul", attention(g, q, k, v), g.weight(HEADS * SIZE, HIDDEN)))
    g("MatMul", g("Tanh", x), g.weight(HIDDEN, TOKENS), outputs=["logits"])
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", I64, ["batch", "tokens"]), value("attention_mask", I64, ["batch", "total"])]
    if positions in (given, switched):
        inputs.append(value("position_ids", I64, ["batch", "tokens"]))
    outputs = [value("logits", F32, ["batch", "tokens", TOKENS])]
    scattered = [n for n in g.nodes if n.op_type == "TensorScatter"]
    for what in ("key", "value"):
        past, total = ["batch", heads, "past", SIZE], ["batch", heads, "total", SIZE]
        if scattered:
            options = {a.name: helper.get_attribute_value(a) for a in scattered[0].attribute}
            capacity = RING if options["mode"] == b"circular" else CONTEXT
            past = total = ["batch", capacity, heads * SIZE] if options["axis"] == 1 else ["batch", heads, capacity, SIZE]
        inputs.append(value(f"past_key_values.0.{what}", F32, past))
        outputs.append(value(f"present.0.{what}", F32, total))
    if scattered:
        inputs.extend(value(name, I64, ["batch"]) for name in ("write_indices", "nonpad_kv_seqlen"))
    model = helper.make_model(helper.make_graph(g.nodes, "decoder", inputs, outputs, g.tensors), ir_version=10,
                              opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
    folder.mkdir()
    save(model, folder / "model.onnx")
    decoder = {"filename": "model.onnx", "num_hidden_layers": 1, "num_attention_heads": HEADS,
               "num_key_value_heads": heads, "head_size": SIZE, "hidden_size": HIDDEN}
    config = {"model": {"type": "llama", "vocab_size": TOKENS, "context_length": CONTEXT, "eos_token_id": 0,
                        "pad_token_id": 0, "decoder": decoder}, "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config))


def reference(folder, heads, tokens, parts, alone=False):
    """Logits [tokens, TOKENS] of ONNX Runtime in parts of the prompt, and the last presents; or logits of each token
    computed with all before it."""
    if alone:
        ends = np.cumsum(parts)
        each = [reference(folder, heads, tokens, (end,))[0][end - part:] for end, part in zip(ends, parts)]
        return np.concatenate(each), None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    past = next(i for i in session.get_inputs() if i.name == "past_key_values.0.key").shape
    state = [np.zeros([1 if d == "batch" else 0 if isinstance(d, str) else d for d in past], np.float32)] * 2
    begin, found = 0, []
    most = past[2] if len(past) == 4 and isinstance(past[2], int) else CONTEXT  # slots of a ring buffer
    for part in parts:
        end = begin + part
        feeds = {"input_ids": np.array([tokens[begin:end]]), "attention_mask": np.ones((1, end), np.int64),
                 "past_key_values.0.key": state[0], "past_key_values.0.value": state[1],
                 "position_ids": np.arange(begin, end)[None], "write_indices": np.array([begin]),
                 "nonpad_kv_seqlen": np.array([min(end, most)])}
        logits, *state = session.run(None, {name: feed for name, feed in feeds.items() if name in names})
        found.append(logits[0])
        begin = end
    return np.concatenate(found), state


def check(probe, folder, name):
    """Yields problems."""
    _, _, positions, heads, reason = FORMS[name]
    long = positions is switched
    tokens = [(7 * i * i + 3 * i) % TOKENS for i in range(17)]
    meant = folder.with_name(f"{name}_meant")
    if name in MEANT:
        make(meant, *MEANT[name])
    for target in ("ref", "cpu"):
        model = {"folder": str(folder), "target": target}
        notes = probe.ask({**model, "notes": True})
        if notes["packed"] != (reason is None) or (reason and not notes["not_packed_reason"].startswith(reason + " ")):
            yield f"{'packed' if notes['packed'] else notes['not_packed_reason']}, expected {reason or 'packed'}"
        whole = probe.logits(model, [tokens])
        for parts in ((17,), (5, 7, 1, 1, 3)):
            expected, _ = reference(meant if name in MEANT else folder, heads, tokens, parts, long)
            got = probe.logits(model, [tokens], parts)
            if not np.abs(got - expected).max() <= 2e-5:
                yield f"logits in parts of {parts} on {target} are {np.abs(got - expected).max()} away"
            if reason is None and not long and got.tobytes() != whole.tobytes():
                yield f"parts of {parts} on {target} change bits"
        if reason is None and not long:
            # A ring buffer accepts at most as many tokens as slots.
            _, presents = reference(meant if name == "multi_head_room" else folder, heads, tokens, (RING, RING, RING, 2))
            states = probe.states(model, tokens)
            for what, present in zip(("key", "value"), presents):
                state = states[f"present.0.{what}"]
                if state.shape != present.shape or not np.abs(state - present).max() <= 2e-5:
                    yield f"the {what}s on {target} are {state.shape}, not those of {present.shape}"
        unequal = [tokens, tokens[:4], tokens[3:12]]
        beside = probe.logits(model, unequal)
        alone = np.concatenate([probe.logits(model, [own]) for own in unequal])
        if beside.tobytes() != alone.tobytes():
            yield f"other sequences on {target} change bits"


def main():
    passed, failed = 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for name, form in FORMS.items():
            folder = pathlib.Path(work) / name
            make(folder, *form)
            problems = list(check(probe, folder, name))
            for problem in problems:
                print(f"wrong: {name}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
