# SPDX-License-Identifier: MIT
"""Writes tests/passes/spellings/IDEA.test anew: what both exporters of PyTorch write, opsets 11 to 20.

usage: PYTHON tests/passes/spellings/export.py LATHE [IDEA…], then passes_tests --update
PYTHON needs torch, transformers, onnx and onnxscript. Equal programs are one case.
"""
import contextlib
import io
import logging
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import onnx
import torch
from ideas import IDEAS, Call

warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)
SCRIPT, PROGRAM = "torch.onnx.export(dynamo=False)", "torch.onnx.export(dynamo=True)"
# Below 17 the exporter of programs writes opset 18.
OPSETS = {SCRIPT: range(11, 21), PROGRAM: (17, 18, 20)}


def script(idea, opset, path):
    axes = {name: dims for name, dims in idea.dynamic.items() if dims}
    names = [f"x{i}" for i in range(len(idea.inputs))]
    torch.onnx.export(idea.module.eval(), idea.inputs, path, dynamo=False, opset_version=opset,
                      input_names=names, output_names=["y"], dynamic_axes=axes)


def program_of(idea):
    dims = tuple({axis: torch.export.Dim(name, min=2, max=64)
                  for axis, name in idea.dynamic.get(f"x{i}", {}).items()} for i in range(len(idea.inputs)))
    return torch.export.export(idea.module.eval(), idea.inputs,
                               dynamic_shapes=(dims,) if isinstance(idea.module, Call) else dims)


def program(idea, opset, path):
    if idea.program is None:
        idea.program = program_of(idea)
    names = [f"x{i}" for i in range(len(idea.inputs))]
    torch.onnx.export(idea.program, idea.inputs, path, dynamo=True, opset_version=opset,
                      input_names=names, output_names=["y"], verbose=False)


def opset_of(path):
    return next(own.version for own in onnx.load(path).opset_import if own.domain == "")


def export(idea, exporter, opset, path):
    """True if the exporter has the op in this opset."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            (script if exporter == SCRIPT else program)(idea, opset, path)
    except Exception as error:  # noqa: BLE001 exporters raise many kinds
        print(f"  {idea.name}, {exporter}, opset {opset}: {str(error).splitlines()[0][:90]}", flush=True)
        return False
    return opset_of(path) == opset


def text_of(lathe, path):
    """The imported program without names that differ between exporters."""
    found = subprocess.run([lathe, "inspect", path], check=True, capture_output=True, text=True)
    lines = [line.removeprefix("  ") for line in found.stdout.splitlines()[1:-1]]
    text = "\n".join(re.sub(r'  from ".*$', "", line) for line in lines if not line.startswith("meta ")).strip("\n")
    names = {}

    def number(match):
        name = match.group(0)
        return name if re.fullmatch(r"%x\d", name) else names.setdefault(name, f"%{len(names)}")

    return re.sub(r'%("(\\.|[^"\\])*"|[\w.]+)', number, text) + "\n"


def spans(opsets):
    parts = []
    for opset in opsets:
        if parts and parts[-1][1] == opset - 1:
            parts[-1][1] = opset
        else:
            parts.append([opset, opset])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def cases(lathe, idea, path):
    seen = {}
    for exporter, opsets in OPSETS.items():
        for opset in opsets:
            if export(idea, exporter, opset, path):
                seen.setdefault(text_of(lathe, path), {}).setdefault(exporter, []).append(opset)
    for text, writers in seen.items():
        whom = ", ".join(f"{'script' if e == SCRIPT else 'dynamo'} {spans(o)}" for e, o in writers.items())
        yield f"# {idea.name}: {whom}\n{text}=> {idea.tolerance}\nunchanged\n"


def main():
    lathe, wanted = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        for name, ideas in IDEAS.items():
            if wanted and name not in wanted:
                continue
            found = [case for idea in ideas for case in cases(lathe, idea, f"{folder}/model.onnx")]
            (Path(__file__).parent / f"{name}.test").write_text("\n".join(found))
            print(f"{name}: {len(found)} cases", flush=True)


if __name__ == "__main__":
    main()
