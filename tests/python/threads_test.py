# SPDX-License-Identifier: MIT
"""Objects that threads share, or that code of a call's own arguments and handlers changes."""

import os
import signal
import threading
import time

import package

package.find()

import numpy as np
from models import model, one_op
from onnx import TensorProto, helper, numpy_helper

import lathe
import lathe.genai as og
import lathe.onnxruntime as ort

COUNTING = str(package.ROOT / "examples/counting")


def in_threads(*calls, seconds=1.0):
    """Repeats each call in a thread of its own; returns the exceptions."""
    stop_at, failures = time.perf_counter() + seconds, []

    def work(call):
        try:
            while time.perf_counter() < stop_at:
                call()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_inputs_may_be_reshaped_while_they_run():
    s = ort.InferenceSession(one_op("Exp", shape=[None, None]))
    x = np.zeros((64, 500), np.float32)

    def reshape():
        for shape in ((500, 64), (32000, 1), (64, 500)):
            x.shape = shape

    def run():
        y = s.run(None, {"x0": x})[0]
        assert y.size == 32000 and (y == 1).all()

    assert not in_threads(run, run, reshape)


def test_a_feed_may_change_under_its_keys_and_values():
    s = ort.InferenceSession(one_op("Sum", 2))
    row = np.ones((1, 3), np.float32)

    class Clearing:
        def __array__(self, *args, **kwargs):
            feed.clear()
            feed.update({str(i): i for i in range(100)})
            return row

    class Key(str):
        def __eq__(self, other):
            feed.clear()
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    for make in (lambda: {"x0": Clearing(), "x1": row.copy()},
                 lambda: {"x0": row.copy(), Key("x1"): np.ones((1, 3), np.float32)},
                 lambda: {Key("x0"): np.ones((1, 3), np.float32), "x1": row.copy()}):
        feed = make()
        try:
            assert s.run(None, feed)[0].tolist() == [[2, 2, 2]]
        except (RuntimeError, ValueError) as error:
            assert "x" in str(error) or "unknown" in str(error)
    assert s.run(None, {"x0": row, "x1": row})[0].tolist() == [[2, 2, 2]]


def test_values_that_hold_themselves_are_errors():
    floats = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    s = ort.InferenceSession(model([helper.make_node("SequenceLength", ["s"], ["n"])], [floats],
                                   [("n", TensorProto.INT64, [])]))
    cyclic = []
    cyclic.append(cyclic)
    loop = {}
    loop[1] = loop
    for call in (lambda: s.run(None, {"s": cyclic}), lambda: ort.OrtValue(cyclic).__dlpack__(),
                 lambda: ort.OrtValue(loop).__dlpack__(), lambda: s.run(None, {"s": [loop]})):
        package.raises((RuntimeError, ValueError, TypeError), call)
    assert s.run(None, {"s": [np.ones(2, np.float32)]})[0] == 1


def test_a_binding_serves_one_thread_at_a_time():
    s = ort.InferenceSession(one_op("Exp", shape=["N", 64]))
    binding = s.io_binding()
    inputs = [np.zeros((500, 64), np.float32), np.zeros((300, 64), np.float32)]
    binding.bind_cpu_input("x0", inputs[0])
    binding.bind_output("y")

    def run():
        s.run_with_iobinding(binding)
        assert (binding.get_outputs()[0].numpy() == 1).all()

    def rebind():
        for x in inputs:
            binding.bind_cpu_input("x0", x)

    assert not in_threads(run, run, run, rebind)


def test_a_generator_serves_one_thread_at_a_time():
    model_ = og.Model(COUNTING)
    params = og.GeneratorParams(model_)
    params.set_search_options(max_length=200)
    generator = og.Generator(model_, params)
    tokens = og.Tokenizer(model_).encode("one two")
    generator.append_tokens(tokens)

    def step():
        if not generator.is_done():
            generator.generate_next_token()

    def look():
        assert len(generator.get_sequence(0)) >= len(tokens)
        generator.get_logits()

    failures = in_threads(step, step, look, seconds=0.5)
    assert all(isinstance(error, lathe.Error) for error in failures), failures
    generator.rewind_to(len(tokens))
    generator.generate_next_token()
    assert generator.token_count() == len(tokens) + 1


def test_sessions_may_be_opened_again_while_they_run():
    """A run with another initialiser compiles the session again."""
    data = model([helper.make_node("Mul", ["x", "a"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])],
                 [("x", TensorProto.FLOAT, ["N", 64]), ("a", TensorProto.FLOAT, [64]),
                  ("b", TensorProto.FLOAT, [64])], [("y", TensorProto.FLOAT, ["N", 64])],
                 [numpy_helper.from_array(np.full(64, value, np.float32), name)
                  for name, value in (("a", 2), ("b", 1))])
    x = np.ones((200, 64), np.float32)
    for _ in range(5):
        s = ort.InferenceSession(data, providers=["CPUExecutionProvider"])

        def plain():
            assert (s.run(None, {"x": x})[0] == 3).all()

        def other(name, value, expected):
            y = s.run(None, {"x": x, name: np.full(64, value, np.float32)})[0]
            assert (y == expected).all(), y[0, 0]

        failures = in_threads(plain, plain, lambda: other("a", 5, 6), lambda: other("b", 7, 9),
                              lambda: s.set_providers(["CPUExecutionProvider"]), seconds=0.2)
        assert not failures, failures


def test_handlers_of_signals_may_use_other_objects_only():
    s = ort.InferenceSession(one_op("Exp", shape=["N", 64]))
    x = np.zeros((20000, 64), np.float32)
    binding = s.io_binding()
    binding.bind_cpu_input("x0", x)
    binding.bind_output("y")
    seen = []

    def handler(*_):
        assert (s.run(None, {"x0": x[:2]})[0] == 1).all()
        try:
            binding.bind_cpu_input("x0", x[:10])
        except RuntimeError as error:
            seen.append(str(error))

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        stop_at = time.perf_counter() + 1
        while time.perf_counter() < stop_at:
            s.run_with_iobinding(binding)
            assert (binding.get_outputs()[0].numpy() == 1).all()
            binding.bind_cpu_input("x0", x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert all("in use" in text for text in seen)


def test_functions_of_custom_ops_may_run_programs():
    inner = lathe.parse_onnx_buffer(one_op("Neg"))
    inner.compile(lathe.get_target("cpu"))
    lathe.custom_op("negated_inside", lambda x: np.array(inner.run({"x0": x})[0]))
    p = lathe.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", lathe.shape(type="float", lens=[2, 3]))
    mm.add_return([mm.add_instruction(lathe.op("negated_inside"), [x])])
    p.compile(lathe.get_target("cpu"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def run():
        assert p.run({"x": x})[0].tolist() == (-x).reshape(-1).tolist()

    assert not in_threads(run, run, run, seconds=0.5)


def test_children_of_fork_run_while_other_threads_run():
    s = ort.InferenceSession(one_op("Exp", shape=["N", 64]))
    x = np.zeros((300, 64), np.float32)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            s.run(None, {"x0": x})

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a child that waits for ever
                code = 1
                try:
                    code = 0 if (s.run(None, {"x0": x})[0] == 1).all() else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


package.run(globals())
