# SPDX-License-Identifier: MIT
"""Values: every element type from NumPy and back with the same bits, OrtValue, DLPack, memory."""

import gc
import resource

import package

package.find()

import ml_dtypes
import numpy as np
from models import model, one_op
from onnx import helper

import lathe
import lathe.genai as og
import lathe.onnxruntime as ort

NUMPY = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8",
         12: "u4", 13: "u8", 14: "c8", 15: "c16"}
ML = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2",
      20: "float8_e5m2fnuz", 24: "float8_e8m0fnu"}
NARROW = {21: "uint4", 22: "int4", 23: "float4_e2m1fn", 25: "uint2", 26: "int2"}


def identity(element_type):
    return model([helper.make_node("Identity", ["x"], ["y"])], [("x", element_type, ["N", 4])],
                 [("y", element_type, ["N", 4])], opset=25)


def random_bits(dtype, shape):
    dtype = np.dtype(dtype)
    data = np.random.default_rng(3).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    if dtype == np.bool_:
        data &= 1
    return data.view(dtype).reshape(shape)


def check_round_trip(element_type, x):
    s = ort.InferenceSession(identity(element_type))
    y = s.run(None, {"x": x})[0]
    assert y.dtype == x.dtype and y.tobytes() == x.tobytes(), (element_type, x.dtype)
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    assert s.run(None, {"x": strided})[0].tobytes() == x.tobytes(), (element_type, x.dtype)
    assert s.get_inputs()[0].type == ort.OrtValue(x).data_type()


def test_types_of_numpy_keep_their_bits():
    for element_type, name in NUMPY.items():
        check_round_trip(element_type, random_bits(name, (5, 4)))


def test_types_of_ml_dtypes_keep_their_bits():
    for element_type, name in ML.items():
        check_round_trip(element_type, random_bits(getattr(ml_dtypes, name), (5, 4)))


def test_types_below_a_byte_are_packed_and_unpacked():
    for element_type, name in NARROW.items():
        bits = 2 if name.endswith("2") else 4
        x = np.arange(20).reshape(5, 4) % (1 << bits)
        if name.startswith("int"):
            x -= 1 << (bits - 1)
        x = x.astype(np.int8).astype(getattr(ml_dtypes, name))
        y = ort.InferenceSession(identity(element_type)).run(None, {"x": x})[0]
        assert y.dtype == x.dtype and (y.astype(np.float32) == x.astype(np.float32)).all(), name


def test_packed_bytes_are_dense():
    x = np.array([1, -2, 3], np.int8).astype(ml_dtypes.int4)
    assert ort.OrtValue(x).numpy(packed=True).tolist() == [0xE1, 0x03]
    y = np.array([1, 2, 3, 0, 1], np.uint8).astype(ml_dtypes.uint2)
    assert ort.OrtValue(y).numpy(packed=True).tolist() == [0b00111001, 0b01]
    z = np.ones(3, np.float32)
    assert ort.OrtValue(z).numpy(packed=True).ctypes.data == z.ctypes.data


def test_ort_value_shares_memory():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert value.data_ptr() == x.ctypes.data and value.shape() == [2, 3]
    assert (value.element_type(), value.data_type(), value.device_name()) == (1, "tensor(float)", "cpu")
    assert value.tensor_size_in_bytes() == 24 and value.is_tensor() and value.has_value()
    value.update_inplace(np.full((2, 3), 4, np.float32))
    assert (x == 4).all()
    package.raises(ValueError, lambda: value.update_inplace(np.zeros(3, np.float32)))
    assert np.from_dlpack(value).ctypes.data == x.ctypes.data
    assert ort.OrtValue.from_dlpack(x).data_ptr() == x.ctypes.data
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.full(3, 0x3F80, np.uint16), 16)
    assert half.numpy().astype(np.float32).tolist() == [1, 1, 1]
    assert ort.OrtValue.ortvalue_from_shape_and_type([2], np.int64).numpy().tolist() == [0, 0]
    target = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    ort.copy_tensors([value], [target])
    assert (target.numpy() == 4).all()
    assert ort.OrtValue([x]).is_tensor_sequence()


def test_dlpack_shares_memory_both_ways():
    import gc

    types = [*NUMPY.values(), *(getattr(ml_dtypes, name) for name in ML.values())]
    for name in types:
        x = random_bits(name, (5, 4))
        if x.dtype in (np.dtype("c8"), np.dtype("c16")):
            continue
        for source in (ort.OrtValue(x), lathe.argument(x), og.Tensor(x)):
            y = ort.OrtValue.from_dlpack(source).numpy()
            assert y.dtype == x.dtype and y.tobytes() == x.tobytes(), name
            assert y.ctypes.data == x.ctypes.data, name
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert ort.OrtValue.from_dlpack(x.T).numpy().tolist() == x.T.tolist()
    y = lathe.argument.from_dlpack(np.arange(10))
    del source
    gc.collect()
    assert y.tolist() == list(range(10))
    fixed = np.arange(4)
    fixed.flags.writeable = False
    assert not ort.OrtValue.from_dlpack(fixed).numpy().flags.writeable
    capsule = ort.OrtValue(x).__dlpack__()
    assert ort.OrtValue.from_dlpack(capsule).numpy().tolist() == x.tolist()
    package.raises(RuntimeError, lambda: ort.OrtValue.from_dlpack(capsule))
    package.raises(RuntimeError, lambda: ort.OrtValue(words()).__dlpack__())


def words():
    return np.array(["a", "b"], object)


def test_dlpack_with_pytorch():
    try:
        import torch
    except ImportError:
        raise package.Skip("PyTorch is not installed") from None
    for kind in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64):
        t = torch.arange(12).reshape(3, 4).to(kind)
        value = ort.OrtValue.from_dlpack(t)
        assert value.data_ptr() == t.data_ptr() and value.numpy().astype(np.float32).sum() == 66
        back = torch.from_dlpack(value)
        assert back.dtype == kind and back.data_ptr() == t.data_ptr()


def test_a_hostile_dlpack_object_is_an_error():
    class Hostile:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **kwargs):
            raise RuntimeError("no")

    class Liar(Hostile):
        def __dlpack__(self, **kwargs):
            return 7

    package.raises(RuntimeError, lambda: ort.OrtValue.from_dlpack(Hostile()), "no")
    package.raises(RuntimeError, lambda: ort.OrtValue.from_dlpack(Liar()))
    package.raises(AttributeError, lambda: ort.OrtValue.from_dlpack(7))


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def test_runs_and_errors_leave_no_memory():
    if package.is_sanitized():
        raise package.Skip("the sanitizer keeps freed memory")
    s = ort.InferenceSession(one_op("Neg"))
    x = np.ones((1, 3), np.float32)
    binding = s.io_binding()
    binding.bind_cpu_input("x0", x)
    binding.bind_output("y")

    def repeat(runs, errors):
        for _ in range(runs):
            s.run(None, {"x0": x})
            s.run_with_iobinding(binding)
        for _ in range(errors):
            package.raises(ValueError, lambda: s.run(None, {"q": x}), "q")

    repeat(5000, 1000)
    gc.collect()
    before = resident_kib()
    repeat(100_000, 10_000)
    gc.collect()
    growth = resident_kib() - before
    assert growth <= 1024, f"{growth} KiB"


package.run(globals())
