# SPDX-License-Identifier: MIT
"""Ops of MIGraphX in terms of Lathe's: one table.

A row builds its op with `b`, whose call b(op, operands, attributes) adds an instruction and returns its
first result; b.all() returns every result, b.literal() adds a constant, b.lens() and b.type() read a
shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lathe._errors import InvalidArgument

Builder = Any
Row = Callable[[Builder, list[Any], dict[str, Any]], Any]


class _Attributes(dict[str, Any]):
    """The attributes of an op, which notes those that its row has read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def check(self, op: str) -> None:
        """Raises for an attribute that nothing has read: without it the op would mean another."""
        for name in self.keys() - self._read:
            known = f"it has {', '.join(sorted(self._read))}" if self._read else "it has none"
            raise InvalidArgument(f"{op}: unknown attribute {name!r}: {known}", reason="unknown_name")


# Elementwise ops and others whose operands and meaning are the same: MIGraphX -> Lathe.
SAME = {name: name for name in (
    "abs acos acosh add asin asinh atan atanh bitwise_and ceil cos cosh div equal erf exp floor "
    "greater identity less log max min mul neg not pow prelu relu sigmoid sign sin sinh sqrt sub tan "
    "tanh where").split()}
SAME |= {"recip": "reciprocal", "nearbyint": "round", "isnan": "is_nan", "logical_and": "and",
         "logical_or": "or", "logical_xor": "xor", "contiguous": "identity", "dot": "matmul",
         "quant_dot": "matmul_integer", "undefined": "identity"}


def _ints(values: Any) -> list[int]:
    return [int(value) for value in (values if isinstance(values, Sequence) else [values])]


def _i64(b: Builder, values: Any) -> Any:
    return b.literal(np.array(_ints(values), np.int64))


def _pads(padding: Any, spatial: int) -> list[int]:
    pads = _ints(padding)
    return pads if len(pads) == 2 * spatial else [*pads, *pads]


def _require_own_padding(op: str, a: dict[str, Any]) -> None:
    """Padding that MIGraphX computes from dynamic shapes has no counterpart in a table of pads."""
    mode = a.get("padding_mode", 0)
    if str(getattr(mode, "name", mode)) not in ("0", "default", "default_"):
        raise InvalidArgument(f"{op}: padding_mode is {mode!r}, expected 0: state the padding")


def _expand(b: Builder, x: Any, lens: Sequence[int]) -> Any:
    return b("expand", [x, _i64(b, lens)])


def _broadcast(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    lens, axis = _ints(a["out_lens"]), int(a.get("axis", 0))
    inner = b.lens(args[0])
    shape = [1] * axis + inner + [1] * (len(lens) - axis - len(inner))
    return _expand(b, b("reshape", [args[0], _i64(b, shape)]), lens)


def _reduce(op: str) -> Row:
    def build(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        axes = _ints(a.get("axes", [])) or list(range(len(b.lens(args[0]))))
        return b(op, [args[0], _i64(b, axes)], {"keep_dims": True})
    return build


def _reduce_bool(op: str) -> Row:
    def build(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        kind = b.type(args[0])
        number = b("cast", args, {"to": "i32"})
        return b("cast", [_reduce(op)(b, [number], a)], {"to": kind})
    return build


def _convolution(op: str) -> Row:
    def build(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        spatial = len(b.lens(args[0])) - 2
        _require_own_padding("convolution", a)
        attributes = {"pads": _pads(a.get("padding", [0] * spatial), spatial),
                      "strides": _ints(a.get("stride", [1] * spatial)),
                      "dilations": _ints(a.get("dilation", [1] * spatial)),
                      "group": int(a.get("group", 1))}
        return b(op, args, attributes)
    return build


_POOLS = {"0": "average_pool", "average": "average_pool", "1": "max_pool", "max": "max_pool",
          "2": "lp_pool", "lpnorm": "lp_pool"}


def _pooling(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    spatial = len(b.lens(args[0])) - 2
    _require_own_padding("pooling", a)
    mode, everywhere = a.get("mode", "max"), bool(a.get("dyn_global", False))
    op = _POOLS.get(str(getattr(mode, "name", mode)))
    if op is None:
        raise InvalidArgument(f"pooling: mode is {mode!r}, expected average, max or lpnorm")
    own: dict[str, dict[str, Any]] = {
        "average_pool": {"count_include_pad": bool(a.get("count_include_pad", False))},
        "lp_pool": {"p": int(a.get("lp_order", 2))}}
    return b(op, args, {
        "kernel_shape": b.lens(args[0])[2:] if everywhere else _ints(a.get("lengths", [1] * spatial)),
        "pads": _pads(a.get("padding", [0] * spatial), spatial),
        "strides": _ints(a.get("stride", [1] * spatial)),
        "dilations": _ints(a.get("dilations", [1] * spatial)),
        "ceil_mode": bool(a.get("ceil_mode", False)), **own.get(op, {})})


def _slice(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("slice", [args[0], _i64(b, a["starts"]), _i64(b, a["ends"]), _i64(b, a["axes"])])


def _pad(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    modes = {0: "constant", 1: "reflect", 2: "edge"}
    mode = a.get("mode", 0)
    value = b.literal(np.array(a.get("value", 0), b.dtype(args[0])))
    return b("pad", [args[0], _i64(b, a["pads"]), value], {"mode": modes.get(mode, mode)})


def _step(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    lens = b.lens(args[0])
    axes = _ints(a["axes"])
    return b("slice", [args[0], _i64(b, [0] * len(axes)), _i64(b, [lens[i] for i in axes]),
                       _i64(b, axes), _i64(b, a["steps"])])


def _topk(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b.all("top_k", [args[0], _i64(b, [a["k"]])], {
        "axis": int(a.get("axis", 0)), "largest": bool(a.get("largest", True))})


def _softmax(op: str) -> Row:
    return lambda b, args, a: b(op, args, {"axis": int(a.get("axis", 1))})


def _arg(op: str) -> Row:
    return lambda b, args, a: b(op, args, {
        "axis": int(a.get("axis", 0)), "keep_dims": True,
        "select_last": bool(a.get("select_last_index", False))})


def _clip(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    """Limits are scalars, or have the shape of x, as MIGraphX requires."""
    x, low, high = args
    if b.lens(low) or b.lens(high):
        return b("min", [b("max", [x, low]), high])
    return b("clip", args)


def _indices(b: Builder, value: Any) -> Any:
    """Indices of ops that take 64-bit ones alone."""
    return value if b.type(value) == "i64" else b("cast", [value], {"to": "i64"})


def _scatter(op: str, reduction: str) -> Row:
    def build(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        if op == "scatter_elements":
            return b(op, args, {"reduction": reduction, "axis": int(a.get("axis", 0))})
        return b(op, [args[0], _indices(b, args[1]), args[2]], {"reduction": reduction})
    return build


def _scan(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    axis = b.literal(np.array(int(a["axis"]), np.int64))
    return b("cumsum", [args[0], axis], {"exclusive": bool(a.get("exclusive", False)),
                                         "reverse": bool(a.get("reverse", False))})


def _quantize(op: str) -> Row:
    def build(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        lens, scales = b.lens(args[0]), b.lens(args[1])
        attributes: dict[str, Any] = {"axis": max(len(lens) - 1, 0)} if scales else {}
        if len(scales) > 1:  # of the shape of x, as MIGraphX requires: blocks of one element
            attributes["block_size"] = 1
        if a.get("out_type") is not None and len(args) < 3:
            attributes["output_dtype"] = b.type_named(a["out_type"])
        return b(op, args, attributes)
    return build


def _gathernd(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("gather_nd", [args[0], _indices(b, args[1])], {"batch_dims": int(a.get("batch_dims", 0))})


def _reverse(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    axes = _ints(a["axes"])
    return b("slice", [args[0], _i64(b, [-1] * len(axes)), _i64(b, [-(2**62)] * len(axes)),
                       _i64(b, axes), _i64(b, [-1] * len(axes))])


def _sqdiff(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    difference = b("sub", args)
    return b("mul", [difference, difference])


def _scalar(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return _expand(b, args[0], _ints(a["scalar_bcst_dims"] if "scalar_bcst_dims" in a else a["out_lens"]))


def _onehot(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("one_hot", args, {"axis": int(a.get("axis", -1))})


def _flatten(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    lens, axis = b.lens(args[0]), int(a.get("axis", 1))
    sizes = [int(np.prod(lens[:axis], dtype=np.int64)), int(np.prod(lens[axis:], dtype=np.int64))]
    return b("reshape", [args[0], _i64(b, sizes)], {"allow_zero": True})


def _rsqrt(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("reciprocal", [b("sqrt", args)])


def _nonzero(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("nonzero", args)


ROWS: dict[str, Row] = {
    "broadcast": _broadcast,
    "multibroadcast": lambda b, args, a: _expand(b, args[0], _ints(a["out_lens"])),
    "scalar": _scalar,
    "reshape": lambda b, args, a: b("reshape", [args[0], _i64(b, a["dims"])]),
    "reshape_lazy": lambda b, args, a: b("reshape", [args[0], _i64(b, a["dims"])]),
    "squeeze": lambda b, args, a: b("squeeze", [args[0], _i64(b, a["axes"])] if a.get("axes") else args),
    "unsqueeze": lambda b, args, a: b("unsqueeze", [args[0], _i64(b, a["axes"])]),
    "transpose": lambda b, args, a: b("transpose", args, {"permutation": _ints(a["permutation"])}),
    "as_shape": lambda b, args, a: b("reshape", [args[0], _i64(b, a["shape"].lens())]),
    "flatten": _flatten, "slice": _slice, "step": _step, "pad": _pad, "reverse": _reverse,
    "concat": lambda b, args, a: b("concat", args, {"axis": int(a.get("axis", 0))}),
    "gather": lambda b, args, a: b("gather", args, {"axis": int(a.get("axis", 0))}),
    "gathernd": _gathernd, "clip": _clip,
    "convert": lambda b, args, a: b("cast", args, {"to": b.type_named(a["target_type"])}),
    "bit_cast": lambda b, args, a: b("bit_cast", args, {"to": b.type_named(a["target_type"])}),
    "convolution": _convolution("conv"), "quant_convolution": _convolution("conv_integer"),
    "convolution_backwards": _convolution("conv_transpose"), "pooling": _pooling,
    "softmax": _softmax("softmax"), "logsoftmax": _softmax("log_softmax"),
    "reduce_sum": _reduce("reduce_sum"), "reduce_mean": _reduce("reduce_mean"),
    "reduce_max": _reduce("reduce_max"), "reduce_min": _reduce("reduce_min"),
    "reduce_prod": _reduce("reduce_prod"), "reduce_all": _reduce_bool("reduce_min"),
    "reduce_any": _reduce_bool("reduce_max"),
    "argmax": _arg("arg_max"), "argmin": _arg("arg_min"), "topk": _topk,
    "elu": lambda b, args, a: b("elu", args, {"alpha": float(a.get("alpha", 1.0))}),
    "leaky_relu": lambda b, args, a: b("leaky_relu", args, {"alpha": float(a.get("alpha", 0.01))}),
    "lrn": lambda b, args, a: b("lrn", args, {
        "alpha": float(a.get("alpha", 1e-4)), "beta": float(a.get("beta", 0.75)),
        "bias": float(a.get("bias", 1)), "size": int(a.get("size", 1))}),
    "isinf": lambda b, args, a: b("is_inf", args),
    "fmod": lambda b, args, a: b("mod", args, {"fmod": True}),
    "mod": lambda b, args, a: b("mod", args),
    "sqdiff": _sqdiff, "rsqrt": _rsqrt, "log2": lambda b, args, a: b("div", [
        b("log", args), b.literal(np.array(np.log(2), b.dtype(args[0])))]),
    "prefix_scan_sum": _scan, "nonzero": _nonzero, "onehot": _onehot,
    "quantizelinear": _quantize("quantize_linear"),
    "dequantizelinear": _quantize("dequantize_linear"),
    **{f"scatter_{kind}": _scatter("scatter_elements", kind)
       for kind in ("none", "add", "mul", "min", "max")},
    **{f"scatternd_{kind}": _scatter("scatter_nd", kind)
       for kind in ("none", "add", "mul", "min", "max")},
}

# ---- macros: ops that MIGraphX builds of several


def _gemm(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("gemm", args, {"alpha": float(a.get("alpha", 1)), "beta": float(a.get("beta", 1)),
                            "trans_a": bool(a.get("transA", a.get("trans_a", False))),
                            "trans_b": bool(a.get("transB", a.get("trans_b", False)))})


def _tile(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    return b("tile", [args[0], _i64(b, a["repeats"])])


def _pointwise(name: str) -> Row:
    def row(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
        axis = a.get("broadcasted_axis")
        if axis is not None:
            ranks = [len(b.lens(arg)) for arg in args]
            short = 0 if ranks[0] < ranks[1] else 1
            attributes = {"axis": axis, "out_lens": b.lens(args[1 - short])}
            # The longer operand comes first, as MIGraphX orders them.
            args = [args[1 - short], _broadcast(b, [args[short]], attributes)]
        return build(b, name, args, {})
    return row


def _rotary_embedding(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    """x [batch, heads, sequence, size], positions, tables of cosines and sines [positions, size / 2].
    Positions of each token, or of the first one, in each sequence or in all."""
    x, positions, cos, sin = args
    batch, _, tokens, _ = b.lens(x)
    if int(np.prod(b.lens(positions))) == batch * tokens and tokens > 1:
        at = b("reshape", [positions, _i64(b, [batch, tokens])])
    else:
        at = _expand(b, b("reshape", [positions, _i64(b, [-1, 1])]), [batch, tokens])
        steps = np.arange(tokens, dtype=b.dtype(at))
        at = b("add", [at, b.literal(steps)])
    return b("rotary_embedding", [x, cos, sin, b("cast", [at], {"to": "i64"})],
             {"interleaved": bool(a.get("interleaved", False))})


def _bias_uint8(b: Builder, args: list[Any], a: dict[str, Any]) -> Any:
    """u8 values as i8, and the difference to their zero point, or the shifted values themselves."""
    x, bias = args
    has_bias = bool(a.get("has_bias", False))
    if b.type(x) == "u8":
        shift = b.literal(np.array(-128, np.int32))

        def shifted(value: Any) -> Any:
            return b("cast", [b("add", [b("cast", [value], {"to": "i32"}), shift])], {"to": "i8"})

        x = shifted(x)
        bias = shifted(bias) if has_bias else x
    return [x, b("sub", [x, bias]) if has_bias else bias]


_POINTWISE = ("add div logical_and logical_or logical_xor bitwise_and mul pow prelu sqdiff sub").split()

MACROS: dict[str, Row] = {
    **{name: _pointwise(name) for name in _POINTWISE},
    "rotary_embedding": _rotary_embedding, "bias_uint8": _bias_uint8,
    "gemm": _gemm, "tile": _tile,
    "einsum": lambda b, args, a: b("einsum", args, {"equation": str(a["equation"])}),
    "gelu": lambda b, args, a: b("gelu", args),
    "gelu_erf": lambda b, args, a: b("gelu", args),
    "celu": lambda b, args, a: b("celu", args, {"alpha": float(a.get("alpha", 1.0))}),
    "batchnorm": lambda b, args, a: b("batch_normalization", args,
                                      {"epsilon": float(a.get("epsilon", 1e-5))}),
    "mean_variance_normalization": lambda b, args, a: b(
        "mean_variance_normalization", args, {"axes": _ints(a.get("axes", [0, 2, 3]))}),
}


def _checked(row: Row, b: Builder, name: str, args: list[Any], attributes: dict[str, Any]) -> Any:
    noted = _Attributes(attributes)
    made = row(b, args, noted)
    noted.check(name)
    return made


def build(b: Builder, name: str, args: list[Any], attributes: dict[str, Any]) -> Any:
    """Adds the op of MIGraphX; its values."""
    if name in ROWS:
        return _checked(ROWS[name], b, name, args, attributes)
    if name in SAME:
        return _checked(lambda b, args, a: b(SAME[name], args), b, name, args, attributes)
    if name in b.names():
        return b.all(name, args, attributes)
    if name in MACROS:
        return _checked(MACROS[name], b, name, args, attributes)
    known = sorted({*ROWS, *SAME, *MACROS})
    raise InvalidArgument(f"unknown op {name!r}: MIGraphX's {', '.join(known)}, or one of lathe's",
                          reason="unknown_name")


def build_macro(b: Builder, name: str, args: list[Any], attributes: dict[str, Any]) -> Any:
    """Adds the macro; its values. Ops of the same name serve where there is no macro."""
    if name in MACROS:
        return _checked(MACROS[name], b, name, args, attributes)
    return build(b, name, args, attributes)
