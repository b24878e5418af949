# SPDX-License-Identifier: MIT
"""Small models as bytes."""

from onnx import TensorProto, helper


def model(nodes, inputs, outputs, initializers=(), opset=21, metadata=None):
    """Each input and output is (name, element type, shape), or a ValueInfoProto."""

    def value(info):
        return helper.make_tensor_value_info(*info) if isinstance(info, tuple) else info

    graph = helper.make_graph(nodes, "small", [value(i) for i in inputs],
                              [value(o) for o in outputs], list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10,
                             producer_name="tests/python", doc_string="a small model", domain="tests",
                             model_version=3)
    if metadata:
        helper.set_model_props(made, metadata)
    return made.SerializeToString()


def one_op(op, count=1, shape=("N", 3), element_type=TensorProto.FLOAT, **attributes):
    """An operator whose inputs and output share a type."""
    names = [f"x{i}" for i in range(count)]
    return model([helper.make_node(op, names, ["y"], **attributes)],
                 [(name, element_type, list(shape)) for name in names],
                 [("y", element_type, list(shape))])
