# SPDX-License-Identifier: MIT
"""Times the overhead of a run beside ONNX Runtime: models of one operator on four elements.

usage: overhead.py [--json]      needs the packages lathe, onnx, onnxruntime

The libraries alternate in blocks of calls; the best block of each counts.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import lathe.onnxruntime

# (name, inputs, bar: largest ratio of the times)
BARS = [("run", 1, 0.4), ("run", 16, 0.5), ("io_binding", 1, 0.35), ("io_binding", 16, 0.8)]
BLOCKS, CALLS = 15, 2000


def one_op_model(inputs):
    """Relu of one input, or the Sum of several."""
    names = [f"x{i}" for i in range(inputs)]
    node = helper.make_node("Relu" if inputs == 1 else "Sum", names, ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph([node], "one_op", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def prepare(library, kind, model, feed):
    options = library.SessionOptions()
    options.intra_op_num_threads = 1
    session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    if kind == "run":
        return lambda: session.run(None, feed)
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, value)
    output = library.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32))
    binding.bind_ortvalue_output("y", output)
    return lambda: session.run_with_iobinding(binding)


def time_block(call):
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - start) / CALLS / 1000


def measure(kind, inputs):
    model = one_op_model(inputs)
    feed = {f"x{i}": np.ones(4, np.float32) for i in range(inputs)}
    calls = [prepare(library, kind, model, feed) for library in (lathe.onnxruntime, onnxruntime)]
    times = [[], []]
    for _ in range(BLOCKS):
        for call, into in zip(calls, times):
            into.append(time_block(call))
    return [min(blocks) for blocks in times]


def main():
    rows = []
    for kind, inputs, bar in BARS:
        ours, theirs = measure(kind, inputs)
        rows.append({"kind": kind, "inputs": inputs, "lathe_us": round(ours, 2),
                     "onnxruntime_us": round(theirs, 2), "ratio": round(ours / theirs, 2), "bar": bar})
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("{kind:10} {inputs:2} inputs  lathe {lathe_us:6.2f} us  onnxruntime "
              "{onnxruntime_us:6.2f} us  ratio {ratio:.2f} (bar {bar})".format(**row))


main()
