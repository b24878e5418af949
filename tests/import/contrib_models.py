# SPDX-License-Identifier: MIT
"""Models of one node of com.microsoft, run by ONNX Runtime and by `verify` of the program under test."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(7)
MICROSOFT = "com.microsoft"


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def i32(*values):
    return np.array(values, np.int32)


def codes(kind, *shape):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(kind)


def scale(value):
    return np.array(value, np.float32)


U8 = np.array(120, np.uint8)
I8 = np.array(-3, np.int8)


def quantized(kind, zero, *shape):
    """Quantised values, their scale and zero point."""
    return [codes(kind, *shape), scale(0.03), zero]


def make_model(name, operator, inputs, attributes, outputs, opset=18):
    """Returns a model of one node, its inputs and the indices of its outputs."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    given = {name: value for name, value in zip(names, inputs) if name}
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in given.items()]
    wanted = range(outputs) if isinstance(outputs, int) else outputs
    node = helper.make_node(operator, names, [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)],
                            domain=MICROSOFT, **attributes)
    results = [helper.make_empty_tensor_value_info(f"y{i}") for i in wanted]
    model = helper.make_model(helper.make_graph([node], name, infos, results), ir_version=9,
                              opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)])
    return model, given, wanted


def compute(model, given):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)


def run(operator, inputs, attributes, outputs):
    return compute(*make_model(operator, operator, inputs, attributes, outputs)[:2])


def write_case(folder, name, operator, inputs, attributes, outputs, computed=None):
    """Writes the model, its inputs and the expected outputs, by default those of ONNX Runtime."""
    model, given, wanted = make_model(name, operator, inputs, attributes, outputs)
    if computed is None:
        computed = compute(model, given)
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / name / "model.onnx").write_bytes(model.SerializeToString())
    for word, values in (("input", given.items()),
                         ("output", [(f"y{i}", value) for i, value in zip(wanted, computed)])):
        for i, (key, value) in enumerate(values):
            (data / f"{word}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value), key).SerializeToString())


def verify(folder, rows):
    """Writes the rows as models with recorded outputs, runs them, prints a summary; returns the exit status."""
    folder = pathlib.Path("build", folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for row in rows:
        write_case(folder, *row)
    run = subprocess.run([os.environ["TEST_PROGRAM"], "verify", folder, "--json"], stdout=subprocess.PIPE, text=True)
    report = json.loads(run.stdout)
    for case in report["list"]:
        if case["status"] != "passed":
            print(f"wrong: {case['name']}: {case['detail']}", file=sys.stderr)
    failed = report["failed"] + report["unsupported"]
    print(f"{report['passed']} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
