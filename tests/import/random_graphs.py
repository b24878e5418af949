# SPDX-License-Identifier: MIT
"""Random ONNX graphs with symbolic sizes: operators of every kind, control flow, odd names, zero extents."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

NAMES = ["x", "a b", "x:0", "scope/x", "é", "-1", "%0", "#", "x.y", "'q'", "N", "if"]
SIZES = [0, 1, 1, 2, 3, 3, 4, 5]
FLOATS = (np.float32, np.float64)


class Graph:
    """Nodes, and values by name: one array per binding of the sizes."""

    def __init__(self, seed, outer=None):
        self.random = np.random.default_rng(seed) if outer is None else outer.random
        self.nodes, self.initializers, self.inputs = [], [], []
        self.values = {}  # name: (element type, shapes of both bindings)
        self.names = [0] if outer is None else outer.names
        self.outer = outer

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return items[int(self.random.integers(len(items)))]

    def name(self):
        self.names[0] += 1
        return f"{self.pick(NAMES)}{self.names[0]}"

    def constant(self, array):
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, operator, inputs, results, **attributes):
        """Adds a node; results are (element type, shapes)."""
        names = [self.name() for _ in results]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        for name, result in zip(names, results):
            self.values[name] = result
        return names[0]

    def visible(self):
        values = dict(self.outer.visible()) if self.outer else {}
        values.update(self.values)
        return values

    def choose(self, accept):
        found = [name for name, value in self.visible().items() if accept(*value)]
        return self.pick(found) if found else None


def is_float(kind, shapes):
    return kind in FLOATS


def floats(g, accept=lambda shapes: True):
    name = g.choose(lambda kind, shapes: kind in FLOATS and accept(shapes))
    return (name, *g.visible()[name]) if name else None


def rank(shapes):
    return len(shapes[0])


def unary(g):
    x, kind, shapes = floats(g)
    operator = g.pick(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softplus", "Erf", "Identity", "Elu", "Softsign"])
    if kind == np.float64 and operator in ("Softplus", "Softsign", "Erf", "Elu"):
        operator = "Tanh"
    g.add(operator, [x], [(kind, shapes)])


def binary(g):
    x, kind, shapes = floats(g)
    y = g.choose(lambda other, sizes: other == kind and all(broadcasts(a, b) for a, b in zip(shapes, sizes)))
    sizes = g.visible()[y][1]
    if g.chance(0.3):
        constant = g.random.standard_normal(shapes[0][-1:] if rank(shapes) and shapes[0][-1] == shapes[1][-1] else ())
        y, sizes = g.constant(constant.astype(kind)), [constant.shape] * 2
    g.add(g.pick(["Add", "Sub", "Mul", "Max", "Min"]), [x, y],
          [(kind, [np.broadcast_shapes(a, b) for a, b in zip(shapes, sizes)])])


def broadcasts(a, b):
    try:
        np.broadcast_shapes(a, b)
        return True
    except ValueError:
        return False


def transpose(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if not found:
        return
    x, kind, shapes = found
    order = [int(i) for i in g.random.permutation(rank(shapes))]
    g.add("Transpose", [x], [(kind, [tuple(shape[i] for i in order) for shape in shapes])], perm=order)


def reshape(g):
    """Flattens two neighbouring axes, with 0 and -1 in the shape, or through Shape."""
    found = floats(g, lambda shapes: rank(shapes) >= 2 and all(0 not in shape for shape in shapes))
    if not found:
        return
    x, kind, shapes = found
    axis = int(g.random.integers(rank(shapes) - 1))
    results = [shape[:axis] + (shape[axis] * shape[axis + 1],) + shape[axis + 2:] for shape in shapes]
    if axis == rank(shapes) - 2 and g.chance(0.6):
        target = g.constant(np.array([0] * axis + [-1], np.int64))
    else:
        shape = g.add("Shape", [x], [(np.int64, [(rank(shapes),)] * 2)])
        parts = [g.add("Slice", [shape, g.constant(np.array([a], np.int64)), g.constant(np.array([b], np.int64))],
                       [(np.int64, [(b - a,)] * 2)])
                 for a, b in ((0, axis), (axis, axis + 2), (axis + 2, rank(shapes)))]
        middle = g.add("ReduceProd", [parts[1]], [(np.int64, [(1,)] * 2)], keepdims=1)
        target = g.add("Concat", [parts[0], middle, parts[2]], [(np.int64, [(rank(shapes) - 1,)] * 2)], axis=0)
    g.add("Reshape", [x, target], [(kind, results)])


def squeeze(g):
    x, kind, shapes = floats(g)
    if rank(shapes) < 4 and g.chance(0.6):
        axis = int(g.random.integers(rank(shapes) + 1))
        g.add("Unsqueeze", [x, g.constant(np.array([axis], np.int64))],
              [(kind, [shape[:axis] + (1,) + shape[axis:] for shape in shapes])])
        return
    axes = [i for i in range(rank(shapes)) if all(shape[i] == 1 for shape in shapes)]
    if axes:
        axis = g.pick(axes)
        g.add("Squeeze", [x, g.constant(np.array([axis - rank(shapes)], np.int64))],
              [(kind, [shape[:axis] + shape[axis + 1:] for shape in shapes])])


def reduce(g):
    # ONNX Runtime reduces empty tensors over negative axes wrongly.
    found = floats(g, lambda shapes: rank(shapes) > 0 and all(0 not in shape for shape in shapes))
    if not found:
        return
    x, kind, shapes = found
    axis, keep = int(g.random.integers(rank(shapes))), g.chance(0.5)
    results = [shape[:axis] + ((1,) if keep else ()) + shape[axis + 1:] for shape in shapes]
    operator = g.pick(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceSumSquare"])
    given = axis if g.chance(0.5) else axis - rank(shapes)
    g.add(operator, [x, g.constant(np.array([given], np.int64))], [(kind, results)], keepdims=int(keep))


def softmax(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if found:
        x, kind, shapes = found
        g.add(g.pick(["Softmax", "LogSoftmax"]), [x], [(kind, shapes)], axis=int(g.random.integers(-rank(shapes), rank(shapes))))


def matmul(g):
    found = floats(g, lambda shapes: rank(shapes) >= 2 and shapes[0][-1] == shapes[1][-1])
    if not found:
        return
    x, kind, shapes = found
    # ONNX Runtime does not set products with an empty vector.
    columns = g.pick([(), (1,), (2,), (5,)] if shapes[0][-1] > 0 else [(1,), (2,), (5,)])
    w = g.constant((g.random.standard_normal((shapes[0][-1], *columns)) / 2).astype(kind))
    results = [shape[:-1] + columns for shape in shapes]
    y = g.add("MatMul", [x, w], [(kind, results)])
    if results[0][-1:] == results[1][-1:] and g.chance(0.3):
        g.add(g.pick(["Add", "Mul"]), [y, g.constant(g.random.standard_normal(results[0][-1:]).astype(kind))],
              [(kind, results)])


def concat(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if not found:
        return
    x, kind, shapes = found
    axis = int(g.random.integers(rank(shapes)))
    g.add("Concat", [x, x, x][:int(g.random.integers(1, 4))],
          [(kind, [shape[:axis] + (shape[axis] * 0,) + shape[axis + 1:] for shape in shapes])], axis=axis)
    name = next(reversed(g.values))
    count = len(g.nodes[-1].input)
    g.values[name] = (kind, [shape[:axis] + (shape[axis] * count,) + shape[axis + 1:] for shape in shapes])


def slices(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if not found:
        return
    x, kind, shapes = found
    axis = int(g.random.integers(rank(shapes)))
    start, end, step = g.pick([(0, 2, 1), (1, 100, 1), (-2, 100, 1), (0, 100, 2), (-1, -100, -1), (3, 0, -2), (5, 9, 1)])
    results = [shape[:axis] + (len(range(shape[axis])[slice(start, end if end > -100 else None, step)]),) + shape[axis + 1:]
               for shape in shapes]
    arguments = [g.constant(np.array([v], np.int64)) for v in (start, end, axis, step)]
    g.add("Slice", [x, *arguments], [(kind, results)])


def gather(g):
    found = floats(g, lambda shapes: any(min(a, b) > 0 for a, b in zip(*shapes)))
    if not found:
        return
    x, kind, shapes = found
    axis = g.pick([i for i, (a, b) in enumerate(zip(*shapes)) if min(a, b) > 0])
    limit = min(shape[axis] for shape in shapes)
    indices = g.random.integers(-limit, limit, g.pick([(), (2,), (2, 1)]))
    g.add("Gather", [x, g.constant(np.array(indices, np.int64))],
          [(kind, [shape[:axis] + np.shape(indices) + shape[axis + 1:] for shape in shapes])], axis=axis)


def where(g):
    x, kind, shapes = floats(g)
    limit = g.constant(np.array(g.random.standard_normal(), kind))
    test = g.add(g.pick(["Greater", "Less"]), [x, limit], [(np.bool_, shapes)])
    g.add("Where", [test, x, limit], [(kind, shapes)])


def cast(g):
    x, kind, shapes = floats(g)
    to = np.float32 if kind == np.float64 else np.float64
    g.add("Cast", [x], [(to, shapes)], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def pad(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if found:
        x, kind, shapes = found
        pads = g.random.integers(0, 3, 2 * rank(shapes))
        results = [tuple(int(n + pads[i] + pads[i + len(shape)]) for i, n in enumerate(shape)) for shape in shapes]
        g.add("Pad", [x, g.constant(pads.astype(np.int64)), g.constant(np.array(0.5, kind))], [(kind, results)])


def expand(g):
    x, kind, shapes = floats(g)
    if rank(shapes) < 4:
        g.add("Expand", [x, g.constant(np.array([2] + [1] * rank(shapes), np.int64))],
              [(kind, [(2,) + shape for shape in shapes])])


def split(g):
    found = floats(g, lambda shapes: any(a == b and a >= 2 for a, b in zip(*shapes)))
    if found:
        x, kind, shapes = found
        axis = g.pick([i for i, (a, b) in enumerate(zip(*shapes)) if a == b and a >= 2])
        sizes = [1, shapes[0][axis] - 1]
        g.add("Split", [x, g.constant(np.array(sizes, np.int64))],
              [(kind, [shape[:axis] + (n,) + shape[axis + 1:] for shape in shapes]) for n in sizes], axis=axis)


def layer_norm(g):
    found = floats(g, lambda shapes: rank(shapes) > 0 and shapes[0][-1] == shapes[1][-1] > 1)
    if found and found[1] == np.float32:
        x, kind, shapes = found
        sizes = (shapes[0][-1],)
        if rank(shapes) > 1 and shapes[0][-2] == shapes[1][-2] > 0 and g.chance(0.4):
            sizes = (shapes[0][-2], g.pick([1, shapes[0][-1]]))
        scale = g.constant(g.random.standard_normal(sizes).astype(kind))
        g.add("LayerNormalization", [x, scale], [(kind, shapes)], axis=-1, epsilon=1e-2)


def convolution(g):
    found = floats(g, lambda shapes: rank(shapes) == 3 and shapes[0][1] == shapes[1][1] > 0 and
                   min(shapes[0][2], shapes[1][2]) > 0 and min(shapes[0][0], shapes[1][0]) > 0)
    if not found or found[1] != np.float32:
        return
    x, kind, shapes = found
    if g.chance(0.4):
        g.add(g.pick(["MaxPool", "AveragePool"]), [x], [(kind, shapes)], kernel_shape=[3], pads=[1, 1])
        return
    w = g.constant((g.random.standard_normal((2, shapes[0][1], 3)) / 3).astype(kind))
    g.add("Conv", [x, w], [(kind, [(shape[0], 2, shape[2]) for shape in shapes])], pads=[1, 1])


def cumsum(g):
    found = floats(g, lambda shapes: rank(shapes) > 0)
    if found:
        x, kind, shapes = found
        axis = g.constant(np.array(g.random.integers(rank(shapes)), np.int64))
        g.add("CumSum", [x, axis], [(kind, shapes)], exclusive=int(g.chance(0.5)), reverse=int(g.chance(0.5)))


def condition(g):
    """An If whose branches compute from values around it."""
    x, kind, shapes = floats(g)
    flag = g.choose(lambda other, sizes: other == np.bool_ and sizes[0] == sizes[1] == ())
    flag = flag or g.constant(np.array(g.chance(0.5)))
    branches = []
    for _ in range(2):
        inner = Graph(0, g)
        y = inner.add(g.pick(["Relu", "Neg", "Tanh"]), [x], [(kind, shapes)])
        y = inner.add("Mul", [y, inner.constant(np.array(0.5, kind))], [(kind, shapes)])
        branches.append(helper.make_graph(inner.nodes, "branch", [], [helper.make_empty_tensor_value_info(y)],
                                          inner.initializers))
    g.add("If", [flag], [(kind, shapes)], then_branch=branches[0], else_branch=branches[1])


def loop(g):
    """A Loop of a few steps that carries one value and stacks another."""
    x, kind, shapes = floats(g)
    if rank(shapes) > 3:
        return
    # Without a step ONNX Runtime stacks sizes that the body does not declare as 0.
    trips = int(g.random.integers(1, 4))
    inner = Graph(0, g)
    step, going, carried = inner.name(), inner.name(), inner.name()
    inner.values[carried] = (kind, shapes)
    y = inner.add(g.pick(["Tanh", "Neg"]), [carried], [(kind, shapes)])
    stacked = inner.add("Add", [y, x], [(kind, shapes)])
    kept = inner.name()
    inner.nodes.append(helper.make_node("Identity", [going], [kept]))
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    body = helper.make_graph(
        inner.nodes, "body",
        [helper.make_tensor_value_info(step, TensorProto.INT64, []), helper.make_tensor_value_info(going, TensorProto.BOOL, []),
         helper.make_tensor_value_info(carried, element, [None] * rank(shapes))],
        [helper.make_empty_tensor_value_info(kept), helper.make_empty_tensor_value_info(y),
         helper.make_empty_tensor_value_info(stacked)], inner.initializers)
    g.add("Loop", [g.constant(np.array(trips, np.int64)), "", x],
          [(kind, shapes), (kind, [(trips,) + shape for shape in shapes])], body=body)


STEPS = [unary, unary, binary, binary, transpose, reshape, squeeze, reduce, softmax, matmul, concat, slices, gather, where,
         cast, pad, expand, split, layer_norm, convolution, cumsum, condition, loop]


def make_inputs(g):
    """Adds inputs whose sizes are symbols, some shared; returns the values of both bindings."""
    symbols = {name: (g.pick(SIZES), g.pick(SIZES)) for name in ("N", "len", "a b")}
    bindings = [{}, {}]
    for _ in range(int(g.random.integers(1, 4))):
        name, kind = g.name(), g.pick([np.float32, np.float32, np.float32, np.float64])
        dims, shapes = [], [(), ()]
        for _ in range(int(g.random.integers(0, 4))):
            symbol = g.pick([*symbols, 1, 2, 3, 4, 8])
            sizes = symbols.get(symbol, (symbol, symbol))
            dims.append(symbol)
            shapes = [shape + (size,) for shape, size in zip(shapes, sizes)]
        g.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), dims))
        g.values[name] = (kind, shapes)
        for binding, shape in zip(bindings, shapes):
            binding[name] = g.random.standard_normal(shape).astype(kind)
    flag = g.name()
    g.inputs.append(helper.make_tensor_value_info(flag, TensorProto.BOOL, []))
    g.values[flag] = (np.bool_, [(), ()])
    for binding in bindings:
        binding[flag] = np.array(g.chance(0.5))
    if g.chance(0.3):  # an input with a default
        name = g.constant(g.random.standard_normal(()).astype(np.float32))
        g.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
        g.values[name] = (np.float32, [(), ()])
    return bindings


def make_graph(seed):
    """Returns a model and the inputs of two runs."""
    g = Graph(seed)
    bindings = make_inputs(g)
    for _ in range(int(g.random.integers(3, 14))):
        step = g.pick(STEPS)
        if any(kind in FLOATS and all(np.prod(shape, dtype=np.int64) < 5000 for shape in shapes)
               for kind, shapes in g.values.values()):
            step(g)
        for name in [name for name, (kind, shapes) in g.values.items()
                     if any(np.prod(shape, dtype=np.int64) >= 5000 for shape in shapes)]:
            g.values.pop(name)
    used = {name for node in g.nodes for name in node.input}
    results = [name for node in g.nodes for name in node.output if name not in used and name in g.values]
    if not results:
        return None
    outputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(g.values[name][0])), None)
               for name in results]
    graph = helper.make_graph(g.nodes, f"graph {seed}", g.inputs, outputs, g.initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)]), bindings
