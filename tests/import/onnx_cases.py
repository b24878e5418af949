# SPDX-License-Identifier: MIT
"""Folders of models with inputs and expected outputs: those of the `onnx` package, and the recorded suites."""

import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

BUILD = pathlib.Path("build").resolve()


def message(value, info):
    """Converts a value to the message of its declared type."""
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


def made_once(folder, make):
    """The folder, filled by `make` if it is not there. Tests that run at the same time each see all of it."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = pathlib.Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
        make(part)
        try:
            part.rename(folder)
        except OSError:  # another test was first
            shutil.rmtree(part)
    return folder


def generated_cases():
    return made_once(BUILD / "onnx-backend-generated", write_cases)


def recorded_cases(name):
    """The unpacked archive NAME.tar.zst of $LATHE_TEST_DATA; None if it is not there."""
    archive = pathlib.Path(os.environ.get("LATHE_TEST_DATA", "../shared")) / f"models/{name}.tar.zst"
    if not archive.exists():
        return None

    def unpack(folder):
        content = subprocess.run(["zstd", "-dqc", archive], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as files:
            files.extractall(folder)

    return made_once(BUILD / f"{name}-recorded", unpack)
