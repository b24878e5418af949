# SPDX-License-Identifier: MIT
"""Runs the cases of the ONNX backend suites through lathe.onnxruntime.backend; they must end as
`lathe verify` ends them. `make test-python-backend`.

usage: backend_cases.py LATHE
"""

import json
import subprocess
import sys

import package

package.find()
sys.path.insert(0, str(package.ROOT / "tests/import"))

import numpy as np
import onnx
from onnx import numpy_helper
from onnx_cases import generated_cases, recorded_cases

from lathe.onnxruntime import backend

RTOL, ATOL = 1e-3, 1e-5  # of `lathe verify`
MORE = {"float16": 4e-3, "bfloat16": 2e-2}  # relative; a quarter of it absolute


def value_of(path, kind):
    """The value of a message of the declared type."""
    data = path.read_bytes()
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def values_of(folder, word, infos):
    paths = sorted(folder.glob(f"{word}_*.pb"), key=lambda path: int(path.stem.split("_")[-1]))
    kinds = [info.type.WhichOneof("value") for info in infos]
    return [value_of(path, kind) for path, kind in zip(paths, kinds)]


def same(ours, expected):
    if expected is None or isinstance(expected, list):
        return (ours is None) == (expected is None) and (
            expected is None or len(ours) == len(expected) and all(map(same, ours, expected)))
    ours = np.asarray(ours)
    if ours.shape != expected.shape or ours.dtype.kind in "OUST" or expected.dtype.kind in "OUST":
        return ours.shape == expected.shape and ours.tolist() == expected.tolist()
    if ours.dtype != expected.dtype:
        return False
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    more = MORE.get(ours.dtype.name, 0)
    return np.allclose(
        ours.astype(wide), expected.astype(wide), RTOL + more, ATOL + more / 4, equal_nan=True)


def passes(case):
    """Whether all outputs of all data sets are as expected, and if not, why."""
    try:
        graph = onnx.load(case / "model.onnx", load_external_data=False).graph
        prepared = backend.prepare(str(case / "model.onnx"), "CPU")
        given = {tensor.name for tensor in graph.initializer}
        inputs = [info for info in graph.input if info.name not in given]
        for data in sorted(case.glob("test_data_set_*")):
            expected = values_of(data, "output", graph.output)
            results = prepared.run(values_of(data, "input", inputs))
            if not all(map(same, results, expected)):
                return False, "values differ"
    except Exception as error:  # an error of any class is a case that does not pass
        return False, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return True, ""


def main():
    lathe, = sys.argv[1:]
    wrong = 0
    for folder in (generated_cases(), recorded_cases("onnx-backend")):
        if folder is None:
            print("skipped: the recorded suite is not there")
            continue
        report = json.loads(subprocess.run([lathe, "verify", folder, "--json", "--target", "cpu"],
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
        passed = 0
        for case in report["list"]:
            done, reason = passes(folder / case["name"])
            passed += done
            if done != (case["status"] == "passed"):
                wrong += 1
                print(f"{case['name']}: {reason or 'passes'}; lathe verify: {case['status']} {case['detail']}")
        print(f"{folder.name}: {report['cases']} cases, {passed} pass, {report['passed']} by lathe verify")
    return wrong > 0


sys.exit(main())
