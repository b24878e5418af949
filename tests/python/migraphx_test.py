# SPDX-License-Identifier: MIT
"""The names of MIGraphX: shapes, arguments, programs."""

import os
import subprocess
import sys
import tempfile
from unittest import mock

import package

FOLDER = package.find()

import numpy as np
from models import model, one_op
from onnx import TensorProto, helper, numpy_helper

import lathe

DIGITS = package.ROOT / "examples/digits/digits.onnx"


def test_parse_compile_and_run_on_generated_arguments():
    p = lathe.parse_onnx(str(DIGITS))
    assert not p.is_compiled()
    p.compile(lathe.get_target("cpu"))
    assert p.is_compiled() and p.get_parameter_names() == ["image"]
    params = {name: lathe.generate_argument(s) for name, s in p.get_parameter_shapes().items()}
    result = p.run(params)[-1]
    assert result.get_shape() == lathe.shape(type="float", lens=[1, 10])
    assert abs(sum(result.tolist()) - 1) < 1e-4
    assert p.get_output_shapes()[0].lens() == [1, 10]
    five = p.run({"image": np.zeros((5, 1, 8, 8), np.float32)})[0]
    assert five.get_shape().lens() == [5, 10]
    assert "image" in str(p) and p == lathe.parse_onnx(DIGITS)
    assert p.verify(lathe.get_target("cpu"), params=params)


def test_dimensions_of_parameters():
    shapes = lambda **options: lathe.parse_onnx(DIGITS, **options).get_parameter_shapes()["image"]
    assert shapes().lens() == [1, 1, 8, 8]
    assert shapes(default_dim_value=4).lens() == [4, 1, 8, 8]
    assert shapes(map_input_dims={"image": [2, 1, 8, 8]}).lens() == [2, 1, 8, 8]
    assert shapes(dim_params={"batch": 3}).lens() == [3, 1, 8, 8]
    batch = lathe.shape.dynamic_dimension(1, 8, {1, 4})
    dynamic = shapes(dim_params={"batch": batch})
    assert dynamic.dynamic() and dynamic.dyn_dims()[0] == batch and dynamic.dyn_dims()[1].is_fixed()
    assert shapes(default_dyn_dim_value=batch).dyn_dims()[0] == batch
    p = lathe.parse_onnx(DIGITS, map_input_dims={"image": [6, 1, 8, 8]})
    assert p.get_output_shapes()[0].lens() == [6, 10]
    found = lathe.parse_onnx(DIGITS, dim_params={"batch": batch}).get_output_shapes()[0]
    ends = [(d.min, d.max) for d in found.dyn_dims()]
    assert found.dynamic() and ends == [(1, 8), (10, 10)], found
    package.raises(RuntimeError, lambda: shapes(map_input_dims={"nothing": [1]}), "nothing", "image")
    package.raises(RuntimeError, lambda: shapes(default_dim_value=2, default_dyn_dim_value=batch))


def test_dynamic_dimensions_are_ranges_or_expressions():
    n = lathe.dynamic_dimension(1, 8)
    d = lathe.dynamic_dimension("n*3+1", {"n": n})
    assert (d.min, d.max, d.is_symbolic(), n.is_symbolic()) == (4, 25, True, False)
    assert lathe.dynamic_dimension(3).is_fixed() and n != d
    package.raises(RuntimeError, lambda: lathe.dynamic_dimension("__import__('os')", {"n": n}))
    package.raises(RuntimeError, lambda: lathe.dynamic_dimension(5, 2))


def test_shapes():
    s = lathe.shape(type="half", lens=[2, 3])
    assert (s.type_string(), s.type_size(), s.elements(), s.bytes(), s.ndim()) == (
        "half_type", 2, 6, 12, 2)
    assert s.strides() == [3, 1] and s.standard() and s.packed() and not s.transposed()
    t = lathe.shape(type="float_type", lens=[2, 3], permutation=[1, 0])
    assert t.strides() == [1, 2] and t.transposed() and t.packed() and not t.standard()
    b = lathe.shape(type="int64_t", lens=[2, 3], strides=[0, 1])
    assert b.broadcasted() and not b.packed() and not b.scalar() and b != s
    assert repr(s) == "half_type, {2, 3}, {3, 1}" and s.type() == lathe.shape.type_t.half_type
    assert lathe.shape(type="float").scalar()
    assert lathe.shape.from_json('{"type": "float_type", "lens": [2]}').lens() == [2]
    package.raises(RuntimeError, lambda: lathe.shape(type="nothing"), "nothing")
    package.raises(RuntimeError, lambda: lathe.shape(lens=[-1]))


def test_arguments_share_memory():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = lathe.argument(x)
    assert a.data_ptr() == x.ctypes.data and a.tolist() == list(range(6))
    assert a == lathe.argument(x.copy()) and a != lathe.argument(x + 1)
    assert memoryview(a).shape == (2, 3) and np.array(a).shape == (2, 3)
    view = lathe.argument_from_pointer(a.get_shape(), a.data_ptr())
    x[0, 0] = 9
    assert view.tolist()[0] == 9
    transposed = lathe.argument(x.T)
    assert transposed.get_shape().strides() == [1, 3]
    s = lathe.shape(type="int32", lens=[2, 2])
    assert lathe.fill_argument(s, 3).tolist() == [3] * 4
    assert lathe.create_argument(s, [1, 2, 3, 4]).tolist() == [1, 2, 3, 4]
    assert lathe.generate_argument(s, 1) == lathe.generate_argument(s, 1)
    bf16 = lathe.generate_argument(lathe.shape(type="bf16", lens=[3]))
    assert bf16.get_shape().type_string() == "bf16_type"


def test_buffers_and_errors():
    p = lathe.parse_onnx_buffer(one_op("Neg"))
    assert p.run({"x0": [[1, 2, 3]]})[0].tolist() == [-1, -2, -3]
    package.raises(lathe.InvalidArgument, lambda: p.run({}), "x0")
    package.raises(FileNotFoundError, lambda: lathe.parse_onnx("/none.onnx"))
    package.raises(lathe.InvalidModelError, lambda: lathe.parse_onnx_buffer(b"nothing"))
    package.raises(lathe.Unsupported, lambda: lathe.parse_onnx_buffer(one_op("Foo")), "Foo")
    package.raises(lathe.InvalidArgument, lambda: lathe.get_target("abacus"), "abacus")
    package.raises(RuntimeError, lambda: p.compile(lathe.get_target("cpu"), compile_mode="slow"))


def product():
    """A model, an input, and the exact result."""
    random = np.random.default_rng(3)
    weights = numpy_helper.from_array(random.standard_normal((64, 48)).astype(np.float32), "w")
    data = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [8, 64])],
                 [("y", TensorProto.FLOAT, [8, 48])], initializers=[weights])
    x = random.standard_normal((8, 64)).astype(np.float32)
    return data, x, x @ numpy_helper.to_array(weights)


def test_programs_compute_in_narrow_types():
    data, x, exact = product()
    for quantise, bound in ((None, 1e-5), (lathe.quantize_fp16, 2e-2), (lathe.quantize_bf16, 2e-2),
                            (lambda p: lathe.quantize_int8(p, lathe.get_target("cpu"), [{"x": x}]), 5e-2)):
        p = lathe.parse_onnx_buffer(data)
        if quantise is not None:
            quantise(p)
        p.compile(lathe.get_target("cpu"))
        error = np.abs(np.array(p.run({"x": x})[0]) - exact).max() / np.abs(exact).max()
        assert error <= bound and (bound > 1e-4) == (error > 1e-5), (quantise, error)
    package.raises(TypeError, lambda: lathe.quantize_bf16(3))


def test_absent_features_are_refused_by_name():
    p = lathe.parse_onnx_buffer(one_op("Neg"))
    for call in (lambda: lathe.parse_tf("x"),
                 lambda: lathe.quantize_fp8(p, None), lambda: lathe.autocast_fp8(p),
                 lambda: lathe.to_gpu(None), lambda: p.run_async({}, 0, "")):
        package.raises(lathe.Unsupported, call, "Remedy")


def test_exhaustive_tune_keeps_the_results():
    data, x, exact = product()
    p = lathe.parse_onnx_buffer(data)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder}):
        p.compile(lathe.get_target("cpu"), exhaustive_tune=True)
        cached = [name for _, _, files in os.walk(folder) for name in files]
        assert any(name.endswith(".json") for name in cached), cached
    result = np.array(p.run({"x": x})[0])
    np.testing.assert_allclose(result, exact, atol=1e-4)
    again = lathe.load_buffer(lathe.save_buffer(p))
    np.testing.assert_array_equal(np.array(again.run({"x": x})[0]), result)


def test_compiled_programs_are_saved_and_loaded():
    p = lathe.parse_onnx(str(DIGITS))
    expected = np.array(p.run({"image": np.ones((1, 1, 8, 8), np.float32)})[0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "digits.lathe")
        lathe.save(p, path)
        loaded = [lathe.load(path), lathe.load(path, format="json"), lathe.load_buffer(lathe.save_buffer(p))]
        for again in loaded:
            assert again.is_compiled() and again.get_parameter_names() == ["image"]
            result = np.array(again.run({"image": np.ones((1, 1, 8, 8), np.float32)})[0])
            np.testing.assert_array_equal(result, expected)
        lathe.save(lathe.parse_onnx_buffer(one_op("Neg")), path)  # compiled first
        p.compile(lathe.get_target("ref"))
        lathe.save(p, path)  # and stays what it was compiled for
        assert b'"target":"ref"' in lathe.save_buffer(lathe.load(path))
        package.raises(lathe.IoError, lambda: lathe.save(p, os.path.join(folder, "no", "x.lathe")))
    package.raises(TypeError, lambda: lathe.save(3, "x"))
    package.raises(lathe.InvalidArgument, lambda: lathe.load("x", format="xml"), "unknown format")
    package.raises(lathe.MissingFile, lambda: lathe.load("no/such.lathe"))


def test_the_operators_of_onnx():
    names = lathe.get_onnx_operators()
    assert {"Conv", "Relu", "com.microsoft::Attention"} <= set(names) and "Gradient" not in names


def test_explain_prints_what_runs_where():
    code = f"import lathe; lathe.parse_onnx({str(DIGITS)!r}).explain(lathe.get_target('cpu'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(FOLDER)})
    assert "conv" in done.stdout, done.stdout
    code = (f"import lathe; p = lathe.parse_onnx({str(DIGITS)!r}); t = lathe.get_target('cpu'); "
            "lathe.quantize_int8(p, t); p.explain(t)")
    quantised = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                               env={**os.environ, "PYTHONPATH": str(FOLDER)})
    assert "int8" in quantised.stdout and "int8" not in done.stdout, quantised.stdout


def test_a_past_returns_as_the_next_input():
    data = model([helper.make_node("Concat", ["past", "x"], ["present"], axis=0)],
                 [("past", TensorProto.FLOAT, ["P"]), ("x", TensorProto.FLOAT, [1])],
                 [("present", TensorProto.FLOAT, ["P + 1"])])
    p = lathe.parse_onnx_buffer(data)
    p.compile(lathe.get_target("cpu"))
    past = np.zeros(0, np.float32)
    for step in range(4):
        past = p.run({"past": past, "x": np.full(1, step, np.float32)})[0]
    assert past.tolist() == [0, 1, 2, 3]


def test_the_import_is_quick_and_lazy():
    code = ("import numpy, time; start = time.perf_counter(); import lathe, sys; "
            "print(time.perf_counter() - start); assert 'lathe.onnxruntime' not in sys.modules")
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": str(FOLDER)}) for _ in range(3)]
    assert all(float(run.stdout) < 5 for run in runs)


package.run(globals())
