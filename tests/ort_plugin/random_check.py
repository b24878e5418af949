# SPDX-License-Identifier: MIT
"""Random graphs with random operators refused, and sessions used and left in every way.

usage: random_check.py [COUNT]     200 graphs (LATHE_ORT_LIBRARY names the library)
"""

import os
import subprocess
import sys
import threading
import unittest

import host
import numpy as np
import onnxruntime
import sessions_check
from onnx import TensorProto, helper

UNARY = ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Sin", "Floor", "Softsign", "HardSigmoid", "Identity")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
COUNT = int(sys.argv.pop(1)) if sys.argv[1:2] and sys.argv[1].isdigit() else 200


def random_graph(random):
    """A model of 5 to 40 nodes on float [n, 4], with products, shape arithmetic and branches; and its operators."""
    values, nodes, used = ["x0", "x1"], [], set()

    def add(op, inputs, **attributes):
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attributes))
        used.add(op)
        return name

    for _ in range(random.integers(5, 40)):
        a, b = (values[i] for i in random.integers(0, len(values), 2))
        kind = random.random()
        if kind < 0.45:
            values.append(add(str(random.choice(UNARY)), [a]))
        elif kind < 0.75:
            values.append(add(str(random.choice(BINARY)), [a, b]))
        elif kind < 0.85:
            values.append(add("Softmax", [add("MatMul", [a, "w"])], axis=-1))
        elif kind < 0.93:
            shape = add("Shape", [a])
            values.append(add("Reshape", [add("Transpose", [add("Transpose", [b], perm=[1, 0])], perm=[1, 0]), shape]))
        else:
            bodies = {}
            for branch, op in (("then_branch", "Neg"), ("else_branch", "Exp")):
                out = helper.make_tensor_value_info(f"{branch}{len(nodes)}", TensorProto.FLOAT, None)
                inner = [helper.make_node("Clip", [a, "low", "high"], [f"c{branch}{len(nodes)}"]),
                         helper.make_node(op, [f"c{branch}{len(nodes)}"], [out.name])]
                bodies[branch] = helper.make_graph(inner, branch, [], [out])
            values.append(add("If", ["c"], **bodies))
    results = sorted({values[-1], *(str(v) for v in random.choice(values[2:], min(3, len(values) - 2)))})
    rows = ["n", 4]
    inputs = [*(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, rows) for i in range(2)),
              helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    constants = [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], random.uniform(-1, 1, 16)),
                 helper.make_tensor("low", TensorProto.FLOAT, [], [-3.0]),
                 helper.make_tensor("high", TensorProto.FLOAT, [], [3.0])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    made = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    return made.SerializeToString(), sorted(used)


class RandomGraphs(unittest.TestCase):
    def test_any_graph_with_any_operators_refused_gives_the_answers_of_target_ref(self):
        for seed in range(COUNT):
            random = np.random.default_rng(seed)
            data, used = random_graph(random)
            refused = ",".join(op for op in used if random.random() < 0.25)
            with self.subTest(seed=seed, refused=refused):
                feeds = {name: random.uniform(-2, 2, (3, 4)).astype(np.float32) for name in ("x0", "x1")}
                feeds["c"] = np.array(random.random() < 0.5)
                got = host.session(data, {"refuse": refused}, fallback=True).run(None, feeds)
                want = host.session(data, {"target": "ref"}, fallback=True).run(None, feeds)
                for a, b in zip(got, want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


LEAVE = """
import os, sys, threading, time
sys.path.insert(0, "tests/ort_plugin")
import host, numpy as np, onnxruntime, sessions_check
ours = host.session(sessions_check.model(sessions_check.MLP), {"threads": "2"})
feeds = {"x": np.zeros((20000, 4), np.float32)}
def work():
    while True:
        ours.run(None, feeds)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""


class Lives(unittest.TestCase):
    def test_four_sessions_are_made_at_once(self):
        data, feeds = sessions_check.model(sessions_check.CHAIN), {"x": sessions_check.X}
        want = host.session(data).run(None, feeds)[0].tobytes()
        host.devices()
        answers = []

        def make():
            for _ in range(5):
                answers.append(host.session(data).run(None, feeds)[0].tobytes())

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [want] * 20)

    def test_a_process_may_end_in_the_middle_of_a_run(self):
        # Other exits destroy what ONNX Runtime's threads still use: with the CPU EP too they often crash.
        for _ in range(3):
            run = subprocess.run([sys.executable, "-c", LEAVE + "os._exit(3)"], capture_output=True, text=True,
                                 env=os.environ)
            self.assertEqual(run.returncode, 3, run.stderr)

    def test_threads_run_while_the_library_is_unregistered(self):
        data, feeds = sessions_check.model(sessions_check.MLP), {"x": sessions_check.X}
        ours = host.session(data, {"threads": "2"}, registration="lathe_leaving")
        want, wrong = ours.run(None, feeds)[0].tobytes(), []

        def work():
            for _ in range(500):
                if ours.run(None, feeds)[0].tobytes() != want:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        host._registered.discard("lathe_leaving")
        try:
            onnxruntime.unregister_execution_provider_library("lathe_leaving")
        except Exception:  # noqa: BLE001 — some releases refuse while a session lives
            pass
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    print(f"ONNX Runtime {onnxruntime.__version__}", file=sys.stderr)
    unittest.main()
