# SPDX-License-Identifier: MIT
"""Models through ONNX Runtime on the execution provider, compared with its CPU EP.

usage: sessions_check.py (LATHE_ORT_LIBRARY names the library)
"""

import sys
import threading
import unittest

import host
import numpy as np
import onnx
import onnxruntime
from onnx import parser


def model(text, opset=18, ir=9):
    made = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n{text}')
    return made.SerializeToString()


def same(test, data, feeds, options=None, fallback=False, tolerance=1e-5):
    ours = host.session(data, options, fallback=fallback).run(None, feeds)
    theirs = host.cpu_session(data).run(None, feeds)
    for got, want in zip(ours, theirs, strict=True):
        if got.dtype.kind == "O":
            test.assertEqual(got.tolist(), want.tolist())
        else:
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


MLP = """mlp (float[batch, 4] x) => (float[batch, 3] y)
<float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] b = {0.5, -0.5, 1}>
{ m = MatMul(x, w)  a = Add(m, b)  r = Relu(a)  y = Softmax <axis = -1> (r) }"""
CHAIN = """chain (float[n, 4] x) => (float[n, 4] y) {
  a = Sin(x)  b = Cos(a)  c = Mul(a, b)  d = Add(c, x)  e = Exp(d)  f = Neg(e)  g = Abs(f)  h = Sqrt(g)
  i = HardSigmoid(h)
  j = Sin(i)  k = Cos(j)  l = Mul(j, k)  m = Add(l, d)  n2 = Exp(m)  o = Neg(n2)  p = Abs(o)  q = Sqrt(p)
  y = Add(q, b) }"""
BRANCH = """branch (float[n] x, bool c) => (float[n] y) {
  d = Exp(x)
  t = If (c) <then_branch = then () => (float[n] a) { a = Add(d, x) },
              else_branch = other () => (float[n] b) { b0 = Sin(d)  b = Mul(b0, x) }>
  y = Neg(t) }"""
LOOP = """loop (int64 trips, float[3] x) => (float[3] y, float[k, 3] all) {
  yes = Constant <value = bool {1}> ()
  y, all = Loop (trips, yes, x) <body = body (int64 i, bool going, float[3] v) => (bool on, float[3] w, float[3] out) {
    on = Identity(going)  w = Add(v, x)  out = Neg(w) }> }"""
TEXTS = """texts (string[n] a, string[n] b) => (string[n] c) { c = StringConcat(a, b) }"""
SHAPES = """shapes (float[n, 2, 3] x) => (float[m, 6] y) {
  s = Shape(x)  zero = Constant <value = int64[1] {0}> ()  first = Gather <axis = 0> (s, zero)
  six = Constant <value = int64[1] {6}> ()  to = Concat <axis = 0> (first, six)  y = Reshape(x, to) }"""
DEFAULTS = """defaults (float[n] x, float[1] scale) => (float[n] y) <float[1] scale = {3}> { y = Mul(x, scale) }"""
SEQUENCES = """sequences (float[n] x) => (float[m] y) {
  a = Exp(x)  b = Sin(x)  s = SequenceConstruct(a, b)  y = ConcatFromSequence <axis = 0> (s) }"""
FOUND = """found (float[n] x) => (int64[1, m] y) { y = NonZero(x) }"""
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


class Sessions(unittest.TestCase):
    def test_a_network_equals_the_cpu_ep_for_every_batch_in_one_session(self):
        data = model(MLP)
        ours, theirs = host.session(data), host.cpu_session(data)
        for batch in (1, 3, 2, 7, 0):
            x = np.random.default_rng(batch).random((batch, 4), np.float32)
            np.testing.assert_allclose(ours.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0], rtol=1e-5)

    def test_the_name_lathe_is_an_ep_too(self):
        out = host.session(model(MLP), name="lathe").run(None, {"x": X})
        self.assertEqual(out[0].shape, (3, 3))

    def test_shape_arithmetic_overridden_defaults_and_found_sizes(self):
        same(self, model(SHAPES), {"x": np.arange(24, dtype=np.float32).reshape(4, 2, 3)})
        x = np.arange(4, dtype=np.float32)
        same(self, model(DEFAULTS), {"x": x})
        same(self, model(DEFAULTS), {"x": x, "scale": np.array([5], np.float32)})
        same(self, model(FOUND), {"x": np.array([1, 0, 2], np.float32)})

    def test_sequences_stay_inside_of_a_group(self):
        same(self, model(SEQUENCES), {"x": X[0]})

    def test_strings_enter_and_leave_with_zero_bytes(self):
        a, b = np.array(["é", "b\0c", ""], object), np.array(["x", "y", ""], object)
        out = host.session(model(TEXTS, 20)).run(None, {"a": a, "b": b})[0]
        self.assertEqual(out[0], "éx")
        self.assertEqual(out[2], "")

    def test_branches_and_loops(self):
        x = np.array([1, 2, 3], np.float32)
        for c in (True, False):
            same(self, model(BRANCH), {"x": x, "c": np.array(c)})
        for trips in (3, 1):
            same(self, model(LOOP), {"x": x, "trips": np.array(trips)})

    def test_values_that_only_bodies_read_reach_them(self):
        data = model("""captures (float[n] x, float[n] u, bool c) => (float[n] y, float[n] t) {
          y = Exp(u)
          t = If (c) <then_branch = then () => (float[n] a) { a = Sin(x) },
                      else_branch = other () => (float[n] b) { b = Cos(x) }> }""")
        same(self, data, {"x": X[0], "u": X[1], "c": np.array(True)}, fallback=True)

    def test_refused_nodes_stay_with_the_cpu_ep(self):
        same(self, model(CHAIN), {"x": X}, {"refuse": "HardSigmoid"}, fallback=True)
        same(self, model(BRANCH), {"x": X[0], "c": np.array(True)}, {"refuse": "Sin"}, fallback=True)
        same(self, model(LOOP), {"x": X[0, :3], "trips": np.array(2)}, {"refuse": "Loop"}, fallback=True)

    @unittest.skipIf(host.VERSION < (1, 23, 1), "1.23.0 has whole graphs alone")
    def test_strict_fails_with_every_refused_node(self):
        with self.assertRaisesRegex(Exception, "claims 17 of 18 nodes\n  HardSigmoid '': option 'refuse' names it"):
            host.session(model(CHAIN), {"refuse": "HardSigmoid", "strict": "1"}, fallback=True)

    def test_an_output_over_another_input_is_as_if_it_were_apart(self):
        data = model("over (float[4] a, float[4] b) => (float[4] s, float[4] d) { s = Add(a, b)  d = Sub(a, b) }")
        ours = host.session(data)
        arrays = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
        a, b = map(onnxruntime.OrtValue.ortvalue_from_numpy, arrays)
        io = ours.io_binding()
        io.bind_ortvalue_input("a", a)
        io.bind_ortvalue_input("b", b)
        io.bind_ortvalue_output("s", a)
        io.bind_ortvalue_output("d", b)
        ours.run_with_iobinding(io)
        self.assertEqual(a.numpy().tolist(), [10, 11, 12, 13])
        self.assertEqual(b.numpy().tolist(), [-10, -9, -8, -7])

    def test_outputs_over_any_inputs_are_as_if_they_were_apart(self):
        count = 9
        names = [f"x{i}" for i in range(count)]
        nodes = "\n".join(f"y{i} = Sub(x{i}, x{(i + 1) % count})" for i in range(count))
        ours = host.session(model(
            f"over ({', '.join(f'float[n] {n}' for n in names)}) => "
            f"({', '.join(f'float[n] y{i}' for i in range(count))}) {{ {nodes} }}"))
        for seed in range(20):
            random = np.random.default_rng(seed)
            arrays = [random.random(4, np.float32) for _ in names]
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()) for array in arrays]
            targets = [values[i] if random.random() < 0.7 else None for i in random.permutation(count)]
            io = ours.io_binding()
            for i, name in enumerate(names):
                io.bind_ortvalue_input(name, values[i])
                if targets[i] is None:
                    io.bind_output(f"y{i}")
                else:
                    io.bind_ortvalue_output(f"y{i}", targets[i])
            ours.run_with_iobinding(io)
            for i, got in enumerate(io.get_outputs()):
                np.testing.assert_array_equal(got.numpy(), arrays[i] - arrays[(i + 1) % count])

    def test_equal_constants_of_sessions_share_memory(self):
        table = np.random.default_rng(1).random((1 << 14, 256), np.float32)  # 16 MB
        made = onnx.load_from_string(model("rows (int64[n] i) => (float[n, 256] y) { y = Gather <axis = 0> (w, i) }"))
        made.graph.initializer.append(onnx.numpy_helper.from_array(table, "w"))
        data, rows = made.SerializeToString(), np.array([3, 99, 16383])
        kept, added = [], []
        for _ in range(3):
            before = host.resident()
            kept.append(host.session(data))
            added.append(host.resident() - before)
            np.testing.assert_array_equal(kept[-1].run(None, {"i": rows})[0], table[rows])
        self.assertLess(min(added[1:]), added[0] - (12 << 20))

    def test_sixteen_threads_share_a_session(self):
        ours = host.session(model(MLP), {"threads": "2"})
        want = ours.run(None, {"x": X})[0].tobytes()
        wrong = []

        def work():
            for _ in range(200):
                if ours.run(None, {"x": X})[0].tobytes() != want:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_session_outlives_the_registration(self):
        ours = host.session(model(MLP), registration="lathe_again")
        host._registered.discard("lathe_again")
        try:
            onnxruntime.unregister_execution_provider_library("lathe_again")
        except Exception:  # noqa: BLE001 — some releases refuse while a session lives
            pass
        self.assertEqual(ours.run(None, {"x": X})[0].shape, (3, 3))


CACHE = """decoder (float[b, s, 96] qkv, float[b, 2, c, 16] pk, float[b, 2, c, 16] pv, int32[b] lens, int32[1] total)
  => (float[b, s, 64] y, float[b, 2, c, 16] k, float[b, 2, c, 16] v) {
  y, k, v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 1> (qkv, , , pk, pv, lens, total) }"""


class Caches(unittest.TestCase):
    def test_a_shared_cache_is_updated_in_place_step_by_step(self):
        data = model(CACHE.replace("b, 2, c", "b, 1, c"))
        answers = []
        for session in (host.session(data), host.cpu_session(data)):
            memory = [np.zeros((1, 1, 32, 16), np.float32) for _ in "kv"]
            caches = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in memory]
            random, past = np.random.default_rng(1), 0
            for tokens in (5, 1, 1):
                io = session.io_binding()
                qkv = random.standard_normal((1, tokens, 96)).astype(np.float32)
                io.bind_cpu_input("qkv", qkv)
                io.bind_cpu_input("lens", np.array([past + tokens - 1], np.int32))
                io.bind_cpu_input("total", np.array([past + tokens], np.int32))
                for name, cache in zip("kv", caches):
                    io.bind_ortvalue_input(f"p{name}", cache)
                    io.bind_ortvalue_output(name, cache)
                io.bind_output("y")
                session.run_with_iobinding(io)
                past += tokens
            answers.append([io.get_outputs()[-1].numpy(), *(cache.numpy()[:, :, :past].copy() for cache in caches)])
        for got, want in zip(*answers):
            np.testing.assert_allclose(got, want, atol=1e-5)


if __name__ == "__main__":
    print(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}", file=sys.stderr)
    unittest.main()
