# SPDX-License-Identifier: MIT
"""Values in the memory `Hip` of the registration AMDGPU: a device's, with LATHE_TARGET=gpu:host; without it the host's."""

import os
import sys

os.environ["LATHE_TARGET"] = "gpu:host"

import host
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

NAME = "AMDGPUExecutionProvider"
FLOAT, INT, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(nodes, inputs, outputs, initializers=()):
    values = [[helper.make_tensor_value_info(*value) for value in given] for given in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *values, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def session(made, **options):
    return host.session(made, options, name=NAME, registration=NAME, fallback=True)


def on_device(array):
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", 0, 0x1002)


def is_mapped(address):
    """True for an address that this process may read: those of gpu:host fault."""
    for line in open("/proc/self/maps"):
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return True
    return False


def check(what, holds):
    if not holds:
        sys.exit(f"FAILED {what}")
    print(f"ok {what}")


def equal_on_host(what, made, feeds):
    wanted = host.cpu_session(made).run(None, feeds)
    found = session(made).run(None, feeds)
    near = all(np.array_equal(a, b) if a.dtype != np.float32 else np.abs(a - b).max(initial=0) < 1e-4
               for a, b in zip(wanted, found))
    check(what, len(wanted) == len(found) and near)


def main():
    rng = np.random.default_rng(0)
    x, w = rng.random((3, 4), np.float32), rng.random((4, 2), np.float32)
    product = model([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
                    [("x", FLOAT, ["n", 4]), ("w", FLOAT, [4, 2])], [("y", FLOAT, ["n", 2])])
    equal_on_host("values of the host", product, {"x": x, "w": w})
    # The host reads the shape and writes the number of rows.
    shapes = model([helper.make_node("Reshape", ["x", "s"], ["y"]), helper.make_node("Shape", ["y"], ["n"]),
                    helper.make_node("NonZero", ["y"], ["z"])],
                   [("x", FLOAT, ["n", 4]), ("s", INT, [2])], [("y", FLOAT, None), ("n", INT, [2]), ("z", INT, [2, "m"])])
    equal_on_host("what the host reads and writes", shapes, {"x": x, "s": np.array([4, 3], np.int64)})
    texts = model([helper.make_node("Equal", ["t", "t"], ["b"]), helper.make_node("Identity", ["t"], ["u"]),
                   helper.make_node("Relu", ["x"], ["y"])],
                  [("t", TEXT, [2]), ("x", FLOAT, ["n"])], [("b", TensorProto.BOOL, [2]), ("u", TEXT, [2]), ("y", FLOAT, ["n"])])
    equal_on_host("strings stay with the host", texts, {"t": np.array(["a", "b"], object), "x": x[0]})
    equal_on_host("no elements", product, {"x": x[:0], "w": w})
    views = model([helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Identity", ["x"], ["u"]),
                   helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Transpose", ["y"], ["z"])],
                  [("x", FLOAT, ["n", 4])], [(name, FLOAT, None) for name in "tuyz"])
    equal_on_host("views and inputs among the outputs", views, {"x": x})
    squeezed = model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Squeeze", ["r"], ["s"]),
                      helper.make_node("Sqrt", ["s"], ["y"])], [("x", FLOAT, ["n", "m"])], [("y", FLOAT, None)])
    equal_on_host("values of unknown rank", squeezed, {"x": x[:, :1]})

    # One buffer is input and output at once, as GenAI's caches.
    square = rng.random((4, 4), np.float32)
    value, weight = on_device(square), on_device(rng.random((4, 4), np.float32))
    same = session(model([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
                         [("x", FLOAT, ["n", 4]), ("w", FLOAT, [4, 4])], [("y", FLOAT, ["n", 4])]))
    check("the memory is a device's", value.device_name() != "cpu" and not is_mapped(value.data_ptr()))
    binding = same.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_input("w", weight)
    binding.bind_ortvalue_output("y", value)
    wanted = square
    for _ in range(3):
        same.run_with_iobinding(binding)
        wanted = wanted @ weight.numpy()
    check("an output in an input's memory", np.abs(value.numpy() - wanted).max() < 1e-3)
    on_cpu = session(product, target="cpu")
    check("kernels of the CPU beside that memory", np.abs(on_cpu.run(None, {"x": x, "w": w})[0] - x @ w).max() < 1e-5)


main()
