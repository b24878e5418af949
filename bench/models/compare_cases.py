# SPDX-License-Identifier: MIT
"""Times every model below FOLDER that has a test set beside ONNX Runtime, with the inputs of the set.

usage: compare_cases.py LATHE FOLDER [PART…]        PART: only paths that contain one of them

A test set of MODEL.onnx is a folder test_data_set_N or MODEL_…data_set_N with input_N.pb. Two threads, three
rounds, one engine after the other; a figure is the median of the rounds' medians in ms. Prints the ratio, the
largest difference of an output as a share of its largest value, and the share of time on `ref`.
"""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

ROUNDS, SECONDS = 3, 0.3


def test_set(model):
    """The first test set of a model, or None."""
    for folder in sorted(path for path in model.parent.iterdir() if path.is_dir() and "data_set" in path.name):
        if folder.name.startswith(("test_data_set", f"{model.stem}_")):
            return folder
    return None


def inputs_of(model, folder):
    graph = onnx.load(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for i, info in enumerate(info for info in graph.input if info.name not in constants):
        tensor = onnx.TensorProto.FromString((folder / f"input_{i}.pb").read_bytes())
        inputs[tensor.name or info.name] = numpy_helper.to_array(tensor)
    return inputs


def difference(session, expected, found):
    worst = 0.0
    for output, value in zip(session.get_outputs(), expected):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size and output.name in found:
            error = np.abs(found[output.name].astype("f8") - value.astype("f8")).max()
            worst = max(worst, float(error / max(1e-30, np.abs(value).max())))
    return worst


def compare(program, model, inputs, work):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    given, results = work / "inputs.npz", work / "outputs.npz"
    np.savez(given, **inputs)
    subprocess.run([program, "run", model, "--input", given, "-o", results], check=True,
                   stdout=subprocess.DEVNULL)
    error = difference(session, expected, dict(np.load(results)))
    ours, theirs, iterations = [], [], 5
    for _ in range(ROUNDS):
        report = json.loads(subprocess.run([program, "perf", model, "--input", given, "--json", "--threads", "2",
                                            "-n", str(iterations)], check=True, stdout=subprocess.PIPE).stdout)
        ours.append(report["latency_ms"]["p50"])
        iterations = max(5, int(SECONDS * 1e3 / ours[-1]))
        for _ in range(3):
            session.run(None, inputs)
        times, end = [], time.perf_counter() + SECONDS
        while time.perf_counter() < end or len(times) < 5:
            begin = time.perf_counter()
            session.run(None, inputs)
            times.append(time.perf_counter() - begin)
        theirs.append(statistics.median(times) * 1e3)
    return statistics.median(ours), statistics.median(theirs), error, report["shares"].get("ref", 0)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    program, root, *parts = sys.argv[1:]
    onnxruntime.set_default_logger_severity(4)
    ratios = []
    for model in sorted(pathlib.Path(root).rglob("*.onnx")):
        name = str(model.relative_to(root))
        folder = test_set(model)
        if folder is None or (parts and not any(part in name for part in parts)):
            continue
        try:
            with tempfile.TemporaryDirectory() as work:
                ours, theirs, error, share = compare(program, model, inputs_of(model, folder), pathlib.Path(work))
        except Exception as problem:  # a model that one of the engines refuses
            print(f"refused: {name}: {str(problem)[:120]}")
            continue
        ratios.append(theirs / ours)
        print(f"{ratios[-1]:6.2f}x  Lathe {ours:9.3f} ms, ONNX Runtime {theirs:9.3f} ms, difference {error:.1e}, "
              f"ref {share:5.1%}  {name}", flush=True)
    if not ratios:
        raise SystemExit("error: no model has a test set")
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x of {len(ratios)} models")


if __name__ == "__main__":
    main()
