# SPDX-License-Identifier: MIT
"""Options that keep compiled groups in files: cache_dir, save_compiled_model, load_compiled_model.

usage: compiled_files_check.py (LATHE_ORT_LIBRARY names the library)
"""

import os
import pathlib
import resource
import signal
import sys
import tempfile
import unittest

import bad_inputs_check
import host
import numpy as np
import onnx
import sessions_check
from contexts_check import WIDE
from sessions_check import X

FEEDS = {"x": np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 40)}


def wide(scale=1.0):
    made = onnx.load_from_string(sessions_check.model(WIDE.replace("<float[40, 64] w>", "")))
    weights = (np.arange(40 * 64, dtype=np.float32).reshape(40, 64) / 100 - 12) * np.float32(scale)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return made.SerializeToString()


def result(data, options=None, **arguments):
    return host.session(data, options, **arguments).run(None, FEEDS)[0]


class CompiledFiles(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def times(self):
        """When each file was written: a session that compiles writes its file again."""
        return {path.name: path.stat().st_mtime_ns for path in self.folder.rglob("*") if path.is_file()}

    def problem(self, data, options):
        return bad_inputs_check.problem(lambda: result(data, options))

    def test_a_cache_is_written_once_and_loaded_with_the_same_bits(self):
        data = wide()
        expected = result(data)
        for option in ("cache_dir", "model_cache_dir", "migraphx_model_cache_dir"):
            with self.subTest(option=option):
                options = {option: str(self.folder / "new" / option)}
                np.testing.assert_array_equal(result(data, options), expected)
                written = self.times()
                self.assertRegex("".join(written), r"^([0-9a-f]{32}\.lathe)+$")
                np.testing.assert_array_equal(result(data, options), expected)
                self.assertEqual(self.times(), written)
                np.testing.assert_array_equal(result(data, {**options, "force_recompile": "1"}), expected)
                again = self.times()
                self.assertEqual(again.keys(), written.keys())
                self.assertNotEqual(again, written)
                for file in self.folder.rglob("*.lathe"):
                    file.unlink()

    def test_other_weights_names_types_and_options_have_files_of_their_own(self):
        options = {"cache_dir": str(self.folder)}
        for count, (data, more) in enumerate([
            (wide(), {}), (wide(2), {}), (wide(), {"compute": "bf16"}), (wide(), {"target": "ref"}),
            (sessions_check.model(WIDE.replace("w>", "w = {" + ", ".join(["1"] * 2560) + "}>")), {}),
        ]):
            np.testing.assert_allclose(result(data, {**options, **more}), result(data, more))
            self.assertEqual(len(self.times()), count + 1)
        # Names of nodes are not part of a group.
        named = onnx.load_from_string(wide())
        for node in named.graph.node:
            node.name = f"other {node.op_type}"
        named.producer_name = "another"
        result(named.SerializeToString(), options)
        self.assertEqual(len(self.times()), 5)

    def test_a_loaded_group_is_saved_too(self):
        saved = self.folder / "saved.lathe"
        options = {"cache_dir": str(self.folder / "cache"), "save_compiled_model": "1", "save_model_path": str(saved)}
        result(wide(), options)
        saved.unlink()
        np.testing.assert_array_equal(result(wide(), options), result(wide()))
        self.assertTrue(saved.exists())
        loaded = {"load_compiled_model": "1", "load_model_path": str(saved), "strict": "1"}
        np.testing.assert_array_equal(result(wide(), loaded), result(wide()))

    def test_a_cache_that_others_can_write_is_not_used(self):
        shared, link = self.folder / "shared", self.folder / "link"
        shared.mkdir()
        shared.chmod(0o777)
        link.symlink_to(self.folder, target_is_directory=True)
        for folder in (shared, link):
            np.testing.assert_array_equal(result(wide(), {"cache_dir": str(folder)}), result(wide()))
        self.assertEqual(self.times(), {})
        result(wide(), {"cache_dir": str(self.folder / "new")})
        self.assertEqual((self.folder / "new").stat().st_mode & 0o777, 0o700)

    def test_a_cache_that_is_full_costs_no_session(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, ignored)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        expected = result(wide())
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        np.testing.assert_array_equal(result(wide(), {"cache_dir": str(self.folder)}), expected)
        self.assertEqual(self.times(), {})

    def test_a_cache_that_is_disabled_stays_empty(self):
        result(wide(), {"cache_dir": str(self.folder), "migraphx_disable_caching": "1"})
        self.assertEqual(self.times(), {})

    @unittest.skipIf(host.VERSION < (1, 23, 1), "1.23.0 has whole graphs alone")
    def test_each_group_is_kept_and_external_weights_too(self):
        data, options = sessions_check.model(sessions_check.CHAIN), {"refuse": "HardSigmoid"}
        expected = host.session(data, options, fallback=True).run(None, {"x": X})[0]
        options["cache_dir"] = str(self.folder / "cache")
        for _ in range(2):
            got = host.session(data, options, fallback=True).run(None, {"x": X})[0]
            np.testing.assert_array_equal(got, expected)
        self.assertEqual(len(self.times()), 2)
        path = bad_inputs_check.with_external(self.folder, "weights.bin")
        cache = {"cache_dir": str(self.folder / "cache")}
        for _ in range(2):
            host.session(path, cache)
        self.assertEqual(len(list(self.folder.rglob("*.lathe"))), 3)
        changed = np.full((4, 4), 3, np.float32)
        pathlib.Path(self.folder, "weights.bin").write_bytes(changed.tobytes())
        got = host.session(path, cache).run(None, {"x": np.ones((1, 4), np.float32)})[0]
        self.assertEqual(got.tolist(), [[12, 12, 12, 12]])

    def test_damaged_files_of_a_cache_are_written_anew(self):
        data, options = wide(), {"cache_dir": str(self.folder)}
        expected = result(data, options)
        [file] = self.folder.iterdir()
        content = file.read_bytes()
        for damaged in (b"", b"no compiled file", content[:-1], content[:100],
                        content[:3000] + bytes([content[3000] ^ 1]) + content[3001:]):
            file.write_bytes(damaged)
            np.testing.assert_array_equal(result(data, options), expected)
        file.write_bytes(content[:200])
        result(data, options)
        written = self.times()
        result(data, options)
        self.assertEqual(self.times(), written)

    def test_a_named_file_is_saved_and_loaded(self):
        data = wide()
        expected = result(data)
        for save, load in (("save_model_path", "load_model_path"), ("save_compiled_path", "load_compiled_path")):
            for prefix in ("", "migraphx_"):
                with self.subTest(save=save, prefix=prefix):
                    path = self.folder / f"{prefix}{save}.lathe"
                    saving = {f"{prefix}save_compiled_model": "1", f"{prefix}{save}": str(path)}
                    np.testing.assert_array_equal(result(data, saving), expected)
                    self.assertTrue(path.exists())
                    loading = {f"{prefix}load_compiled_model": "True", f"{prefix}{load}": str(path), "strict": "1"}
                    np.testing.assert_array_equal(result(data, loading), expected)

    def test_paths_without_their_switch_do_nothing(self):
        path = self.folder / "m.lathe"
        result(wide(), {"save_model_path": str(path), "load_model_path": str(path), "strict": "1"})
        self.assertFalse(path.exists())

    def test_without_a_path_the_file_is_in_the_working_folder(self):
        before = pathlib.Path.cwd()
        data = wide()
        expected = result(data)
        os.chdir(self.folder)
        try:
            result(data, {"save_compiled_model": "1"})
            self.assertEqual(list(self.times()), ["compiled_model.lathe"])
            np.testing.assert_array_equal(result(data, {"load_compiled_model": "1", "strict": "1"}), expected)
        finally:
            os.chdir(before)

    @unittest.skipIf(host.VERSION < (1, 23, 1), "1.23.0 has whole graphs alone")
    def test_groups_after_the_first_have_numbered_files(self):
        data, options = sessions_check.model(sessions_check.CHAIN), {"refuse": "HardSigmoid"}
        expected = host.session(data, options, fallback=True).run(None, {"x": X})[0]
        path = str(self.folder / "chain.lathe")
        host.session(data, {**options, "save_compiled_model": "1", "save_model_path": path}, fallback=True)
        self.assertEqual(sorted(self.times()), ["chain.lathe", "chain_2.lathe"])
        loaded = {**options, "load_compiled_model": "1", "load_model_path": path}
        got = host.session(data, loaded, fallback=True).run(None, {"x": X})[0]
        np.testing.assert_array_equal(got, expected)

    def test_files_that_cannot_be_loaded_are_compiled_or_with_strict_an_error(self):
        data, path = wide(), self.folder / "m.lathe"
        expected = result(data)
        loading = {"load_compiled_model": "1", "load_model_path": str(path)}
        result(data, {"save_compiled_model": "1", "save_model_path": str(path)})
        content = path.read_bytes()
        result(wide(2), {"save_compiled_model": "1", "save_model_path": str(path)})
        other = path.read_bytes()
        for damaged, message in [(None, "m.lathe"), (b"", "m.lathe"), (other, "was compiled from another model"),
                                 (content[:5000], "m.lathe"),
                                 (content[:3000] + bytes([content[3000] ^ 1]) + content[3001:], "is damaged")]:
            path.unlink(missing_ok=True)
            if damaged is not None:
                path.write_bytes(damaged)
            np.testing.assert_array_equal(result(data, loading), expected)
            self.assertIn(message, self.problem(data, {**loading, "strict": "1"}))
        # Both options: loads, or compiles and saves.
        both = {**loading, "save_compiled_model": "1", "save_model_path": str(path)}
        np.testing.assert_array_equal(result(data, both), expected)
        np.testing.assert_array_equal(result(data, {**loading, "strict": "1"}), expected)

    def test_folders_that_cannot_be_made_and_files_that_cannot_be_written_are_errors(self):
        file = self.folder / "file"
        file.write_text("")
        for folder in (file, file / "below", "/proc/no/such"):
            self.assertRegex(self.problem(wide(), {"cache_dir": str(folder)}), "option 'cache_dir' is .*not a folder")
        path = str(self.folder / "no" / "m.lathe")
        self.assertIn("/no/", self.problem(wide(), {"save_compiled_model": "1", "save_model_path": path}))

    def test_a_context_is_written_from_a_cached_group(self):
        data, path = wide(), str(self.folder / "m_ctx.onnx")
        expected = result(data, {"cache_dir": str(self.folder / "cache")})
        host.session(data, {"cache_dir": str(self.folder / "cache")}, ep__context_enable="1",
                     ep__context_file_path=path, ep__context_embed_mode="1")
        np.testing.assert_array_equal(result(path), expected)


if __name__ == "__main__":
    done = unittest.main(module="__main__", exit=False, verbosity=0).result
    failed = len(done.failures) + len(done.errors)
    print(f"{done.testsRun - failed - len(done.skipped)} passed, {failed} failed, {len(done.skipped)} skipped")
    sys.exit(1 if failed else 0)
