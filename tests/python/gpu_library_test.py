# SPDX-License-Identifier: MIT
"""liblathe_gpu: its size and symbols; without it, and with another build's, the program works and states it; two
libraries of one process open it."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import package

FOLDER = package.find().parent
LIBRARY = FOLDER / "lib" / "liblathe_gpu.so"
PROGRAM = os.environ.get("TEST_PROGRAM", str(FOLDER / "bin" / "lathe"))
MODEL = "examples/digits/digits.onnx"
STAMP = re.compile(rb"\0([0-9a-f]{32})\0")


def run(program, *arguments):
    # The sanitizer's runtime that Python preloads is linked into the program, too.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def rows(output, name):
    return [line[len(name):].strip() for line in output.splitlines() if line.startswith(name + " ")]


def test_its_file():
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert {name for name in names if not name.startswith("__")} == {
        "lathe_gpu_open", "_ZN5lathe3ops7recordsE"}, names
    if os.environ.get("TEST_PRESET", "release") == "release":
        assert LIBRARY.stat().st_size <= 4 << 20


def test_without_it():
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(PROGRAM, folder)
        code, text = run(program, "doctor")
        assert code == 0 and len(rows(text, "gpu")) == 1, text
        assert rows(text, "gpu")[0].startswith("the GPU target is missing (liblathe_gpu.so: cannot open"), text
        assert run(program, "verify", MODEL)[0] == 0
        code, text = run(program, "verify", MODEL, "--target", "gpu:host")
        assert code != 0 and "install liblathe_gpu.so beside lathe" in text, text


def test_through_a_link():
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "lathe"
        program.symlink_to(pathlib.Path(PROGRAM).resolve())
        code, text = run(program, "verify", MODEL, "--target", "gpu:host")
        assert code == 0, text


def test_of_another_build():
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(PROGRAM, folder)
        content = LIBRARY.read_bytes()
        (stamp,) = STAMP.findall(content)
        (pathlib.Path(folder) / LIBRARY.name).write_bytes(content.replace(stamp, stamp[::-1]))
        code, text = run(program, "doctor")
        assert code == 0 and "is not usable: it is of another build of Lathe" in rows(text, "gpu")[0], text
        (pathlib.Path(folder) / LIBRARY.name).write_text("no library")
        code, text = run(program, "doctor")
        assert code == 0 and len(rows(text, "gpu")) == 1, text
        shutil.copy(LIBRARY, folder)
        assert len(rows(run(program, "doctor")[1], "gpu")) >= 2


def test_beside_another_user():
    class Host(ctypes.Structure):
        _fields_ = [("stamp", ctypes.c_char_p), ("functions", ctypes.c_void_p), ("records", ctypes.c_void_p)]

    (stamp,) = STAMP.findall(LIBRARY.read_bytes())
    functions = (ctypes.c_void_p * 4096)()
    other = Host(stamp, ctypes.addressof(functions), ctypes.addressof(functions))
    opened = ctypes.CDLL(LIBRARY)
    table = ctypes.c_void_p()
    assert opened.lathe_gpu_open(ctypes.byref(other), ctypes.byref(table)) == 0
    import lathe
    from lathe._migraphx.program import target

    p = lathe.parse_onnx(MODEL)
    p.compile(target("gpu:host"))
    expected = lathe.parse_onnx(MODEL)
    expected.compile(lathe.get_target("cpu"))
    import numpy as np

    inputs = {name: np.full(shape.lens(), 0.5, np.float32) for name, shape in p.get_parameter_shapes().items()}
    found, known = np.asarray(p.run(inputs)[0]), np.asarray(expected.run(inputs)[0])
    assert np.abs(found - known).max() < 1e-4


package.run(globals())
