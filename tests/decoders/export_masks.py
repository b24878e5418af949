# SPDX-License-Identifier: MIT
"""What exporters write out about positions: masks and biases of attention, by a small builder of graphs."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, KV_HEADS, SIZE, TOKENS, CONTEXT = 32, 4, 2, 16, 40, 64
F32, I64, I32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
LOW = float(np.finfo(np.float32).min)
SLOPES = np.array([0.5, 0.3, 0.125, 0.07])
RING = 5  # rows of a cache that is written in a circle


class Graph:
    """Nodes and constants under construction; a node gives the name of its first output."""

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

    # Counts, scalars; keys [1, total] and rows [rows, 1] by position.
    def rows(self):
        return self.extent("input_ids", 1)

    def total(self):
        return self.extent("attention_mask", 1)

    def past(self):
        return self.extent("past_key_values.0.key", 2)

    def columns(self):
        return self("Unsqueeze", self("Range", 0, self.total(), 1), [0])

    def lines(self):
        return self("Unsqueeze", self("Range", self("Sub", self.total(), self.rows()), self.total(), 1), [1])

    def four(self, mask):
        return self("Unsqueeze", mask, [0, 1])


def ranges(g):
    """Comparison of ranges, joined with the padding mask, made to numbers by Where."""
    padding = g("Unsqueeze", g("Cast", "attention_mask", to=BOOL), [1, 2])
    allowed = g("And", g.four(g("LessOrEqual", g.columns(), g.lines())), padding)
    return g("Where", allowed, 0.0, LOW)


def windows(g, rows=5):
    near = g("Greater", g.columns(), g("Sub", g.lines(), rows))
    return g("Where", g.four(g("And", g("LessOrEqual", g.columns(), g.lines()), near)), 0.0, LOW)


def triangles(g):
    """A triangle over all keys, of which the last rows are cut out."""
    shape = g("Concat", g("Reshape", g.total(), [1]), g("Reshape", g.total(), [1]), axis=0)
    full = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([LOW], np.float32)))
    upper = g("Trilu", full, 1, upper=1)
    begin = g("Reshape", g("Sub", g.total(), g.rows()), [1])
    return g.four(g("Slice", upper, begin, g("Reshape", g.total(), [1]), [0]))


def inverted(g):
    """(1 - mask) * low for padding, added to the same of positions, as older exporters do."""
    padding = g("Cast", g("Unsqueeze", "attention_mask", [1, 2]), to=F32)
    padding = g("Mul", g("Sub", 1.0, padding), LOW)
    causal = g("Cast", g("Greater", g.columns(), g.lines()), to=F32)
    return g("Add", g.four(g("Mul", causal, -1e9)), padding)


def distances(g):
    """A bias that grows with distance, beside the mask."""
    distance = g("Cast", g("Sub", g.columns(), g.lines()), to=F32)
    return g("Add", ranges(g), g("Mul", g.four(distance), g.constant(SLOPES.reshape(1, HEADS, 1, 1))))


def computed(g):
    """The same from slopes that are computed, chosen by the mask, twice in parts."""
    slopes = g("Reshape", g("Pow", 2.0, g("Mul", g.constant(np.arange(1.0, HEADS + 1)), -0.75)), [HEADS, 1, 1])
    keys = g("Unsqueeze", g("Cast", g("Sub", g.columns(), g("Sub", g.total(), 1)), to=F32), [0])
    allowed = g("LessOrEqual", g.columns(), g.lines())
    half = g("Unsqueeze", g("Mul", slopes, g("Div", keys, 2.0)), [0])
    return g("Where", g.four(allowed), g("Add", half, half), LOW)


def squares(g):
    """A bias that grows with the square of the distance: neither a mask nor slopes."""
    distance = g("Cast", g("Sub", g.columns(), g.lines()), to=F32)
    slopes = g.constant(np.array([0.05, 0.03, 0.02, 0.01]).reshape(1, HEADS, 1, 1))
    return g("Sub", ranges(g), g("Mul", g.four(g("Mul", distance, distance)), slopes))


def lookups(g):
    """Padding looked up by index, booleans all the way to the last."""
    padding = g("Gather", g("Cast", "attention_mask", to=BOOL), g("Squeeze", g.columns(), [0]), axis=1)
    return g("And", g.four(g("LessOrEqual", g.columns(), g.lines())), g("Unsqueeze", padding, [1, 2]))


def joined_zeros(g):
    """A triangle of the new rows, behind zeros for the past."""
    new = g("Range", 0, g.rows(), 1)
    later = g("Less", g("Unsqueeze", new, [0]), g("Unsqueeze", g("Add", new, 1), [1]))
    triangle = g("Where", later, 0.0, LOW)
    shape = g("Concat", g("Reshape", g.rows(), [1]), g("Reshape", g.past(), [1]), axis=0)
    zeros = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([0], np.float32)))
    return g.four(g("Concat", zeros, triangle, axis=-1))


def halved(g):
    """A triangle that knows no past, times where keys come later than rows."""
    shape = g("Concat", g("Reshape", g.rows(), [1]), g("Reshape", g.total(), [1]), axis=0)
    full = g("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([LOW], np.float32)))
    later = g("Cast", g("Greater", g.columns(), g.lines()), to=F32)
    return g.four(g("Mul", g("Trilu", full, 1, upper=1), later))


def stored(g):
    """Cut out of a table of all positions."""
    table = g.constant(np.tril(np.ones((1, 1, CONTEXT, CONTEXT), bool)))
    begin, end = g("Reshape", g("Sub", g.total(), g.rows()), [1]), g("Reshape", g.total(), [1])
    allowed = g("Slice", g("Slice", table, begin, end, [2]), [0], end, [3])
    return g("Where", allowed, 0.0, LOW)


def clipped(g):
    """The triangle of the new rows where keys come later, and padding, before all is written over itself."""
    mask = halved(g)
    padding = g("Equal", g("Add", mask, g("Cast", g("Unsqueeze", "attention_mask", [1, 2]), to=F32)), 0.0)
    return mask, g("Where", padding, LOW, mask)


def overwritten(g):
    """Every element by its own indices, as an assignment to a slice of all is exported."""
    mask, masked = clipped(g)
    shape = g("Shape", mask)
    places = []
    for axis in range(4):
        form = [-1 if other == axis else 1 for other in range(4)]
        places.append(g("Unsqueeze", g("Expand", g("Reshape", g("Range", 0, g.extent(mask, axis), 1), form), shape), [-1]))
    return g("ScatterND", mask, g("Concat", *places, axis=-1), g("Reshape", masked, shape))


def overwritten_columns(g):
    """The same column by column."""
    mask, masked = (g("Transpose", m, perm=[3, 0, 1, 2]) for m in clipped(g))
    columns = g("Unsqueeze", g("Range", 0, g.total(), 1), [-1])
    return g("Transpose", g("ScatterND", mask, columns, masked), perm=[1, 2, 3, 0])


def overwritten_first(g):
    """All but the last column."""
    mask, masked = (g("Transpose", m, perm=[3, 0, 1, 2]) for m in clipped(g))
    columns = g("Range", 0, g("Sub", g.total(), 1), 1)
    rest = g("Slice", masked, [0], [-1], [0])
    return g("Transpose", g("ScatterND", mask, g("Unsqueeze", columns, [-1]), rest), perm=[1, 2, 3, 0])


def remainders(g, window=0):
    """Where rows of a ring may look: at slots whose row was written, and is no more than `window` back."""
    own = g("Add", g("Unsqueeze", "write_indices", [1]), g("Unsqueeze", g("Range", 0, g.rows(), 1), [0]))
    own, slot = g("Unsqueeze", own, [1, 3]), g.constant(np.arange(RING))
    back = g("Mod", g("Sub", own, slot), RING)
    return g("Where", g("And", g("LessOrEqual", back, own), g("Less", back, window or RING)), 0.0, LOW)


def slots(g, window=0, held=False, extent=CONTEXT):
    """Where rows of a cache of fixed extents may look: at slots up to their own."""
    own = g("Add", g("Unsqueeze", "write_indices", [1]), g("Unsqueeze", g("Range", 0, g.rows(), 1), [0]))
    own, slot = g("Unsqueeze", own, [1, 3]), g.constant(np.arange(extent))
    allowed = g("LessOrEqual", slot, own)
    if window:
        allowed = g("And", allowed, g("Greater", slot, g("Sub", own, window)))
    if held:
        allowed = g("And", allowed, g("Less", slot, g("Unsqueeze", "nonpad_kv_seqlen", [1, 2, 3])))
    return g("Where", allowed, 0.0, LOW)
