# SPDX-License-Identifier: MIT
"""Random graphs beside ONNX Runtime, two sizes each. RANDOM_GRAPHS is their number, RANDOM_GRAPH_SEED the first seed."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
from onnx import numpy_helper

from random_graphs import make_graph

COUNT = int(os.environ.get("RANDOM_GRAPHS", "300"))
FIRST = int(os.environ.get("RANDOM_GRAPH_SEED", "0"))
LARGEST = 1e4  # beyond it, differences of rounding grow
FOLDER = pathlib.Path("build/onnx-random").resolve()


def expected(model, binding):
    """ONNX Runtime's outputs; null if they are too large to compare."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its rewriting of graphs departs from the standard in places.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, binding)
    if any(np.abs(value).max(initial=0) > LARGEST for value in results if value.dtype.kind == "f"):
        return None
    return results


def write_graph(seed):
    """Writes one case with two data sets; false if there is nothing to compare, a message if the peer refuses it."""
    made = make_graph(seed)
    if made is None:
        return False
    model, bindings = made
    try:
        results = [expected(model, binding) for binding in bindings]
    except Exception as error:  # the peer's exceptions have no common base
        return f"graph {seed}: {str(error)[:200]}"
    if None in results:
        return False
    case = FOLDER / str(seed)
    case.mkdir(parents=True)
    (case / "model.onnx").write_bytes(model.SerializeToString())
    for i, (binding, values) in enumerate(zip(bindings, results)):
        data = case / f"test_data_set_{i}"
        data.mkdir()
        for word, items in (("input", binding.values()), ("output", values)):
            for j, value in enumerate(items):
                (data / f"{word}_{j}.pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
    return True


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    written = refused = failed = 0
    for seed in range(FIRST, FIRST + COUNT):
        outcome = write_graph(seed)
        written += outcome is True
        if isinstance(outcome, str):
            refused += 1
            print(outcome, file=sys.stderr)
    for target in ("ref", "cpu"):
        run = subprocess.run([os.environ["TEST_PROGRAM"], "verify", FOLDER, "--json", "--target", target],
                             stdout=subprocess.PIPE, text=True)
        for case in json.loads(run.stdout)["list"]:
            if case["status"] != "passed":
                failed += 1
                print(f"wrong: graph {case['name']} on {target}: {case['detail']}", file=sys.stderr)
    if refused * 20 > COUNT:
        print(f"error: ONNX Runtime refuses {refused} of {COUNT} graphs", file=sys.stderr)
        failed += 1
    print(f"skipped {COUNT - written}: nothing to compare, or ONNX Runtime refuses the graph")
    print(f"{written * 2 - failed} passed, {failed} failed, {COUNT - written} skipped")
    return 1 if failed else 0


sys.exit(main())
