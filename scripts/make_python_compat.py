# SPDX-License-Identifier: MIT
"""Writes docs/python-compat.md: what becomes of each public name of the installed onnxruntime and
onnxruntime_genai, and of MIGraphX's, in the package lathe.

usage: make_python_compat.py [--check]       --check: fails if a name is missing, writes nothing
"""

import ast
import enum
import importlib
import inspect
import pathlib
import re
import sys
import textwrap

import lathe
import lathe._features
import lathe.onnxruntime as ort
from lathe.onnxruntime import _keys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/python-compat.md"
MIGRAPHX = """
allocate_gpu argument argument.data_ptr argument.get_shape argument.load argument.save argument.tolist
argument_from_pointer autocast_fp8 compile_modes create_argument dynamic_dimension
dynamic_dimension.is_fixed dynamic_dimension.is_symbolic fill_argument from_gpu generate_argument
get_onnx_operators get_target gpu_sync instruction_ref instruction_ref.get_literal instruction_ref.inputs
instruction_ref.name instruction_ref.op instruction_ref.outputs instruction_ref.shape load load_buffer
macro module module.add_instruction module.add_literal module.add_macro module.add_parameter
module.add_return module.insert_macro module.print module.replace_return op op.name op.values
parse_onnx parse_onnx_buffer parse_tf program program.compile program.create_module
program.get_main_module program.get_output_shapes program.get_parameter_names
program.get_parameter_shapes program.is_compiled program.print program.run program.run_async
program.sort program.to_py program.verify quantize_bf16 quantize_fp16 quantize_fp8 quantize_int8 save
save_buffer shape shape.broadcasted shape.bytes shape.dyn_dims shape.dynamic shape.dynamic_dimension
shape.elements shape.from_json shape.lens shape.ndim shape.packed shape.scalar shape.standard
shape.strides shape.transposed shape.type shape.type_size shape.type_string shape.type_t to_gpu
""".split()
INSTANCES = {
    "SessionOptions": ort.SessionOptions, "RunOptions": ort.RunOptions,
    "ModelMetadata": ort.ModelMetadata, "OrtArenaCfg": lambda: ort.OrtArenaCfg({}),
    "OrtHardwareDevice": ort.OrtHardwareDevice, "OrtEpDevice": lambda: ort.OrtEpDevice("x"),
    "OrtMemoryInfo": lambda: ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.INVALID, 0,
                                               ort.OrtMemType.DEFAULT),
    "OrtEpAssignedNode": lambda: ort.OrtEpAssignedNode("", "", ""),
    "OrtEpAssignedSubgraph": lambda: ort.OrtEpAssignedSubgraph("", []),
    "OrtExternalInitializerInfo": lambda: ort.OrtExternalInitializerInfo("", 0, 0),
}


def public_names(module):
    """The module's classes with their members, functions and values; not what it imports."""
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        yield name
        if isinstance(value, type):
            inherited = dir(int) if issubclass(value, int) else dir(object)
            for member in sorted(set(dir(value)) - set(inherited)):
                if not member.startswith("_"):
                    yield f"{name}.{member}"


def find(module, path):
    """The value of a dotted name, on an instance if the class has it not."""
    owner, name = module, path
    if "." in path:
        class_name, name = path.split(".")
        owner = getattr(module, class_name)
        if not hasattr(owner, name) and issubclass(owner, enum.Enum):
            owner = next(iter(owner))
        if not hasattr(owner, name) and class_name in INSTANCES:
            owner = INSTANCES[class_name]()
    return getattr(owner, name)


def refused_feature(value):
    """The feature that a name refuses whatever its arguments are, or None."""
    doc = inspect.getdoc(value) or ""
    if doc.startswith("Refused: "):
        return doc.removeprefix("Refused: ").rstrip(".")
    if not inspect.isroutine(value):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return None
    body = getattr(tree.body[0], "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Call):
        call = body[0].value
        if isinstance(call.func, ast.Name) and call.func.id == "refuse":
            return call.args[0].value
    return None


def missing_keywords(theirs, ours):
    """Parameters of the original that ours cannot be passed by keyword."""
    try:
        wanted = inspect.signature(theirs).parameters.values()
        have = inspect.signature(ours).parameters.values()
    except (ValueError, TypeError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in have):
        return []
    names = {p.name for p in have}
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in wanted if p.kind in kinds and p.name not in names and p.name != "self"]


def verdict(theirs, module, path):
    """(state, remark)"""
    try:
        value = find(module, path)
    except AttributeError:
        return "missing", ""
    feature = refused_feature(value)
    if feature:
        return "refused", feature
    if theirs is not None:
        lacking = missing_keywords(theirs, value)
        if lacking and inspect.isroutine(value):
            return "missing", f"keywords {', '.join(lacking)}"
    doc = inspect.getdoc(value) or ""
    match = re.match(r"No effect[^:]*: (.*)", doc, re.S)
    if match:
        return "no effect", " ".join(match.group(1).split())
    return "works", ""


def table(title, rows):
    counts = {}
    for _, (state, _) in rows:
        counts[state] = counts.get(state, 0) + 1
    lines = [f"## {title}", "",
             ", ".join(f"{count} {state}" for state, count in sorted(counts.items(), reverse=True))
             + ".", ""]
    for state, text in (("works", "Works"), ("no effect", "No effect"), ("refused", "Refused"),
                        ("missing", "Missing")):
        listed = [(name, remark) for name, (found, remark) in rows if found == state]
        if not listed:
            continue
        if state == "works":
            names = ", ".join(f"`{name}`" for name, _ in listed)
            lines += [*textwrap.wrap(f"{text}: {names}.", 110), ""]
        else:
            lines += [f"| {text} | |", "|---|---|"]
            lines += [f"| `{name}` | {remark} |" for name, remark in listed] + [""]
    return lines, counts


def rows_of(original, ours):
    module = importlib.import_module(original)
    for path in public_names(module):
        theirs = inspect.getattr_static(module, path) if "." not in path else getattr(
            getattr(module, path.split(".")[0]), path.split(".")[1])
        yield path, verdict(theirs if callable(theirs) else None, ours, path)


def keys():
    """The configuration keys that are honoured or refused."""
    lines = ["## Configuration keys of lathe.onnxruntime", "",
             "Other keys have no effect: they set memory, threads or file formats of ONNX Runtime.",
             "", "| key | |", "|---|---|"]
    lines += [f"| `{key}` | works: {text} |" for key, text in sorted(_keys.HONOURED.items())]
    lines += [f"| `{key}` | refused unless {' or '.join(repr(v) for v in values)}: {feature} |"
              for key, values, feature in _keys.REFUSED]
    return lines + [""]


def main():
    import lathe.genai

    page = ["# Python: names of the other libraries", "",
            "`make docs-python` writes this page from the installed packages.", "",
            "A name works, has no effect on results (with the reason), or is refused: its use raises "
            "`lathe.Unsupported`,", "which names the feature and a remedy.", ""]
    missing = 0
    for title, original, ours in (("lathe.onnxruntime", "onnxruntime", ort),
                                  ("lathe.genai", "onnxruntime_genai", lathe.genai)):
        version = importlib.import_module(original).__version__
        lines, counts = table(f"{title}: the names of {original} {version}",
                              list(rows_of(original, ours)))
        page += lines
        missing += counts.get("missing", 0)
    lines, counts = table("lathe: the names of MIGraphX",
                          [(path, verdict(None, lathe, path)) for path in MIGRAPHX])
    page += lines + keys()
    missing += counts.get("missing", 0)
    page += ["## Absent features", "", "| feature | remedy |", "|---|---|"]
    page += [f"| {name} | {remedy} |" for name, remedy in lathe.features().items()]
    text = "\n".join(page).rstrip() + "\n"
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    for line in text.splitlines():
        if line.startswith("| Missing"):
            print("missing names: see", PAGE)
    print(f"{missing} names are missing")
    return 1 if missing else 0


sys.exit(main())
