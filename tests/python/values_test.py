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


def test_a_hostile_dlpack_object_is_an_error():
    class Hostile:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **kwargs):
            raise RuntimeError("no")

    package.raises(Exception, lambda: ort.OrtValue.from_dlpack(Hostile()))


def test_runs_and_errors_leave_no_memory():
    s = ort.InferenceSession(one_op("Neg"))
    x = np.ones((1, 3), np.float32)

    def repeat(count):
        for _ in range(count):
            s.run(None, {"x0": x})
            try:
                s.run(None, {"q": x})
            except ValueError:
                pass

    repeat(2000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeat(20000)
    gc.collect()
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth <= 1024, f"{growth} KiB"


package.run(globals())
