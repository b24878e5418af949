# SPDX-License-Identifier: MIT
"""Base of the tests that run the lathe program and print 'N passed, N failed, N skipped'."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROGRAM = pathlib.Path(os.environ["TEST_PROGRAM"]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "examples" / "digits"
SECONDS = 120


class ProgramTest(unittest.TestCase):
    """Runs the program in a temporary folder of the test."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def start(self, *arguments, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
        environment.update(more.pop("env", {}))
        return subprocess.Popen([str(PROGRAM), *map(str, arguments)], cwd=self.folder, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def run_program(self, *arguments, code=0, **more):
        """Returns standard output as text; requires the exit code `code`."""
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=SECONDS)
        self.stderr = err.decode()
        self.assertEqual(process.returncode, code, f"{arguments}\n{self.stderr}{out[-2000:].decode(errors='replace')}")
        return out.decode(errors="surrogateescape")

    def path(self, name):
        return self.folder / name

    def save_model(self, name, nodes, inputs, outputs, initializers=(), opset=17):
        """inputs and outputs: (name, element type, dims)"""
        infos = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
        graph = helper.make_graph(nodes, "g", *infos, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.save(model, self.path(name))
        return self.path(name)

    def identity_model(self, element_type=TensorProto.FLOAT, dims=("n", 4), name="identity.onnx"):
        return self.save_model(name, [helper.make_node("Identity", ["x"], ["y"])],
                               [("x", element_type, dims)], [("y", element_type, dims)])

    def result(self, model, *arguments):
        """Returns the first output, read from an .npy file."""
        out = self.path("result.npy")
        self.run_program("run", model, "--output", out, *arguments)
        return np.load(out)


def tensor_file(path, array, name="x"):
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def main():
    result = unittest.main(module="__main__", exit=False, verbosity=0).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
