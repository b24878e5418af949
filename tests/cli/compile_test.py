# SPDX-License-Identifier: MIT
"""compile, and the commands that take compiled files."""

import json
import os
import shutil
import subprocess
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import program
from program import DIGITS, ROOT


class Compile(program.ProgramTest):
    def compiled(self, model, *arguments, name="m.lathe"):
        self.printed = self.run_program("compile", model, "-o", name, *arguments)
        return self.path(name)

    def linear_model(self):
        weights = np.arange(3 * 40, dtype=np.float32).reshape(3, 40) / 8
        return self.save_model("linear.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
                               [("x", TensorProto.FLOAT, ("batch", 3))],
                               [("y", TensorProto.FLOAT, ("batch", 40))],
                               [numpy_helper.from_array(weights, "w")])

    def test_a_compiled_file_has_the_results_of_its_model(self):
        file = self.compiled(DIGITS / "digits.onnx")
        self.assertRegex(self.printed, r"\Am.lathe: [\d.]+ MB, [\d.]+ MB of weights packed for \w+")
        image = DIGITS / "four.png"
        expected = self.result(DIGITS / "digits.onnx", "--input", image)
        np.testing.assert_array_equal(self.result(file, "--input", image), expected)

    def test_it_stands_alone(self):
        shutil.copy(DIGITS / "digits.onnx", self.folder)
        file = self.compiled("digits.onnx")
        image = DIGITS / "four.png"
        expected = self.result("digits.onnx", "--input", image)
        self.path("digits.onnx").unlink()
        np.testing.assert_array_equal(self.result(file, "--input", image), expected)

    def test_the_other_commands_take_it(self):
        file = self.compiled(DIGITS / "digits.onnx")
        verified = self.run_program("verify", file)
        self.assertRegex(verified, r"passed +lowered")
        self.assertRegex(verified, r"each kernel")
        launches = json.loads(self.run_program("explain", file, "--json"))["launches"]
        expected = json.loads(self.run_program("explain", DIGITS / "digits.onnx", "--json"))["launches"]
        self.assertEqual(launches, expected)
        self.assertIn("latency_ms", json.loads(self.run_program("perf", file, "-n", 2, "--json")))
        self.assertIn("stage lowered", self.run_program("inspect", file))

    def test_dims_are_fixed_and_bounded(self):
        model = self.linear_model()
        fixed = self.compiled(model, "--dim", "batch=2")
        self.assertIn("%x: f32[2, 3]", self.run_program("inspect", fixed))
        bounded = self.compiled(model, "--dim", "batch=1..8")
        self.assertIn("symbol batch bound 1..8", self.run_program("inspect", bounded))
        self.run_program("run", bounded, "--fill", "batch=8")
        self.run_program("run", bounded, "--fill", "batch=9", code=2)
        again = self.compiled(bounded, "--dim", "batch=3", name="again.lathe")
        self.assertIn("%x: f32[3, 3]", self.run_program("inspect", again))
        for wrong in ("batch", "batch=", "batch=x", "batch=3..2", "=3", "other=3"):
            self.run_program("compile", model, "-o", "x.lathe", "--dim", wrong, code=2)
        for wrong in ("batch=9", "batch=1..9", "batch=0..8"):
            self.run_program("compile", bounded, "-o", "x.lathe", "--dim", wrong, code=2)
            self.assertIn("dim 'batch' is in 1..8", self.stderr)
        self.run_program("compile", model, "-o", "x.lathe", "--dim", "batch=2", "--dim", "batch=2", code=2)
        self.assertIn("dim 'batch' is set twice", self.stderr)
        self.assertFalse(self.path("x.lathe").exists())

    def test_the_compute_type_is_that_of_the_file(self):
        file = self.compiled(self.linear_model(), "--compute", "bf16", "--target", "cpu")
        self.run_program("run", file, "--compute", "bf16", "--target", "cpu")
        self.run_program("run", file, "--target", "cpu")
        self.run_program("run", file, "--compute", "int8", "--target", "cpu", code=4)
        self.assertIn("was compiled with --compute bf16", self.stderr)

    def test_a_stored_file_of_each_minor_version_opens(self):
        x = self.path("x.npy")
        np.save(x, np.arange(6, dtype=np.float32).reshape(2, 3))
        expected = self.result(self.linear_model(), "--input", x)
        files = sorted((ROOT / "tests/cli/compiled").glob("linear-*.lathe"))
        self.assertEqual([file.name for file in files], [f"linear-1.{minor}.lathe" for minor in range(3)])
        for file in files:
            for target in ("ref", "cpu"):
                np.testing.assert_array_equal(self.result(file, "--input", x, "--target", target), expected)

    def test_another_target_and_processor_lower_it_again(self):
        model = self.linear_model()
        file = self.compiled(model, "--target", "cpu")
        x = self.path("x.npy")
        np.save(x, np.arange(6, dtype=np.float32).reshape(2, 3))
        expected = self.result(model, "--input", x)
        np.testing.assert_array_equal(self.result(file, "--input", x, "--target", "ref"), expected)
        self.assertRegex(self.stderr, r"\Awarning: '.*m.lathe' was compiled for cpu with \w+: lowering it for ref")
        if os.environ.get("TEST_PRESET", "release") != "release":
            self.skipTest("the emulator cannot reserve the sanitizer's memory")
        haswell = subprocess.run([ROOT / "scripts" / "haswell.sh", program.PROGRAM, "run", file, "--input", x,
                                  "--output", self.path("y.npy"), "--target", "cpu"], capture_output=True)
        if haswell.returncode == 77:
            self.skipTest("no qemu-x86_64")
        self.assertEqual(haswell.returncode, 0, haswell.stdout)
        np.testing.assert_array_equal(np.load(self.path("y.npy")), expected)

    def test_a_state_is_kept(self):
        model = self.save_model("sum.onnx", [helper.make_node("Add", ["past", "x"], ["present"])],
                                [("past", TensorProto.FLOAT, (1,)), ("x", TensorProto.FLOAT, (1,))],
                                [("present", TensorProto.FLOAT, (1,))])
        file = self.compiled(model, "--state", "past=present")
        self.assertEqual(self.run_program("run", file, "--fill", "x=2", "--runs", 3),
                         self.run_program("run", model, "--state", "past=present", "--fill", "x=2", "--runs", 3))

    def test_damaged_files_are_errors(self):
        file = self.compiled(self.linear_model())
        content = file.read_bytes()
        for cut in (7, 100, len(content) - 1):
            file.write_bytes(content[:cut])
            self.run_program("run", file, code=3)
        file.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        self.run_program("run", file, code=3)
        self.assertIn("is damaged: bytes 0 to ", self.stderr)

    def test_bad_outputs_are_errors(self):
        model = self.linear_model()
        self.run_program("compile", model, code=2)
        self.assertIn("missing --output", self.stderr)
        self.run_program("compile", model, "-o", model, code=2)
        self.run_program("compile", model, "-o", "no/such/folder/m.lathe", code=7)


class Tune(program.ProgramTest):
    """What a measurement finds depends on the machine; that its choices keep the results does not."""

    def model(self):
        rng = np.random.default_rng(0)
        w = numpy_helper.from_array(rng.normal(size=(16, 16, 3, 3)).astype(np.float32), "w")
        v = numpy_helper.from_array(rng.normal(size=(16 * 64, 40)).astype(np.float32), "v")
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
                 helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("MatMul", ["f", "v"], ["y"])]
        return self.save_model("m.onnx", nodes, [("x", TensorProto.FLOAT, ("batch", 16, 8, 8))],
                               [("y", TensorProto.FLOAT, ("batch", 40))], [w, v])

    def setUp(self):
        super().setUp()
        self.cache = self.path("cache")
        self.env = {"XDG_CACHE_HOME": str(self.cache)}

    def known(self):
        (file,) = (self.cache / "lathe/tuned").iterdir()
        self.assertEqual(file.stat().st_mode & 0o077, 0)
        self.assertEqual(file.parent.stat().st_mode & 0o077, 0)
        return file, json.loads(file.read_text())

    def tuned(self, *arguments):
        out = self.run_program(*arguments, "--tune", 1, "--target", "cpu", "--threads", 1, env=self.env)
        self.assertRegex(self.stderr, r"\Atuned [23] problems, [023] of them measured")
        return out

    def choose_last(self):
        """Lets the cache prefer the last way to compute each problem; returns the choices."""
        file, known = self.known()
        self.assertGreaterEqual(len(known["choices"]), 2)  # a choice may bring problems of its own
        for problem in known["choices"]:
            known["choices"][problem] = {"conv": "direct, one thread", "regi": "cut behind step 0, conv"}.get(
                problem[:4], "panels * 2")
        file.write_text(json.dumps(known))
        return known["choices"]

    def test_it_measures_once_and_keeps_the_result(self):
        x = self.path("x.npy")
        np.save(x, np.random.default_rng(1).normal(size=(2, 16, 8, 8)).astype(np.float32))
        model = self.model()
        flags = ("--input", x, "--target", "cpu", "--threads", 1)
        expected = self.result(model, *flags)
        self.tuned("run", model, "--input", x, "--output", "y.npy")
        self.assertRegex(self.stderr, "[23] of them measured")
        np.testing.assert_allclose(np.load(self.path("y.npy")), expected, rtol=1e-4, atol=1e-4)
        self.tuned("run", model, "--input", x)
        self.assertIn("0 of them measured", self.stderr)
        # Without the flag, the cost model decides, whatever the cache has.
        self.choose_last()
        np.testing.assert_array_equal(self.result(model, *flags), expected)

    def test_a_damaged_cache_is_measured_again(self):
        model = self.model()
        self.tuned("perf", model, "-n", 2, "--fill", "batch=2")
        file, _ = self.known()
        for text in ("", "{", '{"processor": 3}', json.dumps({"processor": "x", "threads": 1, "choices": {"y": 1}})):
            file.write_text(text)
            self.tuned("perf", model, "-n", 2, "--fill", "batch=2")
            self.assertRegex(self.stderr, "[23] of them measured")
        file.write_text(json.dumps({**self.known()[1], "choices": {p: "no such way" for p in self.known()[1]["choices"]}}))
        self.tuned("perf", model, "-n", 2, "--fill", "batch=2")
        self.assertRegex(self.stderr, "[23] of them measured")

    def test_a_folder_that_others_can_write_is_not_used(self):
        folder = self.cache / "lathe/tuned"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        self.tuned("perf", self.model(), "-n", 2, "--fill", "batch=2")
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_compiled_file_has_the_choices(self):
        model = self.model()
        flags = ("--target", "cpu", "--threads", 1)
        self.tuned("compile", model, "-o", "m.lathe", "--fill", "batch=2")
        self.choose_last()
        self.tuned("compile", model, "-o", "m.lathe", "--fill", "batch=2")
        kept = "together the others were no faster" not in self.stderr
        self.assertEqual(b'"tuned":{' in self.path("m.lathe").read_bytes(), kept)
        explained = self.run_program("explain", "m.lathe", "--target", "cpu")
        self.assertEqual(": cut behind step 0, conv\n" in explained, kept)
        verified = self.run_program("verify", "m.lathe", *flags)
        self.assertIn("passed", verified)
        self.run_program("compile", model, "-o", "n.lathe", "--fill", "batch=2", code=2)
        self.assertIn("--fill does not apply to a compilation without --tune", self.stderr)


if __name__ == "__main__":
    program.main()
