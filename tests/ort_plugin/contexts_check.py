# SPDX-License-Identifier: MIT
"""Compiled contexts (nodes EPContext): written by ONNX Runtime, and sessions from them.

usage: contexts_check.py [--all] (LATHE_ORT_LIBRARY names the library; --all: every cut of a file, not each 97th)
"""

import os
import pathlib
import sys
import tempfile
import unittest

import bad_inputs_check
import host
import numpy as np
import onnx
import onnxruntime
import sessions_check
from sessions_check import X

FLIPS = 200
CUT_STEP = 1 if "--all" in sys.argv else 97

WIDE = """wide (float[batch, 40] x) => (float[batch, 64] y)
<float[40, 64] w> { m = MatMul(x, w)  r = Relu(m)  y = Add(r, r) }"""


def wide():
    made = onnx.load_from_string(sessions_check.model(WIDE.replace("<float[40, 64] w>", "")))
    weights = np.arange(40 * 64, dtype=np.float32).reshape(40, 64) / 100 - 12
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return made.SerializeToString()


class Contexts(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.path = str(self.folder / "model_ctx.onnx")

    def written(self, data, embed="0", options=None, fallback=False):
        pathlib.Path(self.path).unlink(missing_ok=True)  # the host overwrites no model
        host.session(data, options, fallback=fallback, ep__context_enable="1", ep__context_file_path=self.path,
                     ep__context_embed_mode=embed)
        return self.path

    def nodes(self):
        return [node for node in onnx.load(self.path).graph.node if node.op_type == "EPContext"]

    def attributes(self, node):
        return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}

    def test_a_file_beside_the_model_has_the_same_bits(self):
        data, feeds = wide(), {"x": np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 40)}
        expected = host.session(data).run(None, feeds)[0]
        path = self.written(data)
        attributes = self.attributes(self.nodes()[0])
        self.assertEqual((attributes["embed_mode"], attributes["main_context"]), (0, 1))
        self.assertTrue((self.folder / attributes["ep_cache_context"].decode()).exists())
        self.assertEqual(attributes["source"], b"LatheExecutionProvider")
        np.testing.assert_array_equal(host.session(path).run(None, feeds)[0], expected)
        np.testing.assert_array_equal(host.session(path).run(None, {"x": feeds["x"][:1]})[0], expected[:1])

    def test_an_embedded_context_needs_no_file(self):
        data, feeds = wide(), {"x": np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 40)}
        expected = host.session(data).run(None, feeds)[0]
        path = self.written(data, embed="1")
        self.assertEqual(os.listdir(self.folder), ["model_ctx.onnx"])
        self.assertEqual(self.attributes(self.nodes()[0])["embed_mode"], 1)
        np.testing.assert_array_equal(host.session(path).run(None, feeds)[0], expected)
        in_memory = pathlib.Path(path).read_bytes()
        np.testing.assert_array_equal(host.session(in_memory).run(None, feeds)[0], expected)

    def test_graphs_of_all_kinds(self):
        cases = [(sessions_check.MLP, {"x": X}), (sessions_check.CHAIN, {"x": X}),
                 (sessions_check.BRANCH, {"x": X[0], "c": np.array(True)}),
                 (sessions_check.LOOP, {"trips": np.array(3), "x": X[0, :3]}),
                 (sessions_check.SHAPES, {"x": np.arange(12, dtype=np.float32).reshape(2, 2, 3)}),
                 (sessions_check.FOUND, {"x": np.array([0, 1, 2], np.float32)})]
        for text, feeds in cases:
            with self.subTest(text.split()[0]):
                data = sessions_check.model(text)
                expected = host.session(data).run(None, feeds)
                again = host.session(self.written(data, embed="1")).run(None, feeds)
                for got, want in zip(again, expected, strict=True):
                    np.testing.assert_array_equal(got, want)

    @unittest.skipIf(host.VERSION < (1, 23, 1), "1.23.0 has whole graphs alone")
    def test_each_group_has_a_context(self):
        data = sessions_check.model(sessions_check.CHAIN)
        options = {"refuse": "HardSigmoid"}
        expected = host.session(data, options, fallback=True).run(None, {"x": X})[0]
        path = self.written(data, options=options, fallback=True)
        self.assertEqual(len(self.nodes()), 2)
        self.assertEqual(len(list(self.folder.glob("*.lathe"))), 2)
        np.testing.assert_array_equal(host.session(path, fallback=True).run(None, {"x": X})[0], expected)

    def test_the_name_of_the_model_without_a_path_to_write_to(self):
        source = self.folder / "small.onnx"
        source.write_bytes(wide())
        host.session(str(source), ep__context_enable="1")
        self.assertTrue((self.folder / "small_ctx.onnx").exists())
        feeds = {"x": np.ones((1, 40), np.float32)}
        np.testing.assert_array_equal(host.session(str(self.folder / "small_ctx.onnx")).run(None, feeds)[0],
                                      host.session(str(source)).run(None, feeds)[0])

    def test_model_compiler(self):
        if not hasattr(onnxruntime, "ModelCompiler"):
            self.skipTest("no ModelCompiler")
        config = onnxruntime.SessionOptions()
        config.add_provider_for_devices(host.devices(), {})
        feeds = {"x": np.ones((2, 40), np.float32)}
        compiled = onnxruntime.ModelCompiler(config, wide(), embed_compiled_data_into_model=True).compile_to_bytes()
        np.testing.assert_array_equal(host.session(compiled).run(None, feeds)[0],
                                      host.session(wide()).run(None, feeds)[0])

    def test_flipped_bytes_are_errors_or_change_nothing(self):
        feeds = {"x": np.ones((1, 40), np.float32)}
        expected = host.session(wide()).run(None, feeds)[0]
        path = self.written(wide())
        file = next(self.folder.glob("*.lathe"))
        content = file.read_bytes()
        random, errors = np.random.default_rng(5), 0
        for place, bit in zip(random.integers(0, len(content), FLIPS), random.integers(0, 8, FLIPS), strict=True):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1:])
            try:
                got = host.session(path).run(None, feeds)[0]
            except Exception as error:
                errors += 1
                self.assertIn("is damaged", str(error))
            else:
                np.testing.assert_array_equal(got, expected)
        self.assertGreater(errors, FLIPS // 2)

    def test_cut_contexts_are_errors(self):
        path = self.written(sessions_check.model(sessions_check.MLP))
        file = next(self.folder.glob("*.lathe"))
        content = file.read_bytes()
        for size in [*range(0, len(content), CUT_STEP), len(content) - 1]:
            file.write_bytes(content[:size])
            text = bad_inputs_check.problem(lambda: host.session(path))
            self.assertIn(".lathe", text, size)
        file.unlink()
        with self.assertRaisesRegex(Exception, "which is not beside its model"):
            host.session(path)

    def test_flips_and_cuts_of_embedded_contexts(self):
        feeds = {"x": np.ones((1, 40), np.float32)}
        expected = host.session(wide()).run(None, feeds)[0]
        made = onnx.load(self.written(wide(), embed="1"))
        attribute = next(a for a in made.graph.node[0].attribute if a.name == "ep_cache_context")
        content = attribute.s
        random = np.random.default_rng(6)
        for place in random.integers(0, len(content), FLIPS // 4):
            for damaged in (content[:place], content[:place] + bytes([content[place] ^ 4]) + content[place + 1:]):
                attribute.s = damaged
                try:
                    got = host.session(made.SerializeToString()).run(None, feeds)[0]
                except Exception as error:
                    self.assertRegex(str(error), "the context of '.*' is damaged|is not a compiled file")
                else:
                    np.testing.assert_array_equal(got, expected)

    def test_a_context_for_other_types_is_an_error(self):
        self.written(wide(), embed="1")
        for changed in ("input", "output"):
            made = onnx.load(self.path)
            getattr(made.graph, changed)[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
            text = bad_inputs_check.problem(lambda made=made: host.session(made.SerializeToString()))
            self.assertRegex(text, "has elements f32 for '[xy]', expected f64")

    def test_names_of_the_provider_share_contexts(self):
        data, feeds = wide(), {"x": np.ones((2, 40), np.float32)}
        expected = host.session(data).run(None, feeds)[0]
        names = [("lathe", "lathe"), ("LatheExecutionProvider", "lathe"),
                 ("MIGraphXExecutionProvider", "MIGraphXExecutionProvider")]
        for writer in names:
            pathlib.Path(self.path).unlink(missing_ok=True)
            host.session(data, name=writer[0], registration=writer[1], ep__context_enable="1",
                         ep__context_file_path=self.path, ep__context_embed_mode="1")
            for name, registration in names:
                got = host.session(self.path, name=name, registration=registration).run(None, feeds)[0]
                np.testing.assert_array_equal(got, expected)

    def test_the_verdict_about_a_context_depends_on_build_target_and_processor(self):
        self.written(wide())
        entries = {entry.key: entry.value for entry in onnx.load(self.path).metadata_props}
        text = entries["ep_compatibility_info.LatheExecutionProvider"]
        from onnxruntime.capi import _pybind_state as state

        version, target, machine = text.split("; ", 2)
        name, number, container = version.split(" ")
        for changed, want in [
            (text, "EP_SUPPORTED_OPTIMAL"),
            (f"{name} 99.0.0 {container}; {target}; {machine}", "EP_SUPPORTED_PREFER_RECOMPILATION"),
            (f"{version}; {target}; another processor", "EP_SUPPORTED_PREFER_RECOMPILATION"),
            (f"{version}; gpu:none; {machine}", "EP_SUPPORTED_PREFER_RECOMPILATION"),
            (f"{name} {number} 2.0; {target}; {machine}", "EP_UNSUPPORTED"),
            (f"{name} {number} 1.999; {target}; {machine}", "EP_UNSUPPORTED"),
            (f"{name} {number} 1.x; {target}; {machine}", "EP_UNSUPPORTED"),
            (version, "EP_UNSUPPORTED"), ("", "EP_UNSUPPORTED"), ("another EP's text", "EP_UNSUPPORTED"),
        ]:
            with self.subTest(text=changed):
                got = state.get_model_compatibility_for_ep_devices(host.devices(), changed)
                self.assertEqual(got, getattr(state.OrtCompiledModelCompatibility, want))

    def test_files_outside_of_the_folder_are_refused(self):
        self.written(wide())
        made = onnx.load(self.path)
        with tempfile.TemporaryDirectory() as other:
            next(self.folder.glob("*.lathe")).rename(pathlib.Path(other) / "c.lathe")
            for place in (f"{other}/c.lathe", os.path.relpath(f"{other}/c.lathe", self.folder)):
                for attribute in made.graph.node[0].attribute:
                    if attribute.name == "ep_cache_context":
                        attribute.s = place.encode()
                onnx.save(made, self.path)
                with self.assertRaisesRegex(Exception, "outside of its model's folder|not beside its model"):
                    host.session(self.path)


if __name__ == "__main__":
    result = unittest.main(module="__main__", argv=sys.argv[:1], exit=False, verbosity=0).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
