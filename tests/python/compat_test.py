# SPDX-License-Identifier: MIT
"""`python -m lathe.compat`, `python -m lathe`, and the names of docs/python-compat.md."""

import importlib
import os
import re
import subprocess
import sys
import tempfile

import package

FOLDER = package.find()


DIGITS = package.ROOT / "examples/digits/digits.onnx"
COUNTING = package.ROOT / "examples/counting"
PROGRAM = """
import sys

import numpy as np
import onnxruntime as rt
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
import onnxruntime_genai as og
import migraphx

session = rt.InferenceSession(sys.argv[1], providers=rt.get_available_providers())
x = np.zeros((2, 1, 8, 8), np.float32)
print(session.run(None, {session.get_inputs()[0].name: x})[0].shape)
try:
    session.run(None, {session.get_inputs()[0].name: x.astype(np.float64)})
except InvalidArgument as error:
    print("InvalidArgument")
print(migraphx.parse_onnx(sys.argv[1]).get_parameter_names())
print(og.Model(sys.argv[2]).device_type)
print(rt.__name__, __name__, len(sys.argv))
"""


def python(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          env=environment, timeout=120, check=False, **options)


def test_an_unedited_program_runs():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        done = python("-m", "lathe.compat", path, DIGITS, COUNTING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "(2, 10)", "InvalidArgument", "['image']", "CPU", "lathe.onnxruntime __main__ 3"], done.stdout


def test_the_command_line_is_in_the_package():
    done = python("-m", "lathe", "inspect", DIGITS)
    assert done.returncode == 0 and "image" in done.stdout, (done.stdout, done.stderr)
    done = python("-m", "lathe", "inspect", "/none.onnx")
    assert done.returncode == 7 and "error: cannot open" in done.stderr, done.stderr


def test_every_name_of_the_page_exists():
    text = (package.ROOT / "docs/python-compat.md").read_text()
    assert "| Missing" not in text
    homes = {"## lathe.onnxruntime: ": "lathe.onnxruntime", "## lathe.genai: ": "lathe.genai",
             "## lathe: ": "lathe"}
    checked = 0
    for start, home in homes.items():
        part = text.split(start)[1].split("\n## ")[0]
        module = importlib.import_module(home)
        for path in re.findall(r"`([\w.]+)`", part):
            assert hasattr(module, path.split(".")[0]), f"{home}.{path}"
            checked += 1
    assert checked > 500, checked


def test_daemon_threads_at_exit():
    code = """
import threading, time

import numpy as np
from models import one_op
import lathe.onnxruntime as ort
session = ort.InferenceSession(one_op("Exp", shape=["N", 64]))
x = np.ones((50, 64), np.float32)
def work():
    while True:
        session.run(None, {"x0": x})
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(3):
        done = python("-c", code, cwd=os.path.dirname(__file__))
        assert done.returncode == 0, (done.returncode, done.stderr)


def test_ctrl_c_ends_a_run():
    code = """
import os, signal, threading, time

import numpy as np
import lathe.onnxruntime as ort
from onnx import TensorProto, helper
nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"v{i}", "x"], [f"v{i + 1}"])
         for i in range(400)]
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [700, 700])
graph = helper.make_graph(nodes, "long", [value("x")], [value("v400")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(model.SerializeToString(), options)
sent = []
def interrupt():
    time.sleep(0.3)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    session.run(None, {"x": np.eye(700, dtype=np.float32)})
    print("finished")
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - sent[0] < 5)
"""
    done = python("-c", code, cwd=os.path.dirname(__file__))
    assert done.stdout.split() in (["interrupted", "True"], ["finished"]), (done.stdout, done.stderr)


package.run(globals())
