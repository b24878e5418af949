# SPDX-License-Identifier: MIT
"""Models with one thing wrong: a constant of another shape or value for an input, another type, another attribute."""

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper

MOST_ELEMENTS = 100_000
NUMBERS = (0, -1, 1 << 40, 1 << 62)
INTEGERS = (0, -1, 1, 2, 1 << 31, -(1 << 62), 1 << 62, -(1 << 63), (1 << 63) - 1)
REALS = (0.0, -1.0, 1e38, float("nan"), float("inf"))
TEXTS = (b"", b"x", b"(" * 50, b"\xff")


def constant(name, kind, shape, value):
    """A tensor of one value, cut to the range of the element type."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if kind == TensorProto.STRING:
        value = b"a"
    elif dtype.kind in "iu":
        value = int(np.clip(value, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)))
    elif dtype == bool:
        value = bool(value)
    return helper.make_tensor(name, kind, shape, [value] * int(np.prod(shape)))


def changed(model, change):
    copy = ModelProto()
    copy.CopyFrom(model)
    change(copy.graph)
    return copy


def input_mutants(model):
    for i, info in enumerate(model.graph.input):
        if info.type.WhichOneof("value") != "tensor_type":
            continue
        kind = info.type.tensor_type.elem_type
        own = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        values = [([0], 0), ([2, 0, 3], 1), ([1] * 5, 1), ([1] * len(own), 3), (own[:-1], 1), ([*own, 1], 1)]
        values += [(shape, number) for shape in ([], own) for number in NUMBERS]
        for shape, value in values:
            if np.prod(shape) > MOST_ELEMENTS or helper.tensor_dtype_to_np_dtype(kind).kind not in "iufbOSU":
                continue

            def fix(graph, shape=shape, value=value):
                del graph.input[i]
                graph.initializer.append(constant(info.name, kind, shape, value))
            yield f"input {i} is {shape} of {value}", changed(model, fix)
        for shape in ([], [0], [1] * 7, own[:-1], [*own, 2], ["n"] * len(own), None):
            yield f"input {i} has shape {shape}", changed(
                model, lambda graph, shape=shape: graph.input[i].CopyFrom(
                    helper.make_tensor_value_info(info.name, kind, shape)))


def attribute_values(attribute):
    kinds = AttributeProto
    one = {kinds.INT: INTEGERS, kinds.FLOAT: REALS, kinds.STRING: TEXTS}
    several = {kinds.INTS: (attribute.ints, INTEGERS), kinds.FLOATS: (attribute.floats, REALS),
               kinds.STRINGS: (attribute.strings, TEXTS)}
    yield from one.get(attribute.type, ())
    if attribute.type in several:
        own, values = several[attribute.type]
        yield from ([], [values[0]], [*own, values[-1]], [values[1]] * 40, *([value] * len(own) for value in values))


def node_mutants(model):
    for i, node in enumerate(model.graph.node):
        for j, attribute in enumerate(node.attribute):
            for value in attribute_values(attribute):
                def assign(graph, value=value):
                    target = graph.node[i].attribute[j]
                    field = {AttributeProto.INT: "i", AttributeProto.FLOAT: "f", AttributeProto.STRING: "s",
                             AttributeProto.INTS: "ints", AttributeProto.FLOATS: "floats",
                             AttributeProto.STRINGS: "strings"}[target.type]
                    if isinstance(value, list):
                        target.ClearField(field)
                        getattr(target, field).extend(value)
                    else:
                        setattr(target, field, value)
                yield f"{attribute.name} is {str(value)[:40]}", changed(model, assign)
            yield f"{attribute.name} is absent", changed(model, lambda graph, j=j: graph.node[i].attribute.pop(j))
        for j in range(len(node.input)):
            yield f"operand {j} is absent", changed(model, lambda graph, j=j: graph.node[i].input.__setitem__(j, ""))
            yield f"{j} operands", changed(model, lambda graph, j=j: graph.node[i].input.__delitem__(slice(j, None)))


def mutants(model):
    """Descriptions and models; outputs have no declared types."""
    names = [output.name for output in model.graph.output]
    bare = changed(model, lambda graph: (graph.ClearField("output"), graph.ClearField("value_info"),
                                         graph.output.extend(map(helper.make_empty_tensor_value_info, names))))
    yield from input_mutants(bare)
    yield from node_mutants(bare)
