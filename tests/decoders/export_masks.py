# SPDX-License-Identifier: MIT
"""Attention masks and biases as exporters write them, by a small graph builder."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, KV_HEADS, SIZE, TOKENS, CONTEXT = 32, 4, 2, 16, 40, 64
F32, I64, I32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
LOW = float(np.finfo(np.float32).min)
SLOPES = np.array([0.5, 0.3, 0.125, 0.07])
RING = 5  # slots of a ring-buffer KV cache


class Graph:
    """Nodes and constants under construction; adding a node returns the name of its first output."""

    def __init__(self):
        self.random = np.random.default_rng(3)
        self.nodes, self.tensors, self.count = [], [], 0

    def __call__(self, op, *inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = outputs if isinstance(outputs, list) else [f"{op}_{self.count}_{i}" for i in range(outputs)]
        inputs = [self.constant(i) if not isinstance(i, str) else i for i in inputs]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{self.count}", domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def constant(self, value):
        self.count += 1
        value = np.asarray(value)
        value = value.astype({"f": np.float32, "i": np.int64}.get(value.dtype.kind, value.dtype))
        self.tensors.append(numpy_helper.from_array(value, f"c{self.count}"))
        return f"c{self.count}"

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape) / shape[0] ** 0.5)

    def extent(self, value, axis):
        return self("Gather", self("Shape", value), axis)

    # Scalar counts; positions of keys [1, total] and of queries [tokens, 1].
    def tokens(self):
        return self.extent("input_ids", 1)

    def total(self):
        return self.extent("attention_mask", 1)

    def past(self):
        return self.extent("past_key_values.0.key", 2)

    def columns(self):
        return self("Unsqueeze", self("Range", 0, self.total(), 1), [0])

    def lines(self):
        return self("Unsqueeze", self("Range", self("Sub", self.total(), self.tokens()), self.total(), 1), [1])

    def four(self, mask):
        return self("Unsqueeze", mask, [0, 1])


def ranges(g):
    """A comparison of ranges and the padding mask, converted to a bias by Where."""
    padding = g("Unsqueeze", g("Cast", "attention_mask", to=BOOL), [1, 2])
    allowed = g("And", g.four(g("LessOrEqual", g.columns(), g.lines())), padding)
    return g("Where", allowed, 0.0, LOW)


def windows(g, length=5):
    near = g("Greater", g.columns(), g("Sub", g.lines(), length))
    return g("Where", g.four(g("And", g("LessOrEqual", g.columns(), g.lines()), near)), 0.0, LOW)


def triangles(g):
    """The last tokens' part of a triangle over all keys."""
    shape = g("Concat", g("Reshape", g.total(), [1]), g("Reshape", g.total(), [1]), axis=0)
    full = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([LOW], np.float32)))
    upper = g("Trilu", full, 1, upper=1)
    begin = g("Reshape", g("Sub", g.total(), g.tokens()), [1])
    return g.four(g("Slice", upper, begin, g("Reshape", g.total(), [1]), [0]))


def inverted(g):
    """(1 - mask) * low for padding, added to a causal bias, as in older exporters."""
    padding = g("Cast", g("Unsqueeze", "attention_mask", [1, 2]), to=F32)
    padding = g("Mul", g("Sub", 1.0, padding), LOW)
    causal = g("Cast", g("Greater", g.columns(), g.lines()), to=F32)
    return g("Add", g.four(g("Mul", causal, -1e9)), padding)


def distances(g):
    """A bias linear in the distance, and a mask."""
    distance = g("Cast", g("Sub", g.columns(), g.lines()), to=F32)
    return g("Add", ranges(g), g("Mul", g.four(distance), g.constant(SLOPES.reshape(1, HEADS, 1, 1))))


def computed(g):
    """That bias from computed slopes, selected by the mask, in two parts."""
    slopes = g("Reshape", g("Pow", 2.0, g("Mul", g.constant(np.arange(1.0, HEADS + 1)), -0.75)), [HEADS, 1, 1])
    keys = g("Unsqueeze", g("Cast", g("Sub", g.columns(), g("Sub", g.total(), 1)), to=F32), [0])
    allowed = g("LessOrEqual", g.columns(), g.lines())
    half = g("Unsqueeze", g("Mul", slopes, g("Div", keys, 2.0)), [0])
    return g("Where", g.four(allowed), g("Add", half, half), LOW)


def squares(g):
    """A bias quadratic in the distance: neither a mask nor ALiBi slopes."""
    distance = g("Cast", g("Sub", g.columns(), g.lines()), to=F32)
    slopes = g.constant(np.array([0.05, 0.03, 0.02, 0.01]).reshape(1, HEADS, 1, 1))
    return g("Sub", ranges(g), g("Mul", g.four(g("Mul", distance, distance)), slopes))


def lookups(g):
    """Padding gathered by index; booleans up to the last step."""
    padding = g("Gather", g("Cast", "attention_mask", to=BOOL), g("Squeeze", g.columns(), [0]), axis=1)
    return g("And", g.four(g("LessOrEqual", g.columns(), g.lines())), g("Unsqueeze", padding, [1, 2]))


def joined_zeros(g):
    """A triangle of the new tokens after zeros for the past."""
    new = g("Range", 0, g.tokens(), 1)
    later = g("Less", g("Unsqueeze", new, [0]), g("Unsqueeze", g("Add", new, 1), [1]))
    triangle = g("Where", later, 0.0, LOW)
    shape = g("Concat", g("Reshape", g.tokens(), [1]), g("Reshape", g.past(), [1]), axis=0)
    zeros = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([0], np.float32)))
    return g.four(g("Concat", zeros, triangle, axis=-1))


def halved(g):
    """A triangle without past, times a comparison of key and query positions."""
    shape = g("Concat", g("Reshape", g.tokens(), [1]), g("Reshape", g.total(), [1]), axis=0)
    full = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([LOW], np.float32)))
    later = g("Cast", g("Greater", g.columns(), g.lines()), to=F32)
    return g.four(g("Mul", g("Trilu", full, 1, upper=1), later))


def stored(g):
    """A slice of a table of all positions."""
    table = g.constant(np.tril(np.ones((1, 1, CONTEXT, CONTEXT), bool)))
    begin, end = g("Reshape", g("Sub", g.total(), g.tokens()), [1]), g("Reshape", g.total(), [1])
    allowed = g("Slice", g("Slice", table, begin, end, [2]), [0], end, [3])
    return g("Where", allowed, 0.0, LOW)


def clipped(g):
    """The triangle of the new tokens and padding, then overwritten by itself."""
    mask = halved(g)
    padding = g("Equal", g("Add", mask, g("Cast", g("Unsqueeze", "attention_mask", [1, 2]), to=F32)), 0.0)
    return mask, g("Where", padding, LOW, mask)


def overwritten(g):
    """Scatters every element by its indices, as an exported slice assignment does."""
    mask, masked = clipped(g)
    shape = g("Shape", mask)
    places = []
    for axis in range(4):
        form = [-1 if other == axis else 1 for other in range(4)]
        places.append(g("Unsqueeze", g("Expand", g("Reshape", g("Range", 0, g.extent(mask, axis), 1), form), shape), [-1]))
    return g("ScatterND", mask, g("Concat", *places, axis=-1), g("Reshape", masked, shape))


def overwritten_columns(g):
    """Scatters column by column."""
    mask, masked = (g("Transpose", m, perm=[3, 0, 1, 2]) for m in clipped(g))
    columns = g("Unsqueeze", g("Range", 0, g.total(), 1), [-1])
    return g("Transpose", g("ScatterND", mask, columns, masked), perm=[1, 2, 3, 0])


def overwritten_first(g):
    """Scatters all but the last column."""
    mask, masked = (g("Transpose", m, perm=[3, 0, 1, 2]) for m in clipped(g))
    columns = g("Range", 0, g("Sub", g.total(), 1), 1)
    rest = g("Slice", masked, [0], [-1], [0])
    return g("Transpose", g("ScatterND", mask, g("Unsqueeze", columns, [-1]), rest), perm=[1, 2, 3, 0])


def remainders(g, window=0):
    """Mask of a ring-buffer KV cache: slots that are written and at most `window` back."""
    own = g("Add", g("Unsqueeze", "write_indices", [1]), g("Unsqueeze", g("Range", 0, g.tokens(), 1), [0]))
    own, slot = g("Unsqueeze", own, [1, 3]), g.constant(np.arange(RING))
    back = g("Mod", g("Sub", own, slot), RING)
    return g("Where", g("And", g("LessOrEqual", back, own), g("Less", back, window or RING)), 0.0, LOW)


def slots(g, window=0, held=False, extent=CONTEXT):
    """Mask of a KV cache of fixed shape: slots up to the query's own."""
    own = g("Add", g("Unsqueeze", "write_indices", [1]), g("Unsqueeze", g("Range", 0, g.tokens(), 1), [0]))
    own, slot = g("Unsqueeze", own, [1, 3]), g.constant(np.arange(extent))
    allowed = g("LessOrEqual", slot, own)
    if window:
        allowed = g("And", allowed, g("Greater", slot, g("Sub", own, window)))
    if held:
        allowed = g("And", allowed, g("Less", slot, g("Unsqueeze", "nonpad_kv_seqlen", [1, 2, 3])))
    return g("Where", allowed, 0.0, LOW)
