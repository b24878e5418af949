# SPDX-License-Identifier: MIT
"""Values of programs: NumPy arrays with the members of MIGraphX's argument."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._migraphx.shape import shape


class argument(np.ndarray[Any, Any]):
    """A value over the memory of an array or of any object with the buffer protocol."""

    def __new__(cls, data: Any) -> argument:
        array = np.asarray(data)
        if array.dtype.kind in "OSU" or not _core.element_type(array.dtype):
            raise TypeError(
                f"argument({type(data).__name__}): elements of {array.dtype}, expected numbers")
        return array.view(cls)

    def get_shape(self) -> shape:
        size = self.itemsize
        return shape(self.dtype, list(np.ndarray.__getattribute__(self, "shape")),
                     [step // size for step in np.ndarray.__getattribute__(self, "strides")])

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.ctypes.data)

    def tolist(self) -> list[Any]:
        """All elements in one list, row-major."""
        return np.asarray(self).reshape(-1).tolist()

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes the value as a NumPy file."""
        with open(filename, "wb") as file:
            np.save(file, np.asarray(self))

    @staticmethod
    def load(filename: str | os.PathLike[str]) -> argument:
        """Reads a value that save() has written."""
        return argument(np.load(filename, allow_pickle=False))

    @staticmethod
    def from_dlpack(data: Any) -> argument:
        """A value over the memory of another library's tensor."""
        made = _core.from_dlpack(data)
        return argument(made.numpy() if isinstance(made, _core.DeviceTensor) else made)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   **kwargs: Any) -> Any:
        return _core.to_dlpack(self, max_version is not None and max_version[0] >= 1)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, argument):
            return bool(np.array_equal(np.asarray(self), np.asarray(other)))
        return np.ndarray.__eq__(self, other)

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, argument):
            return not self == other
        return np.ndarray.__ne__(self, other)

    __hash__ = None


def _dtype(of: shape) -> np.dtype[Any]:
    dtype: np.dtype[Any] = _core.dtype(of._type)
    return dtype


def argument_from_pointer(shape: shape, address: int) -> argument:
    """A value over memory of the caller, who keeps it."""
    dtype = _dtype(shape)
    count = shape._span() if shape.elements() else 0
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    data: Any = memory
    flat = np.frombuffer(data, np.uint8).view(dtype)
    steps = [step * dtype.itemsize for step in shape.strides()]
    return np.lib.stride_tricks.as_strided(flat, shape._lens, steps).view(argument)


def generate_argument(s: shape, seed: int = 0) -> argument:
    """Values that depend on the shape and the seed alone: floats in [-1, 1), small integers."""
    dtype, random = _dtype(s), np.random.default_rng(seed)
    if dtype == np.bool_:
        values = random.integers(0, 2, s._lens).astype(dtype)
    elif np.issubdtype(dtype, np.integer):
        values = random.integers(0, 8, s._lens).astype(dtype)
    else:
        values = random.uniform(-1, 1, s._lens).astype(dtype)
    return argument(values)


def fill_argument(s: shape, value: float) -> argument:
    """Every element is `value`."""
    return argument(np.full(s._lens, value).astype(_dtype(s)))


def create_argument(s: shape, values: Sequence[Any]) -> argument:
    """The elements in row-major order."""
    return argument(np.asarray(values).astype(_dtype(s)).reshape(s._lens))
