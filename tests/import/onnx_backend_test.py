# SPDX-License-Identifier: MIT
"""ONNX's own operator tests: those that the `onnx` package generates, and the recorded suite.

No case may be wrong or crash; a case may be unsupported only where its operator is none that Lathe
promises.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

# Operators that must be supported, by their ONNX names.
PROMISED = set("""
Add Sub Mul Div Mod Neg Abs Reciprocal Exp Log Tanh Erf Sqrt Pow Sin Cos Max Min Sum Clip Floor Round
Equal Less LessOrEqual Greater GreaterOrEqual And Or Not Where Cast CastLike Relu LeakyRelu Gelu
Sigmoid HardSigmoid HardSwish ReduceSum ReduceMax ReduceMin ReduceMean ReduceProd ReduceL2 ArgMax
Softmax LogSoftmax LayerNormalization RMSNormalization BatchNormalization MatMul Gemm Conv MaxPool
AveragePool GlobalAveragePool GlobalMaxPool Gather GatherElements GatherND ScatterElements ScatterND
Concat Split Slice Reshape Flatten Squeeze Unsqueeze Transpose Expand Pad Tile Resize Trilu NonZero
TopK Range Shape Size CumSum Identity Constant ConstantOfShape QuantizeLinear DequantizeLinear
DynamicQuantizeLinear MatMulInteger LSTM If Loop Scan SequenceConstruct SequenceEmpty SequenceInsert
SequenceErase SequenceAt SequenceLength SequenceMap SplitToSequence ConcatFromSequence StringConcat
StringNormalizer Attention RotaryEmbedding TensorScatter AffineGrid BlackmanWindow HammingWindow
HannWindow CenterCropPad Col2Im CumProd DFT DeformConv Det GridSample MaxRoiPool MaxUnpool
MelWeightMatrix NonMaxSuppression RegexFullMatch RoiAlign STFT StringSplit TfIdfVectorizer
""".split())
GENERATED_AT_LEAST = 1840
RECORDED_AT_LEAST = 1350


def message(value, info):
    """A value as the message that its declared type is stored in."""
    kind = info.type.WhichOneof("value") if info is not None else "tensor_type"
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(value, info.name if info is not None else "")


def write_cases(folder):
    for case in collect_testcases(None):
        if case.model is None:
            continue
        place = folder / case.name
        place.mkdir(parents=True, exist_ok=True)
        (place / "model.onnx").write_bytes(case.model.SerializeToString())
        graph = case.model.graph
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = place / f"test_data_set_{number}"
            data.mkdir(exist_ok=True)
            for word, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                for i, value in enumerate(values):
                    info = infos[i] if i < len(infos) else None
                    (data / f"{word}_{i}.pb").write_bytes(message(value, info).SerializeToString())


def verify(folder, at_least):
    """Counts of a tree of cases, and what is wrong with them."""
    run = subprocess.run([os.environ["TEST_PROGRAM"], "verify", folder, "--json"],
                         stdout=subprocess.PIPE, text=True)
    report = json.loads(run.stdout)
    wrong = []
    for case in report["list"]:
        if case["status"] == "failed":
            wrong.append(f"{case['name']}: {case['detail']}")
        if case["status"] == "unsupported":
            named = re.search(r"not supported: ([\w.]+)", case["detail"])
            if named is not None and named.group(1) in PROMISED:
                wrong.append(f"{case['name']}: {named.group(1)} must be supported: {case['detail']}")
    passed = report["passed"]
    if passed < at_least:
        wrong.append(f"{passed} of {report['cases']} pass, at least {at_least} must")
    print(f"{folder.name}: {report['cases']} cases, {passed} passed, {report['failed']} failed, "
          f"{report['unsupported']} unsupported")
    return report, wrong


def main():
    build = pathlib.Path("build").resolve()
    generated = build / "onnx-backend-generated"
    if not (generated / ".complete").exists():
        write_cases(generated)
        (generated / ".complete").touch()
    trees = [(generated, GENERATED_AT_LEAST)]
    skipped = []
    archive = pathlib.Path(os.environ.get("LATHE_TEST_DATA", "../shared")) / "models/onnx-backend.tar.zst"
    if archive.exists():
        recorded = build / "onnx-backend-recorded"
        if not (recorded / ".complete").exists():
            recorded.mkdir(exist_ok=True)
            tar = subprocess.run(["zstd", "-dqc", archive], check=True, stdout=subprocess.PIPE).stdout
            (build / "onnx-backend.tar").write_bytes(tar)
            with tarfile.open(build / "onnx-backend.tar") as packed:
                packed.extractall(recorded)
            (build / "onnx-backend.tar").unlink()
            (recorded / ".complete").touch()
        trees.append((recorded, RECORDED_AT_LEAST))
    else:
        skipped.append(f"1940: {archive} is not there")
    passed = 0
    problems = []
    unsupported = 0
    for folder, at_least in trees:
        report, wrong = verify(folder, at_least)
        passed += report["passed"]
        unsupported += report["unsupported"]
        problems += wrong
    for problem in problems[:40]:
        print(f"wrong: {problem}", file=sys.stderr)
    skipped.append(f"{unsupported}: an operator that is not promised")
    for reason in skipped:
        print(f"skipped {reason}")
    count = sum(int(reason.split(":")[0]) for reason in skipped)
    print(f"{passed} passed, {len(problems)} failed, {count} skipped")
    return 1 if problems else 0


sys.exit(main())
