# SPDX-License-Identifier: MIT
"""Runs of lathe.onnxruntime.InferenceSession: results, arguments, errors, options."""

import gc
import importlib
import json
import os
import pathlib
import tempfile
import threading
import warnings

import package

package.find()

import numpy as np
import onnxruntime
from models import model, one_op
from onnx import TensorProto, helper, numpy_helper

import lathe
import lathe.onnxruntime as ort
from lathe.onnxruntime.capi import onnxruntime_pybind11_state as state

CPU = ["CPUExecutionProvider"]


def session(data, options=None, providers=CPU):
    return ort.InferenceSession(data, options, providers)


def test_digits_equal_onnxruntime():
    path = package.ROOT / "examples/digits/digits.onnx"
    x = np.random.default_rng(1).random((5, 1, 8, 8), np.float32)
    ours, theirs = session(path), onnxruntime.InferenceSession(str(path), providers=CPU)
    feed = {ours.get_inputs()[0].name: x}
    np.testing.assert_allclose(ours.run(None, feed)[0], theirs.run(None, feed)[0], 1e-4, 1e-5)
    for mine, other in zip(ours.get_inputs() + ours.get_outputs(),
                           theirs.get_inputs() + theirs.get_outputs()):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)


def test_any_strides_run_in_place():
    s = session(one_op("Relu"))
    base = np.arange(24, dtype=np.float32).reshape(4, 6) - 9
    for x in (base[:, ::2], base.reshape(3, 8).T, base[::-1, ::-2], base[1:1, :3], base[:2, 3:]):
        if x.shape[1] == 3:
            np.testing.assert_array_equal(s.run(None, {"x0": x})[0], np.maximum(x, 0))


def test_unaligned_and_swapped_arrays_are_converted():
    s = session(one_op("Neg"))
    data = np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.uint8)[1:]
    x = data.view(np.float32).reshape(2, 3)
    assert not x.flags.aligned
    np.testing.assert_array_equal(s.run(None, {"x0": x})[0], -x)
    x = np.arange(6, dtype=">f4").reshape(2, 3)
    np.testing.assert_array_equal(s.run(None, {"x0": x})[0], -x.astype(np.float32))


def test_lists_numbers_and_ort_values_are_inputs():
    s = session(one_op("Neg"))
    assert s.run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]
    value = ort.OrtValue.ortvalue_from_numpy(np.ones((1, 3), np.float32))
    assert s.run_with_ort_values(["y"], {"x0": value})[0].numpy().tolist() == [[-1, -1, -1]]
    assert s.run([], {"x0": [[1, 2, 3]]})[0].shape == (1, 3)
    assert s.run(["y", "y"], {"x0": [[1, 2, 3]]})[1].shape == (1, 3)


def test_outputs_outlive_the_session():
    s = session(one_op("Neg"))
    y = s.run(None, {"x0": np.ones((1000, 3), np.float32)})[0]
    del s
    gc.collect()
    y += 1
    assert (y == 0).all() and y.flags.writeable


def test_strings_sequences_and_optionals():
    text = model([helper.make_node("Identity", ["x"], ["y"])],
                 [("x", TensorProto.STRING, ["N"])], [("y", TensorProto.STRING, ["N"])])
    words = np.array(["a", "", "bß", "c" * 300])
    assert session(text).run(None, {"x": words})[0].tolist() == words.tolist()
    assert session(text).run(None, {"x": words.astype(object)})[0].dtype == object
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    append = model([helper.make_node("SequenceInsert", ["s", "x"], ["t"])],
                   [sequence, ("x", TensorProto.FLOAT, [2])],
                   [helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None)])
    s = session(append)
    items = [np.zeros(3, np.float32), np.ones((1, 2), np.float32)]
    got = s.run(None, {"s": items, "x": np.full(2, 7, np.float32)})[0]
    assert [g.tolist() for g in got] == [[0, 0, 0], [[1, 1]], [7, 7]]
    assert s.get_inputs()[0].type == "seq(tensor(float))"
    assert s.run(None, {"s": [], "x": [1, 2]})[0][0].tolist() == [1, 2]


def test_optional_sequences():
    floats = helper.make_tensor_type_proto(1, None)
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(floats))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    s = session(model([node], [helper.make_value_info("x", kind)], [("y", TensorProto.BOOL, [])]))
    for value, expected in ((None, False), ([np.zeros(3, np.float32)], True), ([], True)):
        assert s.run(None, {"x": value})[0] == expected
    for wrong in (np.zeros(3, np.float32), [np.zeros(3, np.int64)], {"a": np.zeros(3, np.float32)}):
        package.raises(lathe.InvalidArgument, lambda wrong=wrong: s.run(None, {"x": wrong}), "expected opt<seq<")


def test_error_classes_are_those_of_onnxruntime():
    package.raises(state.NoSuchFile, lambda: session("/none/x.onnx"), "/none/x.onnx")
    package.raises(FileNotFoundError, lambda: session("/none/x.onnx"))
    package.raises(state.InvalidProtobuf, lambda: session(b"no model at all"))
    package.raises(state.InvalidGraph, lambda: session(one_op("Relu", 2)))
    package.raises(state.NotImplemented, lambda: session(one_op("Foo")), "Foo")
    package.raises(state.InvalidArgument, lambda: session(b""))
    package.raises(TypeError, lambda: session(3))
    s = session(one_op("Relu"))
    x = np.ones((2, 3), np.float32)
    package.raises(ValueError, lambda: s.run(None, {}), "x0", "missing")
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": x, "q": x}), "q")
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": x.astype(np.float64)}),
                   "tensor(double)", "tensor(float)")
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": x[0]}))
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": np.ones((2, 4), np.float32)}))
    package.raises(state.InvalidArgument, lambda: s.run(["z"], {"x0": x}), "z")
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": None}))
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": object()}))
    package.raises(AttributeError, lambda: s.run(None, [x]))
    package.raises(RuntimeError, lambda: s.run(None, {3: x}))
    assert s.run(None, {"x0": x})[0].shape == (2, 3)


def test_every_error_is_a_runtime_error():
    for name in dir(state):
        cls = getattr(state, name)
        if isinstance(cls, type) and issubclass(cls, Exception):
            assert issubclass(cls, RuntimeError), name
    assert issubclass(lathe.OutOfMemory, MemoryError) and issubclass(lathe.IoError, OSError)
    error = package.raises(lathe.Error, lambda: session(one_op("Relu", 2)))
    assert error.reason and error.notes, (error.reason, error.notes)


def test_io_binding_reads_and_writes_in_place():
    s = session(one_op("Neg"))
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    binding = s.io_binding()
    binding.bind_cpu_input("x0", x)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
    s.run_with_iobinding(binding)
    assert (y == -1).all()
    x[:] = 5
    s.run_with_iobinding(binding)
    assert (y == -5).all() and binding.copy_outputs_to_cpu()[0].tolist() == y.tolist()
    z = np.zeros((2, 3), np.float32)
    binding.bind_input("x0", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, z.shape, z.ctypes.data)
    s.run_with_iobinding(binding)
    assert (z == -5).all()
    binding.clear_binding_outputs()
    binding.bind_output("y")
    s.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == [2, 3]
    binding.clear_binding_inputs()
    package.raises(RuntimeError, lambda: s.run_with_iobinding(binding), "x0")
    package.raises(RuntimeError, lambda: binding.bind_cpu_input("q", x), "q")
    package.raises(lathe.Unsupported, lambda: binding.bind_output("y", "cuda"), "device memory")
    package.raises(RuntimeError, lambda: (binding.bind_cpu_input("x0", x),
                                          binding.bind_ortvalue_output("y", ort.OrtValue(z[:1])),
                                          s.run_with_iobinding(binding)))


def test_bound_arrays_may_be_reshaped_between_runs():
    s = session(one_op("Neg"))
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    binding = s.io_binding()
    binding.bind_cpu_input("x0", x)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
    for shape in ((6,), (3, 2), (1, 1, 6)):
        x.shape = y.shape = shape
        junk = [np.ones(7) for _ in range(20)]
        s.run_with_iobinding(binding)
        assert (y == -1).all() and binding.get_outputs()[0].shape() == [2, 3] and junk
        y[:] = 0


def test_a_feed_may_change_while_it_runs():
    s = session(one_op("Exp", shape=["N", 64]))
    feed = {"x0": np.zeros((2000, 64), np.float32)}
    stop = threading.Event()

    def replace():
        while not stop.is_set():
            feed["x0"] = np.zeros((2000, 64), np.float32)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        assert all((s.run(None, feed)[0] == 1).all() for _ in range(30))
    finally:
        stop.set()
        thread.join()


def test_runs_of_many_threads_agree():
    s = session(one_op("Exp", shape=["N", 64]))
    inputs = [np.full((50, 64), i / 10, np.float32) for i in range(8)]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.allclose(s.run(None, {"x0": inputs[i]})[0], np.exp(inputs[i])):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_run_async_calls_back():
    s = session(one_op("Neg"))
    done, seen = threading.Event(), []

    def callback(results, data, error):
        seen.append((results, data, error))
        done.set()

    s.run_async(None, {"x0": np.ones((1, 3), np.float32)}, callback, "mine")
    assert done.wait(30) and seen[0][0][0].tolist() == [[-1, -1, -1]] and seen[0][1:] == ("mine", "")
    done.clear()
    s.run_async(None, {}, callback, 7)
    assert done.wait(30) and "x0" in seen[1][2]


def test_terminate_ends_a_run():
    s = session(one_op("Neg"))
    options = ort.RunOptions()
    options.terminate = True
    package.raises(state.Fail, lambda: s.run(None, {"x0": [[1, 2, 3]]}, options))
    options.terminate = False
    assert s.run(None, {"x0": [[1, 2, 3]]}, options)[0].shape == (1, 3)


def test_metadata_and_overridable_initializers():
    weight = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    data = model([helper.make_node("Mul", ["x", "w"], ["y"])],
                 [("x", TensorProto.FLOAT, ["N", 3]), ("w", TensorProto.FLOAT, [3])],
                 [("y", TensorProto.FLOAT, ["N", 3])], [weight], metadata={"key": "value"})
    s = session(data)
    meta = s.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.domain, meta.version, meta.description) == (
        "tests/python", "small", "tests", 3, "a small model")
    assert meta.custom_metadata_map == {"key": "value"}
    assert [a.name for a in s.get_inputs()] == ["x"]
    assert [a.name for a in s.get_overridable_initializers()] == ["w"]
    x = np.ones((1, 3), np.float32)
    assert s.run(None, {"x": x})[0].tolist() == [[2, 2, 2]]
    assert s.run(None, {"x": x, "w": 3 * x[0]})[0].tolist() == [[3, 3, 3]]
    assert s.run(None, {"x": x})[0].tolist() == [[2, 2, 2]]
    options = ort.SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.full(3, 9, np.float32)))
    s = session(data, options)
    assert s.run(None, {"x": x})[0].tolist() == [[9, 9, 9]] and len(s.get_inputs()) == 1


def test_added_initializers_replace_those_of_the_model():
    data = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [3])],
                 [("y", TensorProto.FLOAT, [3])],
                 initializers=[numpy_helper.from_array(np.zeros(3, np.float32), "w")])
    options = ort.SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.full(3, 5, np.float32)))
    options.add_initializer("none", ort.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32)))
    s = session(data, options)
    assert [arg.name for arg in s.get_inputs()] == ["x"]
    assert s.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [6, 6, 6]
    other = ort.SessionOptions()
    other.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32)))
    package.raises(state.Fail, lambda: session(data, other).run(None, {"x": np.ones(3, np.float32)}), "w")


def test_loads_are_cancelled():
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    package.raises(state.ModelLoadCanceled, lambda: session(one_op("Neg"), options), "cancelled")
    options.set_load_cancellation_flag(False)
    assert session(one_op("Neg"), options).run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]


def test_free_dimensions_are_fixed():
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    s = session(one_op("Neg"), options)
    assert s.get_inputs()[0].shape == [2, 3]
    assert s.run(None, {"x0": np.ones((2, 3), np.float32)})[0].shape == (2, 3)
    package.raises(state.InvalidArgument, lambda: s.run(None, {"x0": np.ones((1, 3), np.float32)}),
                   "Got: 1 Expected: 2")


def test_the_profile_has_the_time_of_every_node():
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    data = model([helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
                  helper.make_node("Softmax", ["h"], ["y"], name="second")],
                 [("x", TensorProto.FLOAT, ["N", 3])], [("y", TensorProto.FLOAT, ["N", 4])], [weight])
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "prof")
        s = session(data, options)
        x = np.ones((2, 3), np.float32)
        plain = s.run(None, {"x": x})[0]
        binding = s.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        s.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), plain)
        path = s.end_profiling()
        events = json.loads(pathlib.Path(path).read_text())
        assert s.end_profiling() == path and s.run(None, {"x": x})[0].shape == (2, 4)
    names = [event["name"] for event in events]
    assert names.count("model_run") == 2 and "session_initialization" in names, names
    nodes = [event for event in events if event["cat"] == "Node"]
    assert all({"pid", "tid", "dur", "ts", "ph"} <= set(event) for event in events)
    assert {event["args"]["provider"] for event in nodes} == {"CPUExecutionProvider"}
    operators = {kind for event in nodes for kind in event["args"]["op_name"].split("+")}
    assert {"MatMul", "Softmax"} <= operators, operators
    product = next(event for event in nodes if event["name"] == "first_kernel_time")
    assert {"float": [2, 3]} in product["args"]["input_type_shape"], product
    assert {"float": [2, 4]} in product["args"]["output_type_shape"], product
    assert int(product["args"]["parameter_size"]) + int(product["args"]["activation_size"]) >= 24


def test_providers_resolve_with_one_warning():
    rocm = ("ROCMExecutionProvider", {"device_id": 0, "gpu_mem_limit": 2 * 1024**3,
                                      "arena_extend_strategy": "kNextPowerOfTwo"})
    for providers in (["MIGraphXExecutionProvider"], ["ROCMExecutionProvider"], [rocm]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            s = session(one_op("Neg"), None, providers)
        assert len(caught) == 1 and "ExecutionProvider" in str(caught[0].message), caught
        assert s.get_providers()[-1] == "CPUExecutionProvider"
        assert s.run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    package.raises(RuntimeError, lambda: session(one_op("Neg"), options, ["ROCMExecutionProvider"]),
                   "ROCMExecutionProvider")
    assert "CPUExecutionProvider" in ort.get_available_providers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ort.InferenceSession(one_op("Neg")).get_providers() == ["CPUExecutionProvider"]


def test_the_log_is_a_logger():
    import logging

    import lathe.genai

    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage()))

    logger, handler = logging.getLogger("lathe"), Handler()
    config = lathe.genai.Config(str(package.ROOT / "examples/counting"))
    config.append_provider("MIGraphX")
    logger.addHandler(handler)
    try:
        lathe.genai.Model(config)
    finally:
        logger.removeHandler(handler)
    if "gpu" not in lathe.get_targets():
        assert any(level == "WARNING" and "MIGraphX" in line for level, line in lines), lines


def test_absent_features_are_refused_by_name():
    options = ort.SessionOptions()
    for call in (lambda: setattr(options, "optimized_model_filepath", "x.onnx"),
                 lambda: options.register_custom_ops_library("x.so"),
                 lambda: options.add_session_config_entry("ep.context_enable", "1"),
                 lambda: options.add_session_config_entry("session.set_denormal_as_zero", "1"),
                 lambda: ort.LoraAdapter.Load("x"),
                 lambda: importlib.import_module("lathe.ort_plugin").get_library_path(),
                 lambda: ort.SparseTensor.sparse_coo_from_numpy([3], [], [], None),
                 lambda: ort.OrtValue.ortvalue_from_shape_and_type([1], np.float32, "cuda")):
        error = package.raises(lathe.Unsupported, call, "Remedy")
        assert error.reason == "absent_feature"
    assert all(lathe.features().values())


def test_models_are_compiled_to_files_and_bytes():
    x = {"x0": np.array([[1, 2, 3]], np.float32)}
    compiler = ort.ModelCompiler(ort.SessionOptions(), one_op("Neg"))
    pieces = []
    compiler.compile_to_stream(pieces.append)
    assert b"".join(pieces) == compiler.compile_to_bytes()
    with tempfile.TemporaryDirectory() as folder:
        model, path = os.path.join(folder, "neg.onnx"), os.path.join(folder, "neg_ctx.onnx")
        with open(model, "wb") as file:
            file.write(one_op("Neg"))
        ort.ModelCompiler(ort.SessionOptions(), model).compile_to_file()
        compiler.compile_to_file(os.path.join(folder, "other.lathe"))
        for source in (path, os.path.join(folder, "other.lathe"), compiler.compile_to_bytes()):
            s = ort.InferenceSession(source)
            assert s.get_inputs()[0].name == "x0" and s.run(None, x)[0].tolist() == [[-1, -2, -3]]
    for wrong in (b"", ""):
        package.raises(ValueError, lambda wrong=wrong: ort.ModelCompiler(ort.SessionOptions(), wrong), "empty")
    package.raises(ValueError, compiler.compile_to_file, "output_model_path")
    package.raises(lathe.Unsupported, lambda: compiler.set_ep_context_data_write_func(print), "Remedy")


def test_libraries_of_providers_are_registered_without_effect():
    genai = importlib.import_module("lathe.genai")
    for rt in (ort, genai):
        package.raises(RuntimeError, lambda rt=rt: rt.register_execution_provider_library("a", "/none.so"), "none.so")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            rt.register_execution_provider_library("a", __file__)
        assert len(seen) == 1 and "built in" in str(seen[0].message)
        rt.unregister_execution_provider_library("a")
        package.raises(RuntimeError, lambda rt=rt: rt.unregister_execution_provider_library("a"), "a was not")


def test_the_backend_interface():
    from lathe.onnxruntime import backend

    assert backend.supports_device("CPU") and not backend.supports_device("TPU")
    prepared = backend.prepare(one_op("Neg"), "CPU")
    assert prepared.run(np.ones((1, 3), np.float32))[0].tolist() == [[-1, -1, -1]]
    assert prepared.run([np.ones((1, 3), np.float32)])[0].tolist() == [[-1, -1, -1]]


def test_a_child_of_fork_runs():
    s = session(one_op("Neg"))
    s.run(None, {"x0": [[1, 2, 3]]})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if s.run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]] else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


package.run(globals())
