# SPDX-License-Identifier: MIT
"""Writes docs/onnx.md: the operators that are imported, against the schemas of the `onnx` package.

usage: make_onnx_docs.py PROGRAM [--check]     with --check, only compares
"""

import collections
import json
import pathlib
import subprocess
import sys

import onnx
import onnx.defs
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "onnx.md"
DOMAINS = {"": "ai.onnx"} | {name: name for name in ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")}
ELEMENTS = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz",
    "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1", "int2": "i2", "int4": "i4", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint2": "u2", "uint4": "u4", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool", "complex64": "c64",
    "complex128": "c128", "string": "string",
}
HEAD = """# ONNX operators

Made by `scripts/make_onnx_docs.py` from `lathe ops --onnx` and the schemas of onnx {version}. A row is a
version of an operator: the op it becomes, and the element types of its operands that the schema allows
and that op takes ("all": every one of them). An operator without an op is reported as unsupported, by
name and with all others, when a model is imported.

A node whose inputs or attributes are not those of its schema is an error that names it, and so is a value whose
declared kind or element type is not the computed one. A declared shape that is another is a warning: many files
have one, and ONNX Runtime runs them.

An entry of Reshape's target that is computed from another value's shape is a size, also where it is 0 at run time.
The standard takes the operand's size there (`allowzero` 0): ONNX Runtime refuses most such runs, as numbers of
elements differ, so a model with nothing detected fails there and has an empty result here.

{counts}
"""

# com.microsoft's operators that are not imported.
LEFT_OUT = {
    "Searches with random draws, time stamps or a draft, beyond BeamSearch and GreedySearch; Lathe generates such text with "
    "its own loop (`docs/language-models.md`).":
        "Sampling WhisperBeamSearch BifurcationDetector",
    "Contain the compiled program of one vendor.": "EPContext Snpe",
    "Defined by the memory layouts of one GPU library.":
        "DequantizeWithOrder QOrderedAttention QOrderedGelu QOrderedLayerNormalization "
        "QOrderedLongformerAttention QOrderedMatMul QuantizeWithOrder",
    "ONNX Runtime has kernels for GPUs alone: files that its CPU provider runs do not contain them.":
        "BitmaskBiasDropout BitmaskDropout DecoderAttention DynamicSparseAttention GatedDeltaNet GemmFloat8 "
        "LongformerAttention PackedSparseAttentionIndexer SparseAttentionIndexer SparsePagedAttention "
        "VarlenCausalConvWithState",
    "The weights are packed by ONNX Runtime's matrix library for the processor at hand; `MatMulNBits` and "
    "`MatMulBnb4` hold such weights portably.": "MatMulFpQ4",
    "The layout of the blocks is a number that only a device's own provider interprets.":
        "DequantizeBFP QuantizeBFP",
    "Takes a sparse tensor at run time; values of programs are dense.": "SparseToDenseMatMul",
    "Each a part of one model; added when a model needs it.":
        "AttnLSTM DynamicTimeWarping MurmurHash3 NGramHashMapping VarlenNGramHashMapping WordConvEmbedding",
    "An example for developers.": "SampleOp",
}


def element_of(type_text):
    """The element type of "tensor(float)", by Lathe's name if it has one; None for sequences, optionals, maps."""
    if not type_text.startswith("tensor("):
        return None
    name = type_text[len("tensor("):-1]
    return ELEMENTS.get(name, name)


def accepted_types(schema, row):
    """The operands' element types in the schema: (accepted, refused)."""
    taken, refused = set(), set()
    operands = row["operands"]
    for place, operand in enumerate(schema.inputs if row["plain"] else schema.inputs[:1]):
        allowed = {element_of(text) for text in operand.types} - {None}
        at = min(place, len(operands) - 1) if row["variadic"] else place
        if row["op"] is None or at >= len(operands) or operands[at] == ["any value"]:
            taken |= allowed & set(ELEMENTS.values())
            refused |= allowed - set(ELEMENTS.values())
        else:
            taken |= allowed & set(operands[at])
            refused |= allowed - set(operands[at])
    order = list(ELEMENTS.values())
    order += sorted(refused - set(order))
    return sorted(taken, key=order.index), sorted(refused, key=order.index)


def types_text(schema, row):
    taken, refused = accepted_types(schema, row)
    if not refused:
        return "all"
    if len(refused) < len(taken):
        return "all but " + " ".join(refused)
    return " ".join(taken)


def row_of(rows, schema):
    """The import row for a version of an operator: the last with an opset not above it."""
    known = [row for row in rows if row["since"] <= schema.since_version]
    return known[-1] if known else None


ANY_NUMBER = 2**15 - 1


def check_inputs(rows, schemas):
    """The importer allows as many inputs as each version's schema, and requires the same."""
    wrong = []
    for schema in schemas:
        row = row_of(rows.get((schema.domain, schema.name), ()), schema)
        required = sum(1 << i for i, operand in enumerate(schema.inputs)
                       if "Single" in str(operand.option))
        found = (min(schema.max_input, ANY_NUMBER), required)
        if row is not None and row["supported"] and (row["inputs"], row["required"]) != found:
            wrong.append(f"{schema.name}-{schema.since_version}: the table has {row['inputs']} and "
                         f"{row['required']:b}, the schema {found[0]} and {required:b}")
    if wrong:
        sys.exit("error: most inputs and those required: " + "; ".join(wrong))


def table_lines(rows):
    schemas = sorted((schema for schema in onnx.defs.get_all_schemas_with_history()
                      if schema.domain in DOMAINS and not schema.deprecated),
                     key=lambda schema: (schema.domain, schema.name, schema.since_version))
    lines = collections.defaultdict(list)
    counts = collections.defaultdict(lambda: [set(), set()])
    for schema in schemas:
        row = row_of(rows[schema.domain, schema.name], schema)
        known = row is not None and row["supported"]
        counts[schema.domain][0].add(schema.name)
        if known:
            counts[schema.domain][1].add(schema.name)
        op = f"`{row['op']}`" if known and row["op"] else "simpler ops" if known else "–"
        types = types_text(schema, row) if known else "–"
        lines[schema.domain].append(f"| {schema.name} | {schema.since_version} | {op} | {types} |")
    return lines, counts


def page(program):
    listed = json.loads(subprocess.run([program, "ops", "--onnx"], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout)
    rows = collections.defaultdict(list)
    for row in listed:
        rows[row["domain"], row["operator"]].append(row)
    check_inputs(rows, [*onnx.defs.get_all_schemas_with_history(), *get_all_operator_schema()])
    lines, counts = table_lines(rows)
    summary = [f"{DOMAINS[domain]}: {len(known)} of {len(names)} operators."
               for domain, (names, known) in sorted(counts.items())]
    text = HEAD.format(version=onnx.__version__, counts="\n".join(summary))
    for domain, name in DOMAINS.items():
        text += f"\n## {name}\n\n| operator | since | becomes | element types |\n|---|---|---|---|\n"
        text += "\n".join(lines[domain]) + "\n"
    text += "\n## com.microsoft\n\n| operator | becomes |\n|---|---|\n"
    for row in listed:
        if row["domain"] == "com.microsoft":
            op = f"`{row['op']}`" if row["op"] else "simpler ops"
            text += f"| {row['operator']} | {op if row['supported'] else '–'} |\n"
    return text + left_out_text({row["operator"] for row in listed if row["domain"] == "com.microsoft"})


def left_out_text(imported):
    """The operators of the installed ONNX Runtime that are not imported, with reasons; each must have one."""
    known = {schema.name for schema in get_all_operator_schema() if schema.domain == "com.microsoft"}
    listed = {name for names in LEFT_OUT.values() for name in names.split()}
    if listed != known - imported:
        sys.exit(f"error: LEFT_OUT differs from the operators without an import in {sorted(listed ^ (known - imported))}")
    text = f"\n{len(known & imported)} of {len(known)} operators. Not imported:\n\n| operators | reason |\n|---|---|\n"
    return text + "".join(f"| {', '.join(names.split())} | {reason} |\n" for reason, names in LEFT_OUT.items())


def main():
    program, *flags = sys.argv[1:]
    text = page(program)
    if "--check" not in flags:
        PAGE.write_text(text)
        return 0
    if text == PAGE.read_text():
        return 0
    print(f"error: {PAGE.name} is out of date: run scripts/make_onnx_docs.py {program}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
