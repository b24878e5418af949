# SPDX-License-Identifier: MIT
"""The Python package, in a process with both hosts.

usage: package_check.py (LATHE_ORT_LIBRARY names the library)
"""

import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, "python")
import onnxruntime_ep_lathe as plugin  # noqa: E402


class Package(unittest.TestCase):
    def test_1_a_program_without_a_host_gets_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "import one before"):
            plugin.register()

    def test_2_both_hosts_of_a_process_run_at_once(self):
        import numpy as np
        import onnxruntime
        import onnxruntime_genai
        import sessions_check

        start = time.perf_counter()
        self.assertEqual(plugin.register(), ["onnxruntime", "onnxruntime_genai"])
        self.assertEqual(plugin.register(), ["onnxruntime", "onnxruntime_genai"])
        print(f"register(): {1000 * (time.perf_counter() - start):.0f} ms")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.onnx")
            path.write_bytes(sessions_check.model(sessions_check.MLP))
            session = onnxruntime.InferenceSession(path, providers=[plugin.get_ep_name()])
            self.assertEqual(session.get_providers()[0], "LatheExecutionProvider")
            config = onnxruntime_genai.Config("../shared/models/zoo/llama/fp32")
            config.clear_providers()
            config.append_provider(plugin.get_ep_names()[1])
            model = onnxruntime_genai.Model(config)
            self.assertEqual(session.run(None, {"x": np.zeros((2, 4), np.float32)})[0].shape, (2, 3))
            del model

    def test_3_a_name_of_another_ep_is_taken(self):
        import onnxruntime

        plugin.register("MIGraphXExecutionProvider")
        names = [device.ep_name for device in onnxruntime.get_ep_devices()]
        self.assertIn("MIGraphXExecutionProvider", names)


if __name__ == "__main__":
    unittest.main()
