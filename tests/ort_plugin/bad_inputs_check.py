# SPDX-License-Identifier: MIT
"""Sessions with wrong options, contexts, external data and bindings end with a message; every option works as
its page states.

usage: bad_inputs_check.py (LATHE_ORT_LIBRARY names the library)
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

import host
import numpy as np
import onnx
import onnxruntime
import sessions_check
from onnx import TensorProto, helper

PAGE = pathlib.Path("docs/onnxruntime-plugin.md").read_text()
OPTIONS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", PAGE, re.M)
OWN = {"threads": "2", "compute": "f32", "target": "ref", "memory_limit": "64M", "mem_limit": "64M", "gpu_mem_limit": "64M", "log": "0", "refuse": "",
       "device_id": "0"}
WRONG = {
    "threads": ["-1", "x", "1025", "1.5", ""], "compute": ["fp4", "F33"], "target": ["gpu0", "CPU "],
    "strict": ["yes", "2"], "memory_limit": ["much", "-1", "1Q"], "log": ["7", "x"], "device_id": ["1", "cpu"],
    "fp16_enable": ["on"], "bf16_enable": ["2"], "int8_enable": ["x"], "mem_limit": ["few"], "gpu_mem_limit": ["x"],
}
UNKNOWN = {"thread": "threads", "migraphx_fp16": "", "computee": "compute", "strct": "strict", "": ""}


def problem(make):
    """The message of the exception that `make` raises."""
    try:
        make()
    except Exception as error:  # noqa: BLE001 — hosts differ in their classes
        return str(error)
    return ""


def with_external(folder, location, size=64, **entries):
    """A path to a model whose weights lie in `location`, a file of `size` bytes."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])])
    tensor = graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.extend([4, 4])
    for key, value in {"location": location, "offset": "0", "length": "64", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    path = pathlib.Path(folder, "model.onnx")
    path.write_bytes(model.SerializeToString())
    if size is not None and not location.startswith(("/", "..")):
        pathlib.Path(folder, location).write_bytes(bytes(size))
    return str(path)


class Options(unittest.TestCase):
    def test_every_option_works_has_no_effect_or_is_refused_with_its_reason(self):
        data, feeds = sessions_check.model(sessions_check.MLP), {"x": sessions_check.X}
        want = host.session(data).run(None, feeds)[0]
        self.assertGreater(len(OPTIONS), 55)
        before = pathlib.Path.cwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # some options write files
            for name, kind, use in OPTIONS:
                value = "true" if kind == "boolean" else OWN.get(name, name if kind == "path" else "1")
                for key in (name, f"migraphx_{name}"):
                    with self.subTest(option=key):
                        if use.startswith("refused: "):
                            text = problem(lambda: host.session(data, {key: value}))
                            self.assertIn(f"option '{key}' is '{value}', which is not supported: {use[9:]}", text)
                            continue
                        got = host.session(data, {key: value}).run(None, feeds)[0]
                        np.testing.assert_allclose(got, want, atol=0.02)
            os.chdir(before)

    def test_wrong_values_are_named_with_what_is_expected(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, values in WRONG.items():
            for value in values:
                with self.subTest(option=name, value=value):
                    text = problem(lambda: host.session(data, {name: value}))
                    self.assertIn(name, text)
                    self.assertRegex(text, "expected|is empty|unknown|not a|must")

    def test_wrong_booleans_of_other_eps_are_named(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, kind, _ in OPTIONS:
            if kind == "boolean":
                with self.subTest(option=name):
                    text = problem(lambda: host.session(data, {name: "maybe"}))
                    self.assertIn(f"option '{name}' is 'maybe', expected 0, 1, true or false", text)

    def test_unknown_options_are_errors_with_a_proposal(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, meant in UNKNOWN.items():
            with self.subTest(option=name):
                text = problem(lambda: host.session(data, {name: "1"}))
                self.assertIn(f"did you mean '{meant}'" if meant else "option", text)

    def test_two_compute_types_are_an_error(self):
        text = problem(lambda: host.session(sessions_check.model(sessions_check.MLP),
                                            {"bf16_enable": "1", "int8_enable": "1"}))
        self.assertIn("but another option sets compute=", text)


class Contexts(unittest.TestCase):
    def test_contexts_that_cannot_be_written_are_errors(self):
        data = sessions_check.model(sessions_check.MLP)
        text = problem(lambda: host.session(data, ep__context_enable="2"))
        self.assertIn("'ep.context_enable' is '2', expected 0 or 1", text)
        text = problem(lambda: host.session(data, ep__context_enable="1",
                                            ep__context_file_path="/no/such/folder/m_ctx.onnx"))
        self.assertIn("/no/such/folder", text)

    def test_a_context_of_another_ep_stays_with_it(self):
        node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", main_context=1, embed_mode=1,
                                ep_cache_context=b"\0bytes", source="OtherExecutionProvider")
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
        graph = helper.make_graph([node], "context", value[:1], value[1:])
        made = helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])
        self.assertNotEqual(problem(lambda: host.session(made.SerializeToString(), fallback=True)), "")


class ExternalData(unittest.TestCase):
    def test_whole_data_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            ours = host.session(with_external(folder, "weights.bin"))
            self.assertEqual(ours.run(None, {"x": np.ones((1, 4), np.float32)})[0].tolist(), [[0, 0, 0, 0]])

    def test_data_that_is_cut_missing_or_outside_is_an_error(self):
        for location, size, entries in [
            ("weights.bin", 0, {}), ("weights.bin", 1, {}), ("weights.bin", 63, {}), ("weights.bin", None, {}),
            ("weights.bin", 64, {"offset": "1"}), ("weights.bin", 64, {"offset": "64"}),
            ("weights.bin", 64, {"offset": "9223372036854775807"}), ("weights.bin", 64, {"length": "60"}),
            ("weights.bin", 64, {"length": "4096"}), ("weights.bin", 64, {"offset": "x"}),
            ("weights.bin", 64, {"offset": "-4"}), ("../weights.bin", None, {}), ("../../etc/hostname", None, {}),
            ("/etc/hostname", None, {}), ("/dev/zero", None, {}), ("", None, {}),
        ]:
            with self.subTest(location=location, size=size, **entries), tempfile.TemporaryDirectory() as folder:
                path = with_external(folder, location, size, **entries)
                self.assertNotEqual(problem(lambda: host.session(path)), "")

    def test_a_link_out_of_the_folder_and_a_pipe_are_errors(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            path = with_external(folder, "weights.bin", None)
            pathlib.Path(other, "real.bin").write_bytes(bytes(64))
            pathlib.Path(folder, "weights.bin").symlink_to(pathlib.Path(other, "real.bin"))
            self.assertNotEqual(problem(lambda: host.session(path)), "")
            os.unlink(pathlib.Path(folder, "weights.bin"))
            os.mkfifo(pathlib.Path(folder, "weights.bin"))
            if host.VERSION >= (1, 28):  # before, the host itself may wait for a writer
                os.unlink(pathlib.Path(folder, "weights.bin"))
                pathlib.Path(folder, "weights.bin").mkdir()
                self.assertNotEqual(problem(lambda: host.session(path)), "")


class Bindings(unittest.TestCase):
    def test_wrong_inputs_are_errors(self):
        ours = host.session(sessions_check.model(sessions_check.MLP))
        for feeds in ({}, {"x": np.zeros((2, 5), np.float32)}, {"x": np.zeros(4, np.float32)},
                      {"x": np.zeros((2, 4))}, {"x": np.zeros((2, 4), np.int64)}, {"z": sessions_check.X}):
            self.assertNotEqual(problem(lambda: ours.run(None, feeds)), "")
        self.assertEqual(ours.run(None, {"x": sessions_check.X})[0].shape, (3, 3))

    def test_sizes_that_contradict_each_other_are_an_error_and_the_session_goes_on(self):
        ours = host.session(sessions_check.model("sum (float[n] a, float[m] b) => (float[k] y) { y = Add(a, b) }"))
        text = problem(lambda: ours.run(None, {"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)}))
        self.assertRegex(text, "3.*4|4.*3")
        self.assertEqual(ours.run(None, {"a": np.zeros(3, np.float32), "b": np.ones(1, np.float32)})[0].shape, (3,))

    def test_two_outputs_in_one_memory_and_one_too_small_do_no_harm(self):
        ours = host.session(sessions_check.model(
            "two (float[4] a) => (float[4] s, float[4] d) { s = Exp(a)  d = Neg(a) }"))
        shared = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32))
        io = ours.io_binding()
        io.bind_cpu_input("a", np.ones(4, np.float32))
        io.bind_ortvalue_output("s", shared)
        io.bind_ortvalue_output("d", shared)
        ours.run_with_iobinding(io)
        self.assertIn(shared.numpy()[0], (np.float32(np.e), -1))
        small = ours.io_binding()
        small.bind_cpu_input("a", np.ones(4, np.float32))
        small.bind_ortvalue_output("s", onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)))
        small.bind_output("d")
        self.assertNotEqual(problem(lambda: ours.run_with_iobinding(small)), "")


if __name__ == "__main__":
    print(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}", file=sys.stderr)
    unittest.main()
