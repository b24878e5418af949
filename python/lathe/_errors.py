# SPDX-License-Identifier: MIT
"""The exceptions: one class for each kind of error, each also a RuntimeError."""

from __future__ import annotations


class Error(RuntimeError):
    """An error of the engine. `kind` is its category, `reason` a stable word or "", `notes` the
    lines of context that the text contains after the message."""

    kind = "Internal"

    def __init__(self, message: str = "", *, reason: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.notes = notes


class Fail(Error):
    """A run or a load failed; the class of that name in ONNX Runtime."""


class InvalidArgument(Fail, ValueError):
    """An argument of the caller is invalid. Where an operator refuses values at run time, ONNX
    Runtime reports Fail or InvalidArgument, by operator."""

    kind = "InvalidArgument"


class InvalidModelError(Error):
    """A file contradicts its format or itself."""

    kind = "InvalidModel"


class Unsupported(Error, NotImplementedError):
    """A valid request that is not implemented; the message names what is missing."""

    kind = "Unsupported"


class OutOfMemory(Error, MemoryError):
    """No memory is left, or a memory limit is reached."""

    kind = "OutOfMemory"


class DeviceError(Error):
    """A device failed."""

    kind = "Device"


class IoError(Error, OSError):
    """A file cannot be read or written."""

    kind = "Io"


class MissingFile(IoError, FileNotFoundError):
    """A file does not exist."""


class Internal(Error):
    """A defect of Lathe."""


class Interrupted(Fail, InterruptedError):
    """A run was cancelled or timed out; states are as before."""

    kind = "Interrupted"


_KINDS: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: InvalidModelError,
    3: Unsupported,
    4: OutOfMemory,
    5: DeviceError,
    6: IoError,
    7: Internal,
    8: Interrupted,
}


def make(kind: int, reason: str, message: str, notes: list[str]) -> Error:
    """The exception of an error kind of the C interface."""
    cls = _KINDS.get(kind, Internal)
    if cls is IoError and reason == "missing_file":
        cls = MissingFile
    return cls(message, reason=reason, notes=tuple(notes))
