# SPDX-License-Identifier: MIT
"""Values and devices: OrtValue, OrtDevice, SparseTensor, memory infos."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument
from lathe._features import refuse, refused_class
from lathe.onnxruntime._enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemType,
)

_DEVICE_TYPES = {"cpu": 0, "gpu": 1, "cuda": 1, "rocm": 1, "hip": 1, "dml": 4, "npu": 3, "cann": 3,
                 "webgpu": 1, "fpga": 2}
# What Lathe calls the device of a type; with ":1" the second.
_DEVICES = {"gpu": "gpu", "cuda": "cuda", "rocm": "hip", "hip": "hip"}
_TEST_DEVICES = ("sim", "gpu:host")


class OrtDevice:
    """A device: "cpu", or the GPU of an "gpu", "cuda", "rocm" or "hip". Others are understood, and
    refused where memory is needed."""

    __slots__ = ("_id", "_memory", "_name", "_type", "_vendor")

    def __init__(self, device_type: int = 0, device_id: int = 0, name: str = "cpu",
                 vendor_id: int = 0) -> None:
        self._type, self._id, self._name, self._vendor = device_type, device_id, name, vendor_id

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0,
             vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        name = ort_device_name.lower()
        if name not in _DEVICE_TYPES and name not in _TEST_DEVICES:
            raise Exception("Unsupported device type: " + ort_device_name)
        return OrtDevice(_DEVICE_TYPES.get(name, 1), int(device_id), name, max(int(vendor_id), 0))

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def gpu() -> int:
        return 1

    @staticmethod
    def default_memory() -> int:
        return 0

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return self._type

    def device_vendor_id(self) -> int:
        return self._vendor

    def device_mem_type(self) -> int:
        return 0

    def _is_host(self) -> bool:
        return self._type == 0


class OrtMemoryInfo:
    """Where a value lies."""

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int,
                 mem_type: OrtMemType) -> None:
        self.name = name
        self.allocator_type = allocator_type
        self.device_id = device_id
        self.mem_type = mem_type
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0

    @staticmethod
    def create_v2(name: str, device_type: Any, vendor_id: int, device_id: int,
                  device_mem_type: OrtDeviceMemoryType, alignment: int,
                  allocator_type: OrtAllocatorType) -> OrtMemoryInfo:
        info = OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT)
        info.device_mem_type = device_mem_type
        info.device_vendor_id = vendor_id
        return info


def cpu_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


SparseTensor = refused_class(
    "SparseTensor", "sparse tensors",
    "sparse_coo_from_numpy sparse_csr_from_numpy values as_coo_view as_csrc_view "
    "as_blocksparse_view to_cuda format dense_shape data_type device_name", "lathe.onnxruntime")


def find_device(device_type: str | OrtDevice, device_id: int, what: str) -> str | None:
    """Lathe's name of a device; None: the host. Raises Unsupported for one that is absent."""
    device = (device_type if isinstance(device_type, OrtDevice)
              else OrtDevice.make(device_type, device_id))
    if device._is_host():
        return None
    name = device._name
    if name not in _TEST_DEVICES:
        name = f"{_DEVICES[name]}:{device._id}" if name in _DEVICES else ""
    if not name or not _core.has_device(name):
        refuse("device memory", f"{what} with device_type {device._name!r}")
    return name


def element_type_of(element_type: Any) -> int:
    """The ONNX number of a NumPy type, or the number itself."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        return element_type
    return _core.element_type(np.dtype(element_type))


def array_at(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array over memory of the caller, who keeps it."""
    dtype = _core.dtype(element_type_of(element_type))
    count = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
    size = count * dtype.itemsize
    if size < 0 or (size > 0 and not address):
        raise InvalidArgument(
            f"{size} bytes at address {address} for shape {list(shape)}: expected memory", reason="shape")
    buffer: Any = (ctypes.c_char * size).from_address(address) if size else b""
    array: np.ndarray[Any, Any] = np.frombuffer(buffer, np.uint8, size).view(dtype)
    return array.reshape(tuple(shape))


def value_at(device: str | None, address: int, element_type: Any, shape: Sequence[int]) -> Any:
    """A tensor over memory of the caller, who keeps it."""
    if device is None:
        return array_at(address, element_type, shape)
    return _core.at_address(device, element_type_of(element_type), [int(n) for n in shape], address)


class OrtValue:
    """A tensor, a sequence or a map. Tensors on the host share the memory of NumPy arrays."""

    __slots__ = ("_value",)

    def __init__(self, value: Any, numpy_obj: Any = None) -> None:
        self._value: Any = value._value if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray[Any, Any], /, device_type: str = "cpu",
                            device_id: int = 0,
                            vendor_id: int | OrtDeviceVendorId = -1) -> OrtValue:
        """A value over the memory of an array, without a copy; a copy on another device."""
        device = find_device(device_type, device_id, "OrtValue.ortvalue_from_numpy")
        array = np.asarray(numpy_obj)
        return cls(array if device is None else _core.on_device(array, device))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray[Any, Any], /,
                                           onnx_element_type: int) -> OrtValue:
        """A value over an array of the same size of elements: uint16 for bfloat16, and so on."""
        array = np.asarray(data)
        dtype = _core.dtype(onnx_element_type)
        if array.dtype.itemsize != dtype.itemsize:
            raise InvalidArgument(
                f"elements of {array.dtype} have {array.dtype.itemsize} bytes, those of "
                f"{_core.onnx_type_name(onnx_element_type)} have {dtype.itemsize}", reason="type")
        return cls(array.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any,
                                     device_type: str = "cpu", device_id: int = 0,
                                     vendor_id: int | OrtDeviceVendorId = -1,
                                     memory_info: OrtMemoryInfo | None = None) -> OrtValue:
        """A zero-filled tensor; memory_info must be of host memory."""
        if memory_info is not None and memory_info.name != "Cpu":
            refuse("device memory", f"memory_info of {memory_info.name!r}")
        device = find_device(device_type, device_id, "OrtValue.ortvalue_from_shape_and_type")
        number = element_type_of(element_type)
        if device is not None:
            return cls(_core.zeros_on_device(device, number, [int(n) for n in shape]))
        return cls(np.zeros(tuple(shape), _core.dtype(number)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        refuse("sparse tensors", "OrtValue.ort_value_from_sparse_tensor")

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value over the memory of another library's tensor."""
        return cls(_core.from_dlpack(data))

    def as_sparse_tensor(self) -> Any:
        refuse("sparse tensors", "OrtValue.as_sparse_tensor")

    def _is_on_device(self) -> bool:
        return isinstance(self._value, _core.DeviceTensor)

    def _tensor(self) -> np.ndarray[Any, Any]:
        """The array; of a tensor on a device, a copy."""
        if self._is_on_device():
            array: np.ndarray[Any, Any] = self._value.numpy()
            return array
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._value

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._value.address() if self._is_on_device() else self._tensor().ctypes.data)

    def device_name(self) -> str:
        """"cpu", "cuda", "hip"."""
        return str(self._value.device()).split(":")[0] if self._is_on_device() else "cpu"

    def shape(self) -> list[int]:
        return list(self._value.shape() if self._is_on_device() else self._tensor().shape)

    def data_type(self) -> str:
        """"tensor(float)", "seq(tensor(float))"."""
        if self.is_tensor():
            return str(_core.onnx_type_name(self.element_type()))
        if isinstance(self._value, list):
            inner = OrtValue(self._value[0]).data_type() if self._value else "tensor(float)"
            return f"seq({inner})"
        return "map"

    def element_type(self) -> int:
        if self._is_on_device():
            return int(self._value.element_type())
        return int(_core.element_type(self._tensor().dtype))

    def tensor_size_in_bytes(self) -> int:
        return int(self._value.bytes() if self._is_on_device() else self._tensor().nbytes)

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray) or self._is_on_device()

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def numpy(self, *, packed: bool = False) -> Any:
        """The array (or list of arrays) itself, without a copy; of a tensor on a device, a copy.
        packed: the dense bytes of elements below 8 bits, first element in the lowest bits."""
        if packed or self._is_on_device():
            return _core.packed(self._tensor()) if packed else self._tensor()
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._tensor()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError("a conversion of the element type requires a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   **kwargs: Any) -> Any:
        value = self._value if self._is_on_device() else self._tensor()
        return _core.to_dlpack(value, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = _core.dlpack_device(self._value) if self._is_on_device() else (1, 0)
        return int(kind), int(number)

    def update_inplace(self, data: Any) -> None:
        """Copies an array of the same shape and type into the value."""
        if self._is_on_device():
            self._value.assign(unwrap(data))
            return
        array, given = self._tensor(), data.numpy() if isinstance(data, OrtValue) else np.asarray(data)
        if given.shape != array.shape or given.dtype != array.dtype:
            raise InvalidArgument(
                f"got {given.dtype} {list(given.shape)}, expected {array.dtype} {list(array.shape)}",
                reason="shape")
        array[...] = given


def unwrap(value: Any) -> Any:
    """The NumPy array, tensor on a device or list in an OrtValue."""
    return value._value if isinstance(value, OrtValue) else value


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each tensor into the one at its index."""
    if len(src) != len(dst):
        raise InvalidArgument(f"got {len(src)} sources and {len(dst)} destinations")
    for source, target in zip(src, dst):
        target.update_inplace(source)
