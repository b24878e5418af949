# SPDX-License-Identifier: MIT
"""Types as text, "f32[2, n]", and as shapes."""

from __future__ import annotations

import re
from typing import Any

from lathe._errors import InvalidArgument
from lathe._migraphx.shape import element_type, shape

_TEXT = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "string", 9: "bool",
    10: "f16", 11: "f64", 12: "u32", 13: "u64", 14: "c64", 15: "c128", 16: "bf16", 17: "f8e4m3fn",
    18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz", 21: "u4", 22: "i4", 23: "f4e2m1",
    24: "f8e8m0", 25: "u2", 26: "i2",
}
_NUMBERS = {text: number for number, text in _TEXT.items()}
_TYPE = re.compile(r"^(\w+)\[(.*)\]$")


def text_of_element(kind: Any) -> str:
    """"f32" for "float_type", a type_t, a dtype or a number."""
    return _TEXT[element_type(kind)]


def text_of(s: shape) -> str:
    """The type of a shape; dynamic dimensions get symbols."""
    if s.dynamic():
        dims = [str(d.min) if d.is_fixed() else (d.expression or f"d{axis}")
                for axis, d in enumerate(s.dyn_dims())]
    else:
        dims = [] if s._scalar else [str(size) for size in s.lens()]
    return f"{_TEXT[s._type]}[{', '.join(dims)}]"


def shape_of(text: str) -> shape:
    """The shape of a type; dimensions that are not fixed count as 1."""
    match = _TYPE.match(text)
    if match is None or match.group(1) not in _NUMBERS:
        raise InvalidArgument(f"a value of type {text} has no shape", reason="type")
    dims = [part.strip() for part in match.group(2).split(",") if part.strip()]
    lens = [int(part) if part.isdigit() else 1 for part in dims]
    return shape(_NUMBERS[match.group(1)], lens=lens)
