# SPDX-License-Identifier: MIT
"""Tensors and dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument


class Tensor:
    """A NumPy array as a value of a model."""

    def __init__(self, array: Any) -> None:
        self._array: np.ndarray[Any, Any] = np.asarray(array._array if isinstance(array, Tensor) else array)

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def type(self) -> int:
        """The number of the element type in ONNX: 1 for float32."""
        return int(_core.element_type(self._array.dtype))

    def data(self) -> Any:
        """A DLPack capsule of the memory."""
        return _core.to_dlpack(self._array, False)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   **kwargs: Any) -> Any:
        return _core.to_dlpack(self._array, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def as_numpy(self) -> np.ndarray[Any, Any]:
        """The array itself, without a copy."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype=dtype, copy=copy)


class _MissingTensor(InvalidArgument, KeyError):
    """A name that a dictionary of tensors lacks."""

    __str__ = Exception.__str__


class NamedTensors:
    """Tensors by name."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise _MissingTensor(f"there is no tensor with the name {name!r}", reason="unknown_name")
        return self._tensors[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._tensors[name] = value if isinstance(value, Tensor) else Tensor(value)

    def __delitem__(self, name: str) -> None:
        del self._tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def keys(self) -> list[str]:
        return list(self._tensors)
