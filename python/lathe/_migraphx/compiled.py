# SPDX-License-Identifier: MIT
"""Programs saved as compiled files, and back."""

from __future__ import annotations

import os

from lathe import _core
from lathe._errors import InvalidArgument
from lathe._migraphx.program import _best_target, _Dimensions, program, target

_FORMATS = ("msgpack", "json")  # of MIGraphX: both write Lathe's own format


def _check(format: str) -> None:
    if format not in _FORMATS:
        raise InvalidArgument(f"unknown format {format!r}: one of {', '.join(_FORMATS)}")


def _plan_of(p: program) -> _core.Plan:
    if not isinstance(p, program):
        raise TypeError(f"{type(p).__name__} is not a program")
    if p._plan is None:
        p.compile(_best_target())
    assert p._plan is not None
    return p._plan


def save(p: program, name: str | os.PathLike[str], format: str = "msgpack") -> None:
    """Writes a compiled file (.lathe). A program that is not compiled is compiled first. `format`: no
    effect."""
    _check(format)
    _plan_of(p).save(os.fspath(name))


def save_buffer(p: program, format: str = "msgpack") -> bytes:
    """The bytes that save() writes."""
    _check(format)
    return _plan_of(p).save_bytes()


def _loaded(core: _core.Program, source: str | bytes) -> program:
    made = program._of(core, _Dimensions(0, None, None, None, None))
    made._source = source
    made.compile(target("auto"))
    return made


def load(name: str | os.PathLike[str], format: str = "msgpack") -> program:
    """The compiled program of a file that save() or `lathe compile` wrote."""
    _check(format)
    path = os.fspath(name)
    return _loaded(_core.load(path, "", [], {}), path)


def load_buffer(b: bytes, format: str = "msgpack") -> program:
    """The compiled program of such bytes."""
    _check(format)
    return _loaded(_core.load_memory(b, "", "", [], {}), b)
