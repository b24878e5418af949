# SPDX-License-Identifier: MIT
"""Compiled contexts (nodes EPContext): written by ONNX Runtime, and sessions from them.

usage: contexts_check.py (LATHE_ORT_LIBRARY names the library)
"""

import os
import pathlib
import sys
import tempfile
import unittest

import host
import numpy as np
import onnx
import onnxruntime
import sessions_check
from sessions_check import X

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

    def test_damaged_contexts_are_errors(self):
        feeds = {"x": np.ones((1, 40), np.float32)}
        expected = host.session(wide()).run(None, feeds)[0]
        path = self.written(wide())
        file = next(self.folder.glob("*.lathe"))
        content = file.read_bytes()
        random = np.random.default_rng(5)
        for place in random.integers(0, len(content), 40):
            file.write_bytes(content[:place] + bytes([content[place] ^ 32]) + content[place + 1:])
            try:
                got = host.session(path).run(None, feeds)[0]
            except Exception as error:
                self.assertIn("is damaged", str(error))
            else:
                np.testing.assert_array_equal(got, expected)
        for size in [*range(0, len(content), 997), len(content) - 1]:
            file.write_bytes(content[:size])
            with self.assertRaises(Exception):
                host.session(path)
        file.unlink()
        with self.assertRaisesRegex(Exception, "which is not beside its model"):
            host.session(path)

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
    result = unittest.main(module="__main__", exit=False, verbosity=0).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
