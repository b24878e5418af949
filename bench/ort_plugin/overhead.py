# SPDX-License-Identifier: MIT
"""Time of a `Run` beside ONNX Runtime's CPU EP, with inputs and outputs bound.

usage: overhead.py LIBRARY [--runs=20000]

One Relu, and 61 Relu with an input and an output each. Rounds of both EPs are interleaved, the best of each counts.
"""

import pathlib
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def relus(count):
    def infos(prefix):
        return [helper.make_tensor_value_info(f"{prefix}{i}", TensorProto.FLOAT, ["n", 4]) for i in range(count)]

    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(count)]
    graph = helper.make_graph(nodes, "relus", infos("x"), infos("y"))
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


def bound(model, count, provider):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if provider == "lathe":
        devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "lathe"]
        options.add_provider_for_devices(devices, {"threads": "1"})
        session = onnxruntime.InferenceSession(model, options)
    else:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    io = session.io_binding()
    for i in range(count):
        io.bind_ortvalue_input(f"x{i}", onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, 4), np.float32)))
        io.bind_ortvalue_output(f"y{i}", onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, 4), np.float32)))
    return session, io


def microseconds(session, io, runs):
    start = time.perf_counter()
    for _ in range(runs):
        session.run_with_iobinding(io)
    return (time.perf_counter() - start) / runs * 1e6


def main():
    options = dict(a[2:].split("=") for a in sys.argv[1:] if a.startswith("--"))
    library = next(a for a in sys.argv[1:] if not a.startswith("--"))
    onnxruntime.register_execution_provider_library("lathe", str(pathlib.Path(library).resolve()))
    for count in (1, 61):
        model, runs = relus(count), int(options.get("runs", 20000)) // (1 if count == 1 else 10)
        sessions = {provider: bound(model, count, provider) for provider in ("lathe", "cpu")}
        best = {provider: float("inf") for provider in sessions}
        for _ in range(7):
            for provider, (session, io) in sessions.items():
                best[provider] = min(best[provider], microseconds(session, io, runs))
        ours, theirs = best["lathe"], best["cpu"]
        print(f"{count} Relu: {ours:.1f} / {theirs:.1f} us a run, {ours - theirs:+.1f} us", flush=True)


if __name__ == "__main__":
    main()
