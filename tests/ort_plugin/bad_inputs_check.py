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
import unittest.mock

import host
import numpy as np
import onnx
import onnxruntime
import sessions_check
from onnx import TensorProto, helper

PAGE = pathlib.Path("docs/onnxruntime-plugin.md").read_text()
OPTIONS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", PAGE, re.M)
OWN = {"threads": "2", "compute": "f32", "target": "ref", "memory_limit": "64M", "mem_limit": "64M",
       "gpu_mem_limit": "64M", "log": "0", "refuse": "", "device_id": "0"}
WRONG = {
    "threads": ["-1", "x", "1025", "1.5", ""], "compute": ["fp4", "F33"], "target": ["gpu0", "CPU "],
    "strict": ["yes", "2"], "memory_limit": ["much", "-1", "1Q"], "log": ["7", "x"], "device_id": ["1", "cpu"],
    "tune": ["-1", "x", "86401"],
    "fp16_enable": ["on"], "bf16_enable": ["2"], "int8_enable": ["x"], "mem_limit": ["few"], "gpu_mem_limit": ["x"],
}
UNKNOWN = {"thread": "threads", "migraphx_fp16": "", "computee": "compute", "strct": "strict", "": ""}


# Each row has the file of the 64 bytes of tensor w, its size, more entries, and the message. Hosts may find the problem
# themselves.
EXTERNAL = [
    ("weights.bin", 0, {}, "needs 64 bytes at offset 0 of 'weights.bin', but that file has 0"),
    ("weights.bin", 1, {}, "needs 64 bytes at offset 0 of 'weights.bin', but that file has 1"),
    ("weights.bin", 63, {}, "needs 64 bytes at offset 0 of 'weights.bin', but that file has 63"),
    ("weights.bin", None, {}, "weights.bin.*(No such file|does not exist)|does not exist.*weights.bin"),
    ("weights.bin", 64, {"offset": "1"}, "needs 64 bytes at offset 1 of 'weights.bin', but that file has 64"),
    ("weights.bin", 64, {"offset": "64"}, "needs 64 bytes at offset 64 of 'weights.bin', but that file has 64"),
    ("weights.bin", 64, {"offset": "9223372036854775807"}, "bytes at offset 9223372036854775807 of 'weights.bin'"),
    ("weights.bin", 64, {"length": "60"}, "'w': its external data has length 60, but .* need 64 bytes"),
    ("weights.bin", 64, {"length": "4096"}, "'w': its external data has length 4096, but .* need 64 bytes"),
    ("weights.bin", 64, {"offset": "x"}, "offset|Failed to parse"),
    ("weights.bin", 64, {"offset": "-4"}, "offset"),
    ("../weights.bin", None, {}, r"\.\./weights.bin"),
    ("../../etc/hostname", None, {}, r"\.\./\.\./etc/hostname"),
    ("/etc/hostname", None, {}, "/etc/hostname|Absolute paths? not allowed"),
    ("/dev/zero", None, {}, "/dev/zero|Absolute paths? not allowed"),
    ("", None, {}, "location|model format error|GetExternalInitializerInfo"),
]


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


class Case(unittest.TestCase):
    refused_inputs = set()

    def refused(self, name, make, pattern):
        """A bad input ends with a message that matches."""
        with self.subTest(input=name):
            self.assertRegex(problem(make), pattern)
            self.refused_inputs.add(name)


class Options(Case):
    def test_every_option_works_has_no_effect_or_is_refused_with_its_reason(self):
        data, feeds = sessions_check.model(sessions_check.MLP), {"x": sessions_check.X}
        want = host.session(data).run(None, feeds)[0]
        self.assertGreater(len(OPTIONS), 55)
        before = pathlib.Path.cwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # some options write files
            cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=folder)  # of tuned choices
            cache.start()
            self.addCleanup(cache.stop)
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

    def test_tuning_ends_on_a_loop_that_does_not(self):
        # Doubles x until it exceeds 100: never, if x is 0.
        body = helper.make_graph(
            [helper.make_node("Add", ["x_in", "x_in"], ["x_out"]), helper.make_node("Less", ["x_out", "most"], ["go"])],
            "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                     helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
                     helper.make_tensor_value_info("x_in", TensorProto.FLOAT, [])],
            [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
             helper.make_tensor_value_info("x_out", TensorProto.FLOAT, [])],
            [helper.make_tensor("most", TensorProto.FLOAT, [], [100])])
        graph = helper.make_graph(
            [helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
            [helper.make_tensor("yes", TensorProto.BOOL, [], [True])])
        model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
            session = host.session(model.SerializeToString(), {"tune": "0.01"})
        self.assertEqual(session.run(None, {"x": np.array(3, np.float32)})[0], 192)

    def test_wrong_values_are_named_with_what_is_expected(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, values in WRONG.items():
            for value in values:
                self.refused(f"option {name} = {value!r}", lambda: host.session(data, {name: value}),
                             rf"(?s)(?=.*{name}).*(expected|is empty|unknown|not a|must)")

    def test_wrong_booleans_of_other_eps_are_named(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, kind, _ in OPTIONS:
            if kind == "boolean":
                self.refused(f"option {name} = maybe", lambda: host.session(data, {name: "maybe"}),
                             f"option '{name}' is 'maybe', expected 0, 1, true or false")

    def test_unknown_options_are_errors_with_a_proposal(self):
        data = sessions_check.model(sessions_check.MLP)
        for name, meant in UNKNOWN.items():
            self.refused(f"unknown option {name!r}", lambda: host.session(data, {name: "1"}),
                         f"did you mean '{meant}'" if meant else f"unknown option '{name}'")

    def test_two_compute_types_are_an_error(self):
        data = sessions_check.model(sessions_check.MLP)
        self.refused("two compute types", lambda: host.session(data, {"bf16_enable": "1", "int8_enable": "1"}),
                     "but another option sets compute=")


class Contexts(Case):
    def test_contexts_that_cannot_be_written_are_errors(self):
        data = sessions_check.model(sessions_check.MLP)
        for key in ("enable", "embed_mode"):
            entries = {"ep__context_enable": "1", f"ep__context_{key}": "2"}
            self.refused(f"context_{key} = 2", lambda entries=entries: host.session(data, **entries),
                         f"'ep.context_{key}' is '2', expected 0 or 1")
        self.refused("a folder of contexts that is missing",
                     lambda: host.session(data, ep__context_enable="1",
                                          ep__context_file_path="/no/such/folder/m_ctx.onnx"), "/no/such/folder")

    def test_contexts_with_wrong_attributes_are_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "m_ctx.onnx"))
            host.session(sessions_check.model(sessions_check.MLP), ep__context_enable="1", ep__context_file_path=path,
                         ep__context_embed_mode="1")
            written = onnx.load(path)

            def opened(name, value, **more):
                made = onnx.ModelProto.FromString(written.SerializeToString())
                for attribute in made.graph.node[0].attribute:
                    if attribute.name in {name, *more}:
                        new = helper.make_attribute(attribute.name, more.get(attribute.name, value))
                        attribute.CopyFrom(new)
                return host.session(made.SerializeToString())

            self.refused("context main_context = 0", lambda: opened("main_context", 0),
                         "has main_context 0, expected 1")
            self.refused("context without bytes", lambda: opened("ep_cache_context", b""), "the context of '.*'")
            self.refused("context of other bytes", lambda: opened("ep_cache_context", b"\0\1 no container"),
                         "the context of '.*'")
            self.refused("context in a file of a model without a path",
                         lambda: opened("ep_cache_context", b"a.lathe", embed_mode=0), "but its model has no path")

    def test_a_context_of_another_ep_stays_with_it(self):
        node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", main_context=1, embed_mode=1,
                                ep_cache_context=b"\0bytes", source="OtherExecutionProvider")
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
        graph = helper.make_graph([node], "context", value[:1], value[1:])
        made = helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])
        self.refused("context of another EP", lambda: host.session(made.SerializeToString(), fallback=True),
                     "(?i)EPContext|NOT_IMPLEMENTED")


class ExternalData(Case):
    def test_whole_data_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            ours = host.session(with_external(folder, "weights.bin"))
            self.assertEqual(ours.run(None, {"x": np.ones((1, 4), np.float32)})[0].tolist(), [[0, 0, 0, 0]])

    def test_data_that_is_cut_missing_or_outside_is_an_error(self):
        for location, size, entries, message in EXTERNAL:
            with tempfile.TemporaryDirectory() as folder:
                path = with_external(folder, location, size, **entries)
                name = f"external data in {location!r} of {size} bytes {entries}"
                self.refused(name, lambda: host.session(path, {"strict": "1"}), message)
                self.assertNotEqual(problem(lambda: host.session(path)), "", name)

    def test_a_link_out_of_the_folder_and_a_folder_are_errors(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            path = with_external(folder, "weights.bin", None)
            pathlib.Path(other, "real.bin").write_bytes(bytes(64))
            pathlib.Path(folder, "weights.bin").symlink_to(pathlib.Path(other, "real.bin"))
            self.refused("external data behind a link", lambda: host.session(path, {"strict": "1"}),
                         "outside|escapes")
            if host.VERSION >= (1, 28):  # before, the host itself may wait for a writer
                os.unlink(pathlib.Path(folder, "weights.bin"))
                pathlib.Path(folder, "weights.bin").mkdir()
                self.refused("external data in a folder", lambda: host.session(path, {"strict": "1"}),
                             "weights.bin")


class Bindings(Case):
    def test_wrong_inputs_are_errors(self):
        ours = host.session(sessions_check.model(sessions_check.MLP))
        for name, feeds, message in [
            ("no inputs", {}, "missing from input feed"),
            ("a wrong size", {"x": np.zeros((2, 5), np.float32)}, "Expected: 4"),
            ("a wrong rank", {"x": np.zeros(4, np.float32)}, "Got: 1 Expected: 2"),
            ("doubles for floats", {"x": np.zeros((2, 4))}, "tensor.double"),
            ("integers for floats", {"x": np.zeros((2, 4), np.int64)}, "tensor.int64"),
            ("an unknown input", {"z": sessions_check.X}, "missing from input feed|Invalid"),
        ]:
            self.refused(name, lambda feeds=feeds: ours.run(None, feeds), message)
        self.assertEqual(ours.run(None, {"x": sessions_check.X})[0].shape, (3, 3))

    def test_sizes_that_contradict_each_other_are_an_error_and_the_session_goes_on(self):
        ours = host.session(sessions_check.model("sum (float[n] a, float[m] b) => (float[k] y) { y = Add(a, b) }"))
        for a, b in [(3, 4), (4, 3), (0, 2), (7, 5)]:
            self.refused(f"sums of {a} and {b}", lambda a=a, b=b: ours.run(
                None, {"a": np.zeros(a, np.float32), "b": np.zeros(b, np.float32)}), f"{a}.*{b}|{b}.*{a}")
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
        self.refused("an output bound to too little memory", lambda: ours.run_with_iobinding(small),
                     "(?s)3.*4|4.*3")


if __name__ == "__main__":
    print(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}", file=sys.stderr)
    result = unittest.main(exit=False).result
    count = len(Case.refused_inputs)
    print(f"{len(OPTIONS)} options, {count} bad inputs refused, each with its message")
    sys.exit(0 if result.wasSuccessful() and count >= 60 else 1)
