# SPDX-License-Identifier: MIT
"""Bad calls: each is a clear error, after which the same objects work."""

import pathlib
import tempfile

import package

package.find()

import ml_dtypes
import numpy as np
from models import model, one_op
from onnx import TensorProto, helper

import lathe
import lathe.genai as og
import lathe.onnxruntime as ort

COUNTING = str(package.ROOT / "examples/counting")
ERRORS = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, OSError)


class Raising:
    """Raises from every protocol that a conversion may use."""

    def __getattr__(self, name):
        raise KeyError(f"no {name}")

    def __len__(self):
        raise KeyError("no length")

    def __iter__(self):
        raise KeyError("no iterator")

    def __array__(self, *args, **kwargs):
        raise KeyError("no array")


class Endless:
    """A sequence whose items never end."""

    def __len__(self):
        return 2**62

    def __getitem__(self, index):
        return 1.0


class Dlpack:
    def __init__(self, made, device=(1, 0)):
        self.made = made
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **kwargs):
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


class HostileMapping:
    def keys(self):
        raise KeyError("no keys")


class Disguised(str):
    """A string whose hash and equality raise."""

    def __hash__(self):
        raise KeyError("no hash")


def all_fail(calls):
    """Each call raises an error with a message; returns their count."""
    fine = []
    for index, call in enumerate(calls):
        try:
            fine.append((index, call()))
        except MemoryError:
            pass  # NumPy's has no message
        except ERRORS as error:
            if not str(error):
                fine.append((index, error))
    assert not fine, fine
    return len(calls)


def test_runs():
    s = ort.InferenceSession(one_op("Neg"))
    x = np.ones((1, 3), np.float32)
    cyclic = []
    cyclic.append(cyclic)
    deep = x
    for _ in range(100):
        deep = [deep]
    bad = [None, object(), Raising(), Endless(), "text", b"bytes", cyclic, deep, {1, 2}, {"a": 1},
           lambda: 1, x.astype(np.float64), x.astype(np.float16), x.astype(ml_dtypes.bfloat16),
           x[0], x[None], np.ones((1, 4), np.float32), np.ones((0,), np.float32), np.array("a"),
           np.array([object()]), np.zeros(1, [("a", "f4")]), np.array(1, "M8[s]"), x.astype(complex),
           [[1, 2, 3], [4]], [["a", "b", "c"]], Dlpack(7), type]
    count = all_fail([lambda value=value: s.run(None, {"x0": value}) for value in bad])
    count += all_fail([
        lambda: s.run(None, None), lambda: s.run(None, [x]), lambda: s.run(None, 3),
        lambda: s.run(None, HostileMapping()), lambda: s.run(None, {Disguised("x0"): x, "y": x}),
        lambda: s.run(None, {"x0\0": x}), lambda: s.run(None, {b"x0": x}),
        lambda: s.run(None, {("x0",): x}), lambda: s.run(["y", None], {"x0": x}),
        lambda: s.run(7, {"x0": x}), lambda: s.run([Raising()], {"x0": x}),
        lambda: s.run(None, {"x0": x}, object()), lambda: s.run(),
        lambda: s.run_with_iobinding(None), lambda: s.run_with_ort_values(None, {"x0": None})])
    assert s.run(None, {"x0": x})[0].tolist() == [[-1, -1, -1]]
    assert count >= 40, count


def test_sessions():
    count = all_fail([
        lambda: ort.InferenceSession(None), lambda: ort.InferenceSession(3.5),
        lambda: ort.InferenceSession("\0"), lambda: ort.InferenceSession("x" * 5000),
        lambda: ort.InferenceSession(b"\x08" * 1000), lambda: ort.InferenceSession(one_op("Neg")[:-7]),
        lambda: ort.InferenceSession(one_op("Neg"), unknown=1),
        lambda: ort.InferenceSession(one_op("Neg"), providers=[3]),
        lambda: ort.InferenceSession(one_op("Neg"), providers=[("CPUExecutionProvider",)]),
        lambda: ort.InferenceSession(one_op("Neg"), providers=["CPUExecutionProvider"],
                                     provider_options=[{}, {}]),
        lambda: lathe.parse_onnx("/none"), lambda: lathe.parse_onnx_buffer(b""),
        lambda: lathe.parse_onnx_buffer(3), lambda: lathe.get_target("none"),
        lambda: lathe.program().run({})])
    assert count == 15


def test_options_have_types_and_limits():
    options, run = ort.SessionOptions(), ort.RunOptions()
    w = ort.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))
    attributes = [("intra_op_num_threads", "many"), ("intra_op_num_threads", 1.5),
                  ("intra_op_num_threads", 2**40), ("inter_op_num_threads", None),
                  ("enable_profiling", "yes"), ("enable_mem_pattern", 1), ("execution_mode", 3),
                  ("graph_optimization_level", 99), ("graph_optimization_level", "ORT_ENABLE_ALL"),
                  ("profile_file_prefix", 3), ("logid", 3), ("log_severity_level", "x"),
                  ("optimized_model_filepath", 3)]
    for name, value in attributes:
        package.raises(TypeError, lambda name=name, value=value: setattr(options, name, value), name)
    package.raises(AttributeError, lambda: setattr(options, "intra_op_threads", 1), "intra_op_threads")
    package.raises(TypeError, lambda: setattr(run, "terminate", "x"), "terminate")
    package.raises(AttributeError, lambda: setattr(run, "terminated", True), "terminated")
    for add in (options.add_session_config_entry, run.add_run_config_entry):
        package.raises(RuntimeError, lambda add=add: add("", "1"), "0 characters")
        package.raises(RuntimeError, lambda add=add: add("a" * 1025, "1"), "1025 characters")
        package.raises(TypeError, lambda add=add: add("k", 3), "two strings")
        package.raises(TypeError, lambda add=add: add(3, "v"), "two strings")
        add("a" * 1024, "1")
    for value in (3, None, np.ones(3, np.float32)):
        package.raises(RuntimeError, lambda value=value: options.add_initializer("w", value), "'w'")
    options.add_initializer("w", w)
    for size in ("x", 1.5, None, True):
        package.raises(TypeError,
                       lambda size=size: options.add_free_dimension_override_by_name("n", size), "'n'")
    options.intra_op_num_threads = np.int64(1)
    assert ort.InferenceSession(one_op("Neg")).run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]


def test_dlpack_devices_are_checked_before_the_memory():
    x = np.ones(3, np.float32)
    for device in ((2, 0), (10, 0), (0, 0), None, 1, (1,), ("cpu", 0), [1, 0]):
        for take in (ort.OrtValue.from_dlpack, lathe.argument.from_dlpack):
            package.raises(RuntimeError, lambda take=take, device=device: take(Dlpack(
                AssertionError("asked for memory"), device)), "device")
    assert ort.OrtValue.from_dlpack(x).data_ptr() == x.ctypes.data


def test_arguments_hold_numbers():
    for value in (object(), None, ["a"], np.array([object()]), b"bytes", np.zeros(1, [("a", "f4")])):
        package.raises(TypeError, lambda value=value: lathe.argument(value), "expected numbers")
    assert lathe.argument(np.ones(2, ml_dtypes.bfloat16)).get_shape().type_string() == "bf16_type"


def test_bindings_and_values():
    s = ort.InferenceSession(one_op("Neg"))
    x = np.ones((1, 3), np.float32)
    binding = s.io_binding()
    fixed = np.zeros((1, 3), np.float32)
    fixed.flags.writeable = False
    count = all_fail([
        lambda: binding.bind_cpu_input("x0", object()), lambda: binding.bind_cpu_input(None, x),
        lambda: binding.bind_cpu_input("x0", x.astype(np.int32)),
        lambda: binding.bind_ortvalue_output("y", ort.OrtValue(fixed)),
        lambda: binding.bind_output("z"), lambda: binding.bind_input("x0", "cpu", 0, np.float32, [1, 3], 0),
        lambda: binding.bind_input("x0", "cpu", 0, "no type", [1, 3], x.ctypes.data),
        lambda: binding.bind_input("x0", "npu", 0, np.float32, [1, 3], x.ctypes.data),
        lambda: ort.OrtValue.ortvalue_from_shape_and_type([-1], np.float32),
        lambda: ort.OrtValue.ortvalue_from_shape_and_type([2**62, 2**62], np.float32),
        lambda: ort.OrtValue.from_dlpack(Dlpack(7)), lambda: ort.OrtValue.from_dlpack(Dlpack(None)),
        lambda: ort.OrtValue.from_dlpack(Dlpack(KeyError("no capsule"))),
        lambda: lathe.argument(Raising()),
        lambda: lathe.shape(type="none", lens=[1]), lambda: lathe.shape(type="float", lens=[-2]),
        lambda: lathe.shape.from_json("{"), lambda: lathe.generate_argument(None)])
    assert count == 18
    binding.bind_cpu_input("x0", x)
    binding.bind_output("y")
    s.run_with_iobinding(binding)
    assert binding.get_outputs()[0].numpy().tolist() == [[-1, -1, -1]]


def test_callbacks_that_raise():
    class Boom(Exception):
        pass

    def boom(*args):
        raise Boom("from the callback")

    lathe.custom_op("hostile_boom", boom)
    lathe.custom_op("hostile_none", lambda x: None)
    lathe.custom_op("hostile_shape", lambda x: x, compute_shape=boom)
    lathe.custom_op("hostile_type", lambda x: x.astype(np.float64))
    lathe.custom_op("hostile_list", lambda x: [5, 6])
    lathe.custom_op("hostile_exit", lambda x: (_ for _ in ()).throw(SystemExit(3)))

    def apply(name):
        p = lathe.program()
        main = p.get_main_module()
        x = main.add_parameter("x", lathe.shape(type="float", lens=[2]))
        main.add_return([main.add_instruction(lathe.op(name), [x])])
        return p.run({"x": [1, 2]})

    for name, kind in (("hostile_boom", Boom), ("hostile_none", ERRORS),
                       ("hostile_type", RuntimeError),
                       ("hostile_shape", (Boom, *ERRORS)), ("hostile_exit", SystemExit)):
        package.raises(kind, lambda name=name: apply(name))
    s = ort.InferenceSession(one_op("Neg"))
    s.run_async(None, {"x0": [[1, 2, 3]]}, boom, None)  # its exception has nowhere to go
    assert s.run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]
    package.raises(RuntimeError, lambda: apply("hostile_type"), "float64", "float32")
    assert apply("hostile_list")[0].tolist() == [5, 6]
    assert apply("neg")[0].tolist() == [-1, -2]


def test_generators():
    engine = og.Model(COUNTING)
    tokenizer = og.Tokenizer(engine)
    params = og.GeneratorParams(engine)
    generator = og.Generator(engine, params)
    count = all_fail([
        lambda: og.Model(None), lambda: og.Model(""), lambda: og.Tokenizer(None),
        lambda: og.GeneratorParams(3), lambda: og.Generator(engine, None),
        lambda: tokenizer.encode(3), lambda: tokenizer.encode("\ud800"), lambda: tokenizer.decode("a"),
        lambda: tokenizer.apply_chat_template("[1, 2"),
        lambda: tokenizer.apply_chat_template("[]", template_str="{% for %}"),
        lambda: params.set_search_options(max_length="long"), lambda: params.set_search_options(num_beams=0),
        lambda: params.set_search_options(temperature=float("nan")),
        lambda: generator.append_tokens([-1]), lambda: generator.append_tokens(["a"]),
        lambda: generator.append_tokens(None),
        lambda: generator.rewind_to(7), lambda: generator.rewind_to(-1),
        lambda: generator.get_sequence(-1),
        lambda: generator.set_model_input("none", np.ones(1)), lambda: generator.generate_next_token()])
    assert count == 21
    for ids in ([2**40], [-2**40], np.array([2**40]), [1.5], [2**70]):
        package.raises(TypeError, lambda ids=ids: tokenizer.decode(ids))
        package.raises(TypeError, lambda ids=ids: generator.append_tokens(ids))
    package.raises(TypeError, lambda: tokenizer.create_stream().decode(2**40), "32 bits")
    package.raises(TypeError, lambda: generator.append_tokens(np.ones((1, 1, 1, 2), np.float32)), "float32")
    package.raises(RuntimeError, lambda: generator.append_tokens(np.ones((1, 1, 2), np.int32)), "[1, 1, 2]")
    for name in ("logits", "none"):
        package.raises(RuntimeError, lambda name=name: generator.get_output(name), name)
    generator.append_tokens(tokenizer.encode("one two"))
    generator.generate_next_token()
    assert generator.token_count() == len(tokenizer.encode("one two")) + 1


def test_files_that_change_or_vanish():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.onnx")
        path.write_bytes(one_op("Neg"))
        s = ort.InferenceSession(path)
        path.write_bytes(b"\0" * 50)
        assert s.run(None, {"x0": [[1, 2, 3]]})[0].tolist() == [[-1, -2, -3]]
        package.raises(RuntimeError, lambda: ort.InferenceSession(path))
        path.unlink()
        path.mkdir()
        package.raises((RuntimeError, OSError), lambda: ort.InferenceSession(path))
    weights = helper.make_tensor("w", TensorProto.FLOAT, [3], np.ones(3, np.float32).tobytes(), raw=True)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "../outside.bin"
    data = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [3])],
                 [("y", TensorProto.FLOAT, [3])], [weights])
    package.raises(RuntimeError, lambda: ort.InferenceSession(data), "outside.bin")


package.run(globals())
