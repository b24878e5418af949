# SPDX-License-Identifier: MIT
"""Writes tests/ops/OP.test for elementwise ops from the rows in op_rows.

usage: build/venv/bin/python scripts/make_elementwise_tests.py [OP...]     default: all of them

Expected values are ONNX Runtime's where it has the operator for the element types, else numpy's: floats
are computed in f64 and rounded once. If the two differ, the script prints a note and keeps numpy's value,
which follows the text of ONNX.
"""

import math
import pathlib
import re
import sys
import textwrap
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from op_rows import conversions, elementwise
from op_rows.ops import TYPES

OPS = elementwise.OPS | conversions.OPS
OPSETS = (26, 25, 24, 23, 22)
NAMES = {np.dtype(dtype): name for name, (dtype, _) in TYPES.items()}
# Element types without a numpy type in ONNX Runtime, and the types that carry them.
CARRIERS = {"bf16": "f32", "f8e4m3fn": "f32", "f8e4m3fnuz": "f32", "f8e5m2": "f32",
            "f8e5m2fnuz": "f32", "i4": "i8", "u4": "u8"}
FLOATS = [name for name in TYPES if re.match("b?f", name)]
DIGITS = {"f32": 7, "f64": 13, "c64": 7, "c128": 13}
TOLERANCES = {"f32": 2e-6, "f64": 1e-12, "f16": 2**-10, "bf16": 2**-7}

OPERAND = re.compile(r"(?P<absent>_)|(?P<type>\w+)\[(?P<dims>[\d, ]*)\] \{(?P<values>[^}]*)\}")
ROW = re.compile(r"(?P<op>\w+)\((?P<operands>.*)\)(?: \{(?P<attributes>[^()]*)\})?$")
PIECE = re.compile(r'[^ "]*"(?:\\.|[^"])*"\S*|\S+')


def read_operand(match):
    if match["absent"]:
        return None
    dtype, _ = TYPES[match["type"]]
    dims = [int(d) for d in match["dims"].split(",") if d.strip()]
    texts = [t.strip() for t in match["values"].split(",") if t.strip()]
    if dtype is object:
        values = [t.strip('"') for t in texts]
    elif dtype is np.bool_:
        values = [t == "true" for t in texts]
    elif match["type"][0] in "iu":
        values = [int(t, 0) for t in texts]
    elif match["type"][0] == "c":
        values = [complex(t.replace("i", "j")) for t in texts]
    else:
        values = [float(t) for t in texts]
    return np.array(values, dtype=dtype).reshape(dims)


def read_attributes(text):
    attributes = {}
    for pair in (text or "").split(","):
        if not pair:
            continue
        name, value = (part.strip() for part in pair.split("="))
        if value in TYPES:
            attributes[name] = value
        elif value in ("true", "false"):
            attributes[name] = int(value == "true")
        elif value.startswith('"'):
            attributes[name] = value.strip('"')
        else:
            attributes[name] = float(value) if re.search("[.e]", value) else int(value)
    return attributes


def onnx_model(operator, operands, result, attributes, opset):
    """A model of one node, with casts for types that have a carrier."""
    nodes, inputs, names, feeds = [], [], [], {}
    for i, x in enumerate(operands):
        if x is None:
            names.append("")
            continue
        kind = NAMES[x.dtype]
        carrier = CARRIERS.get(kind, kind)
        feeds[f"in{i}"] = x.astype(TYPES[carrier][0])
        inputs.append(helper.make_tensor_value_info(f"in{i}", TYPES[carrier][1], x.shape))
        names.append(f"x{i}")
        if carrier == kind:
            names[-1] = f"in{i}"
        else:
            saturate = {"saturate": 0} if kind.startswith("f8") else {}  # infinities stay
            nodes.append(helper.make_node("Cast", [f"in{i}"], [f"x{i}"], to=TYPES[kind][1],
                                          **saturate))
    given = {k: TYPES[v][1] if v in TYPES else v for k, v in attributes.items()}
    nodes.append(helper.make_node(operator, names, ["y"], **given))
    carrier = CARRIERS.get(result, result)
    last = "y"
    if carrier != result:
        nodes.append(helper.make_node("Cast", ["y"], ["out"], to=TYPES[carrier][1]))
        last = "out"
    output = helper.make_tensor_value_info(last, TYPES[carrier][1], None)
    graph = helper.make_graph(nodes, "row", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    return model, feeds


def run_onnx(operator, operands, result, attributes):
    """ONNX Runtime's result, or None if it does not support the types."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for opset in OPSETS:
        try:
            model, feeds = onnx_model(operator, operands, result, attributes, opset)
            session = ort.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
            return session.run(None, feeds)[0].astype(TYPES[result][0])
        except Exception:  # whatever it lacks: the type, the operator, the opset
            continue
    return None


def run_numpy(op, operands, result, attributes):
    if op.widens:
        operands = [x.astype(np.float64) if x is not None and NAMES[x.dtype] in FLOATS else x
                    for x in operands]
    value = op.function(*operands, **attributes)
    if value is None:
        return None
    value = np.asarray(value)
    return value if value.dtype == TYPES[result][0] else value.astype(TYPES[result][0])


def agree(a, b, kind):
    if kind not in TOLERANCES:
        return np.array_equal(a, b, equal_nan=a.dtype != object and kind[0] not in "iubs")
    a, b = a.astype(np.float64), b.astype(np.float64)
    near = np.abs(a - b) <= TOLERANCES[kind] * np.maximum(1, np.abs(b))
    return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b))))


def write_real(value, kind, most):
    if math.isnan(value) or math.isinf(value):
        return str(float(value))
    if value and float(value).is_integer() and abs(value) < 1e7:
        return str(int(value))
    dtype = np.float64 if kind.startswith(("f8", "f4")) else TYPES[kind][0]
    for digits in range(1, 18):
        text = f"{float(value):.{digits}g}"
        if dtype(float(text)) == dtype(value) or digits == most:
            break
    return re.sub(r"e([+-])0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], text)


def write_value(value, kind, exact):
    if kind == "string":
        return f'"{value}"'
    if kind == "bool":
        return "true" if value else "false"
    if kind[0] in "iu":
        return str(int(value))
    most = 17 if exact else DIGITS.get(kind)
    if kind[0] == "c":
        part = "f32" if kind == "c64" else "f64"
        real, imaginary = (write_real(x, part, most) for x in (value.real, value.imag))
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}i"
    return write_real(value, kind, most)


def complete(row, op):
    """The row with its results."""
    match = ROW.match(row)
    operands = [read_operand(m) for m in OPERAND.finditer(match["operands"])]
    attributes = read_attributes(match["attributes"])
    result = (NAMES[operands[op.result].dtype] if isinstance(op.result, int) else
              attributes["to"] if op.result == "to" else op.result)
    expected = run_onnx(op.operator, operands, result, attributes)
    reference = run_numpy(op, operands, result, attributes)
    if expected is None:
        expected = reference
    elif reference is not None and not agree(expected, reference, result):
        print(f"{row}\n  ONNX Runtime: {expected.tolist()}\n  numpy:        {reference.tolist()}")
        expected = reference
    dims = ", ".join(map(str, expected.shape))
    values = ", ".join(write_value(v, result, not op.widens) for v in expected.reshape(-1))
    line = f"{row} = {result}[{dims}] {{{values}}}"
    if not op.widens and result in TOLERANCES:
        line += " within 0"
    lines, current = [], ""
    for piece in PIECE.findall(line):
        if len(current) + 1 + len(piece) > 100:
            lines.append(current)
            current = "    " + piece
        else:
            current = f"{current} {piece}" if current else piece
    return "\n".join([*lines, current])


def main():
    warnings.simplefilter("ignore")  # numpy's, of what is not finite
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests/ops"
    names = sys.argv[1:] or list(OPS)
    for name in names:
        op = OPS[name]
        lines = ["# SPDX-License-Identifier: MIT"]
        for row in textwrap.dedent(op.rows).strip().splitlines():
            finished = row.startswith("#") or not row or " = error" in row
            lines.append(row if finished else complete(row, op))
        (folder / f"{name}.test").write_text("\n".join(lines) + "\n")
    print(f"{len(names)} files written")


if __name__ == "__main__":
    main()
