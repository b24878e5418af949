# SPDX-License-Identifier: MIT
"""The exceptions of ONNX Runtime as classes of Lathe's errors."""

from __future__ import annotations

import lathe._errors as _errors
from lathe._errors import Fail, InvalidArgument

__all__ = [
    "DeviceReset", "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph",
    "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded", "ModelRequiresCompilation", "NoModel",
    "NoSuchFile", "NotFound", "NotImplemented", "RuntimeException",
]


class NoSuchFile(_errors.MissingFile):
    """The model's file does not exist."""


class NoModel(_errors.Error):
    """The session has no model."""


class EngineError(_errors.Error):
    """The engine failed."""


class RuntimeException(_errors.Error):
    """A kernel failed."""


class InvalidProtobuf(_errors.InvalidModelError):
    """The file is not an ONNX model."""


class ModelLoaded(_errors.Error):
    """The session has a model already."""


class NotImplemented(_errors.Unsupported):  # noqa: A001
    """An operator or feature is not implemented."""


class InvalidGraph(_errors.InvalidModelError):
    """The model contradicts itself."""


class _UnknownOperator(NotImplemented, InvalidGraph):
    """An operator that the importer does not know: ONNX Runtime reports either class."""


class EPFail(_errors.Error):
    """An execution provider failed."""


class ModelLoadCanceled(_errors.Interrupted):
    """Loading was cancelled."""


class ModelRequiresCompilation(_errors.Error):
    """The model must be compiled first."""


class NotFound(_errors.Error):
    """An item does not exist."""


class DeviceReset(_errors.DeviceError):
    """A device was reset."""


def translate(error: _errors.Error) -> _errors.Error:
    """The exception that ONNX Runtime would raise for an error while a model is loaded."""
    cls: type[_errors.Error]
    if isinstance(error, (InvalidArgument, _errors.Interrupted)):
        return error
    if isinstance(error, _errors.MissingFile):
        cls = NoSuchFile
    elif isinstance(error, _errors.Unsupported):
        cls = _UnknownOperator
    elif isinstance(error, _errors.InvalidModelError):
        cls = InvalidProtobuf if error.reason == "not_protobuf" else InvalidGraph
    else:
        return error
    return cls(str(error), reason=error.reason, notes=error.notes)
