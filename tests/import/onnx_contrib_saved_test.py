# SPDX-License-Identifier: MIT
"""Compares operators that saved models of com.microsoft hold with ONNX Runtime, or, where its CPU provider lacks
one, with NumPy or with ONNX Runtime's operators that the documentation defines it by."""

import sys

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import helper

from contrib_models import I8, RANDOM, U8, codes, f32, i32, quantized, run, scale, verify


def i64(*values):
    return np.array(values, np.int64)


def onnx(operator, inputs, opset=21, **attributes):
    """The first result of an operator of the standard domain."""
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in zip(names, inputs)]
    graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], "g", infos,
                              [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))[0]


def first(x):
    """Channels before spatial axes."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# name, operator, inputs (None: absent), attributes, outputs (number or indices), and their values if ONNX
# Runtime's CPU provider does not have the operator
def rows():
    yield from convolution_rows()
    yield from attention_rows()
    yield from bias_rows()
    yield from weight_rows()
    yield from tensor_rows()
    yield from text_rows()


def convolution_rows():
    x, w, bias, z = f32(2, 5, 6, 4), f32(6, 2, 3, 3), f32(6), f32(2, 5, 6, 6)
    how = {"group": 2, "pads": [1, 1, 1, 1]}
    plain = last(onnx("Conv", [first(x), w, bias], **how))
    yield "nhwc_conv", "NhwcConv", [x, w, bias], how, 1, [plain]
    yield "nhwc_fused_conv", "NhwcFusedConv", [x, w, bias, z], \
        {**how, "activation": "LeakyRelu", "activation_params": [0.2]}, 1, [onnx("LeakyRelu", [plain + z], alpha=0.2)]
    for kind in (np.uint8, np.int8):
        yield f"nhwc_max_pool_{np.dtype(kind).name}", "NhwcMaxPool", [codes(kind, 2, 5, 6, 3)], \
            {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1]}, 1
    weights, scales = codes(np.int8, 3, 2, 3, 3), np.abs(f32(3)) / 20 + 0.01
    for channels_last in (0, 1):
        shape = (2, 5, 6, 2) if channels_last else (2, 2, 5, 6)
        yield f"qlinear_conv_{channels_last}", "QLinearConv", \
            [*quantized(np.uint8, U8, *shape), weights, scales, np.zeros(3, np.int8), scale(0.4), U8, codes(np.int32, 3) >> 22], \
            {"channels_last": channels_last, "pads": [1, 0, 1, 0]}, 1
    mask = (np.arange(30).reshape(1, 1, 5, 6) < 17).astype(np.int32)
    yield "max_pool_mask", "MaxpoolWithMask", [f32(2, 3, 5, 6), mask], {"kernel_shape": [2, 2], "strides": [2, 2]}, 1
    how = {"strides": [2, 1], "output_padding": [1, 0], "group": 2}
    for pads in ([0, 1, 1, 0], [1, 1, 1, 1]):
        yield f"dynamic_pads_{pads[0]}", "ConvTransposeWithDynamicPads", \
            [f32(1, 4, 3, 5), f32(4, 2, 3, 3), i64(*pads), f32(4)], how, 1
    for channels_last in (0, 1):
        for activation in (0, 1):
            x, gamma, beta = f32(2, 3, 4, 8), f32(8), f32(8)
            y = onnx("GroupNormalization", [first(x), gamma, beta], num_groups=4, epsilon=1e-3)
            y = y * sigmoid(y) if activation else y
            turn = last if channels_last else (lambda value: value)
            given = x if channels_last else first(x)
            yield f"group_norm_{channels_last}_{activation}", "GroupNorm", [given, gamma, beta], \
                {"groups": 4, "epsilon": 1e-3, "activation": activation, "channels_last": channels_last}, 1, [turn(y)]
    for shape in ((2, 8), (2, 1, 1, 8), (2, 3, 4, 8)):
        x, gamma, beta, skip, bias = f32(2, 3, 4, 8), f32(8), f32(8), f32(*shape), f32(8)
        total = x + (skip.reshape(2, 1, 1, 8) if len(shape) == 2 else skip) + bias
        y = last(onnx("GroupNormalization", [first(total), gamma, beta], num_groups=2))
        yield f"skip_group_norm_{len(shape)}_{shape[1]}", "SkipGroupNorm", [x, gamma, beta, skip, bias], \
            {"groups": 2, "activation": 1}, 2, [y * sigmoid(y), total]


def attention_rows():
    zero = np.array(0, np.int8)
    for name, kind, weight_scale, weight_zero in (("tensor", np.int8, scale(0.02), zero),
                                                  ("column", np.int8, np.abs(f32(24)) / 50, np.zeros(24, np.int8)),
                                                  ("unsigned", np.uint8, scale(0.02), U8)):
        inputs = [codes(np.uint8, 2, 3, 8), codes(kind, 8, 24), f32(24), scale(0.02), weight_scale, None, U8, weight_zero]
        yield f"qattention_{name}", "QAttention", inputs, {"num_heads": 2}, 1
        yield f"qattention_mask_{name}", "QAttention", [*inputs[:5], i32(2, 3), *inputs[6:]], {"num_heads": 2}, 1
        yield f"qattention_past_{name}", "QAttention", [*inputs, f32(2, 2, 2, 2, 4)], \
            {"num_heads": 2, "unidirectional": 1}, 2
    one = [f32(2, 1, 8), f32(2, 1, 8), f32(2, 1, 8)]
    past = [f32(2, 2, 3, 4), f32(2, 2, 3, 4)]
    room = [f32(2, 2, 6, 4), f32(2, 2, 6, 4)]
    masked = "DecoderMaskedMultiHeadAttention"
    share = {"num_heads": 2, "past_present_share_buffer": 1}
    yield "masked_heads_room", masked, [*one, None, None, *room, i32(3)], share, 3
    yield "masked_heads_bias", masked, [*one, None, f32(1, 2, 1, 4), *room, i32(3), None, None, f32(24)], share, 3
    yield "masked_heads_mask", masked, [*one, i32(1, 1, 0, 1, 1, 1, 1, 1).reshape(2, 4), None, *room, i32(3)], \
        {**share, "scale": 0.7}, 3
    beams = RANDOM.integers(0, 2, (1, 2, 6)).astype(np.int32)
    yield "masked_heads_beams", masked, [*one, None, None, *room, i32(3), i32(2), beams], share, 3
    yield "masked_heads_cross", masked, [one[0], f32(2, 2, 5, 4), f32(2, 2, 5, 4)], {"num_heads": 2}, 1
    rest = [None, None, *room, i32(3)]
    yield "masked_heads_packed", masked, [np.concatenate(one, 2), None, None, *rest], share, 3, \
        run(masked, [*one, *rest], share, 3)
    yield "masked_heads_past", masked, [*one, None, None, *past, i32(3)], {"num_heads": 2}, 3, \
        run("MultiHeadAttention", [*one, None, None, None, *past], {"num_heads": 2}, 3)
    x, weights, bias, cache, mask = f32(2, 1, 8), f32(8, 24), f32(24), f32(2, 2, 2, 3, 4), i32(1, 0, 1, 1, 1, 1, 1, 1)
    plain = run("Attention", [x, weights, bias, mask.reshape(2, 4), cache], {"num_heads": 2, "unidirectional": 1}, 2)
    yield "masked_self", "DecoderMaskedSelfAttention", [x, weights, bias, mask.reshape(2, 4), cache, None, i32(3)], \
        {"num_heads": 2}, 2, plain
    wide = f32(2, 2, 2, 6, 4)
    wide[:, :, :, :3] = cache
    full = wide.copy()
    full[:, :, :, :4] = plain[1]
    yield "masked_self_room", "DecoderMaskedSelfAttention", \
        [x, weights, bias, mask.reshape(2, 4), wide, None, i32(3)], share, 2, [plain[0], full]


def buckets(query, key, count, most, both):
    """Buckets of T5's relative positions [query, key]."""
    ahead = np.arange(key)[None, :] - np.arange(query)[:, None]
    base = np.zeros_like(ahead)
    if both:
        count //= 2
        base = (ahead > 0) * count
        distance = np.abs(ahead)
    else:
        distance = np.maximum(-ahead, 0)
    exact = count // 2
    far = exact + (np.log(np.maximum(distance, 1) / exact) / np.log(most / exact) * (count - exact)).astype(np.int64)
    return base + np.where(distance < exact, distance, np.minimum(far, count - 1))


def bias_rows():
    for both in (0, 1):
        table = f32(16, 2)
        heads = table.reshape(2, 16)  # the elements are stored head by head
        y = heads[:, buckets(23, 29, 16, 20, both)][None]
        yield f"relative_position_bias_{both}", "RelativePositionBias", [table, i64(23), i64(29)], \
            {"max_distance": 20, "is_bidirectional": both}, 1, [y]
    query, bias, positions, weight, gate_bias, eco = \
        f32(2, 5, 12), f32(12), f32(1, 3, 5, 5), f32(4, 8), f32(8), f32(1, 3, 1, 1)
    heads = (query + bias).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ weight + gate_bias).reshape(2, 3, 5, 2, 4).sum(-1))
    gate = gates[..., :1] * (gates[..., 1:] * eco - 1) + 2
    yield "gated_position_bias", "GatedRelativePositionBias", [query, bias, positions, weight, gate_bias, eco], \
        {"num_heads": 3}, 1, [gate * positions]
    for axis, shape in ((3, (2, 1, 1, 5)), (3, (1, 3, 4, 5)), (2, (2, 3, 4, 5))):
        data, extra = f32(2, 3, 4, 5), f32(*shape)
        flat = (data + extra).reshape(2, 3, 4, 5) if axis == 3 else (data + extra).reshape(2, 3, 20)
        yield f"bias_softmax_{axis}_{shape[1]}", "BiasSoftmax", [data, extra], {"axis": axis, "is_inner_broadcast": 1}, 1, \
            [onnx("Softmax", [flat], axis=-1).reshape(2, 3, 4, 5)]
    angles, q, k = f32(2, 3, 4), f32(2, 5, 3, 4).astype(np.float16), f32(2, 5, 3, 4).astype(np.float16)
    sin, cos = (f(angles).astype(np.float16)[:, None] for f in (np.sin, np.cos))
    yield "gemma_rotary", "GemmaRotaryEmbedding", [angles, q, k, k, q], {}, 2, [q * cos + k * sin, k * cos + q * sin]
    a, b = f32(2, 3, 4), f32(2, 5, 4)
    product = run("FusedMatMul", [a, b], {"transB": 1, "alpha": 0.5}, 1)[0]
    for name, extra in (("Relu", {}), ("Elu", {"alpha": 0.4}), ("Softmax", {"axis": -1}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4})):
        yield f"matmul_{name}", "FusedMatMulActivation", [a, b], \
            {"transB": 1, "alpha": 0.5, "activation": name, **{f"activation_{key}": value for key, value in extra.items()}}, 1, \
            [onnx(name, [product], **extra)]
    tables = [*quantized(np.uint8, U8, 8, 4), *quantized(np.uint8, U8, 6, 4), *quantized(np.uint8, U8, 3, 4),
              *quantized(np.uint8, U8, 4), *quantized(np.uint8, U8, 4)]
    ids, segments = (RANDOM.integers(0, n, (2, 3)).astype(np.int32) for n in (8, 3))
    for name, mask in (("bare", None), ("mask", i32(1, 1, 0, 1, 1, 1).reshape(2, 3))):
        yield f"qembed_{name}", "QEmbedLayerNormalization", \
            [ids, segments, *tables[0::3], mask, *tables[1::3], *tables[2::3]], {"epsilon": 1e-5}, 2


def e2m1(nibbles):
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[nibbles & 7] * np.where(nibbles & 8, -1, 1)


def weight_rows():
    for kind in (0, 1):
        for n, k, block in ((3, 32, 16), (5, 24, 16), (3, 15, 32)):
            a, packed = f32(2, k), codes(np.uint8, (n * k + 1) // 2)
            yield f"bnb4_{kind}_{k}", "MatMulBnb4", [a, packed, np.abs(f32((n * k + block - 1) // block))], \
                {"K": k, "N": n, "block_size": block, "quant_type": kind}, 1
    packed, scales, bias = codes(np.uint8, 5, 16), (codes(np.uint8, 5, 2) & 0x3F) + 16, f32(5).astype(np.float16)
    a, factor = f32(2, 3, 32).astype(np.float16), scale(0.25)
    values = np.stack([packed & 15, packed >> 4], -1).reshape(5, 32)
    spread = np.repeat(scales.view(ml_dtypes.float8_e4m3fn).astype(np.float32), 16, 1) * factor
    weights = (e2m1(values) * spread).astype(np.float16)
    y = a.astype(np.float32) @ weights.T.astype(np.float32) + bias
    yield "fp4_weight", "MatMulBlockQuantizedFp4Weight", [a, packed, scales, factor, None, bias], {}, 1, [y.astype(np.float16)]
    b, scales = f32(5, 24).astype(ml_dtypes.float8_e4m3fn), np.abs(f32(5, 2)) + 0.1
    weights = b.astype(np.float32) * np.repeat(scales, 16, 1)[:, :24]
    a = f32(2, 24).astype(np.float16)
    for given in (None, scale(0.05)):
        x = a if given is None else (a / given).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * given
        y = x.astype(np.float16).astype(np.float32) @ weights.astype(np.float16).astype(np.float32).T
        yield f"fp8_weight_{given}", "MatMulBlockQuantizedFp8Weight", [a, b, scales, given], {"block_size": 16}, 1, \
            [y.astype(np.float16)]
    x, skip, gamma = f32(2, 3, 32), f32(2, 3, 32), f32(32)
    shape = {"K": 32, "bits": 4, "block_size": 16}
    weights = [[codes(np.uint8, n, 2, 8), np.abs(f32(n, 2)) / 10, f32(n)] for n in (5, 3, 3)]
    for name, given in (("bare", [x, None, None]), ("norm", [x, None, gamma]), ("skip", [x, skip, gamma])):
        normal, total = x, None
        if name == "norm":
            normal = onnx("RMSNormalization", [x, gamma], opset=23, epsilon=1e-5)
        elif name == "skip":
            normal, total = run("SkipSimplifiedLayerNormalization", [x, skip, gamma], {"epsilon": 1e-5}, [0, 3])
        outputs = [run("MatMulNBits", [normal, w[0], w[1], None, None, w[2]], {**shape, "N": len(w[2])}, 1)[0] for w in weights]
        if name != "bare":
            values = outputs if total is None else [*outputs, total]
            yield f"qkv_{name}", "MatMulNBitsQkv", [*given, *(part for w in weights for part in w)], \
                {**shape, "Nq": 5, "Nkv": 3, "epsilon": 1e-5}, len(values), values
        gate, up = outputs[1:]
        values = [gate * sigmoid(gate) * up] + ([] if total is None else [total])
        yield f"mlp_{name}", "MatMulNBitsMlp", [*given, *weights[1], *weights[2]], \
            {**shape, "N": 3, "activation": "silu", "epsilon": 1e-5}, len(values), values
    for name, signed, columns, direction in (("forward", True, False, "forward"), ("columns", True, True, "reverse"),
                                             ("both", False, False, "bidirectional")):
        ways, kind = 2 if direction == "bidirectional" else 1, np.int8 if signed else np.uint8
        size = (ways, 16) if columns else (ways,)
        parts = [np.full(size, 0.01, np.float32), np.full(size, 0 if signed else 128, kind)]
        yield f"quantize_lstm_{name}", "DynamicQuantizeLSTM", \
            [f32(1, 2, 6), codes(kind, ways, 6, 16), codes(kind, ways, 4, 16), f32(ways, 32), None, None, f32(ways, 2, 4), None,
             *parts, *parts], {"hidden_size": 4, "direction": direction}, 3
    for name, given in (("bias", codes(np.int32, 4) >> 20), ("bare", None)):
        parts = [*quantized(np.uint8, U8, 3, 5)[:1], scale(0.03), U8, codes(np.int8, 4, 5), np.abs(f32(4)) / 20 + 0.01,
                 np.zeros(4, np.int8), given]
        yield f"qgemm_{name}", "QGemm", parts, {"transB": 1, "alpha": 0.5}, 1
        yield f"qgemm_codes_{name}", "QGemm", [*parts, scale(0.5), U8], {"transB": 1}, 1
    yield "qgemm_transposed", "QGemm", [codes(np.uint8, 5, 3), scale(0.03), U8, codes(np.uint8, 5, 4), scale(0.02), U8], \
        {"transA": 1}, 1
    a, b = codes(np.int16, 2, 3), codes(np.int16, 3, 4)
    yield "matmul_integer_16", "MatMulInteger16", [a, b], {}, 1, [a.astype(np.int32) @ b.astype(np.int32)]
    a, b = codes(np.uint8, 2, 3), codes(np.int8, 3)
    yield "mul_integer", "MulInteger", [a, U8, b, I8], {}, 1, [(a.astype(np.int32) - 120) * (b.astype(np.int32) + 3)]
    yield "reduce_sum_integer", "ReduceSumInteger", [a], {"axes": [1], "keepdims": 0}, 1, [a.sum(1, dtype=np.int32)]


def tensor_rows():
    for values in ((i64(2), i64(11), i64(3)), (i64(0), i64(4)), (np.array(5, np.float32), np.array(1, np.float32), np.array(-1.5, np.float32))):
        yield f"range_{len(values)}_{values[0].dtype}", "Range", [*values], {}, 1
    yield "unique", "Unique", [np.array([2, 1, 1, 3, 4, 3, 2], np.float32)], {}, 3
    for mode in ("constant", "reflect", "edge"):
        yield f"pad_{mode}", "Pad", [f32(2, 3), i64(0, 1, 1, 2), scale(1.5)], {"mode": mode}, 1
    yield "pad_matrix", "Pad", [f32(2, 3), i64([0, 1, 1, -1])], {}, 1
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "reflection"):
            yield f"grid_{mode}_{padding}", "GridSample", [f32(2, 3, 4, 5), f32(2, 3, 3, 2)], \
                {"mode": mode, "padding_mode": padding}, 1
    for axis in (0, -1, 2):
        yield f"expand_dims_{axis}", "ExpandDims", [f32(2, 3), np.array(axis, np.int32)], {}, 1
    for metric in ("euclidean", "sqeuclidean"):
        yield f"cdist_{metric}", "CDist", [f32(4, 3), f32(5, 3)], {"metric": metric}, 1
        yield f"cdist_f64_{metric}", "CDist", [f32(4, 3).astype(np.float64), f32(5, 3).astype(np.float64)], {"metric": metric}, 1
    yield "inverse", "Inverse", [f32(2, 4, 4)], {}, 1
    weights, ids = f32(7, 3), RANDOM.integers(0, 7, (2, 4))
    yield "torch_embedding", "TorchEmbedding", [weights, ids, np.array(1), np.array(False)], {}, 1, [weights[ids]]
    x = f32(3, 4, 6)
    for count in (1, 2, 3):
        spectrum = np.fft.rfftn(x, axes=range(3 - count, 3))
        pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
        how = {"signal_ndim": count, "onesided": 1, "normalized": 0}
        yield f"rfft_{count}", "Rfft", [x], how, 1, [pairs]
        yield f"irfft_{count}", "Irfft", [pairs], how, 1, [x]
    a, b = f32(2, 3, 2), f32(3, 2)
    product = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + 1j * b[..., 1])
    yield "complex_mul", "ComplexMul", [a, b], {}, 1, [np.stack([product.real, product.imag], -1).astype(np.float32)]
    product = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] - 1j * b[..., 1])
    yield "complex_mul_conj", "ComplexMulConj", [a, b], {}, 1, [np.stack([product.real, product.imag], -1).astype(np.float32)]
    ids = np.array([[0, 1, 2, 3, 1, 2], [4, 4, 4, 4, 4, 4], [0, 1, 0, 1, 0, 3]])
    for size in (1, 2, 3, 6):
        yield f"ngram_{size}", "NGramRepeatBlock", [ids, f32(3, 5)], {"ngram_size": size}, 1
    yield "ngram_short", "NGramRepeatBlock", [ids[:, :2].copy(), f32(3, 5)], {"ngram_size": 4}, 1, None
    for dim, size, step in ((-1, 3, 2), (0, 2, 1), (1, 2, 3)):
        yield f"unfold_{size}_{step}", "UnfoldTensor", [f32(4, 5, 6)], {"dim": dim, "size": size, "step": step}, 1
    yield "trilu", "Trilu", [f32(2, 4, 5), np.array(1)], {"upper": 0}, 1
    yield "gather_nd", "GatherND", [f32(2, 3, 4), i64([[0, 1], [1, 2]][0], [1, 2])], {}, 1
    for mode in ("bilinear", "nearest"):
        for size in ([3, 4], [1, 1]):
            rois = np.array([[0.1, 0.2, 0.9, 0.7], [0.5, 1.2, -0.1, 0], [0, 0, 1, 1]], np.float32)
            yield f"crop_{mode}_{size[0]}", "CropAndResize", [f32(2, 3, 6, 7), rois, i32(1, 0, 1), i32(*size)], \
                {"mode": mode, "extrapolation_value": -2.0}, 1
    data, bias, residual = f32(2, 3), f32(3), f32(2, 3)
    yield "bias_dropout", "BiasDropout", [data, bias, residual, scale(0.5)], {}, 2, \
        [data + bias + residual, np.ones((2, 3), bool)]
    bad = np.array([1, np.inf], np.float32)
    for name, values, how, expected in (("yes", [data, bias], {}, True), ("inf", [data, bad], {}, False),
                                        ("nan_only", [data, bad], {"isnan_only": 1}, True)):
        yield f"all_finite_{name}", "IsAllFinite", values, how, 1, [np.array(expected)]
    streams, flat = f32(2, 3, 4, 8), f32(2, 3, 32)
    for count in (8, 32):
        yield f"branchwise_rms_norm_{count}", "BranchwiseRMSNorm", [flat, f32(count)], \
            {"num_branches": 4, "epsilon": 1e-5}, 1
    yield "branchwise_rms_norm_grouped", "BranchwiseRMSNorm", [streams, f32(4, 8)], {"epsilon": 1e-5}, 1
    for name, mix in (("each", f32(2, 3, 4)), ("column", f32(2, 3, 4, 1)), ("all", f32(2, 3, 4, 8))):
        yield f"pre_mix_{name}", "HyperConnectionPreMix", [streams, mix], {"reduction_scale": 0.5}, 1
        yield f"post_mix_{name}", "HyperConnectionPostMix", [streams, f32(2, 3, 8), mix, f32(2, 3, 4, 4)], {}, 1
    yield "pre_mix_flat", "HyperConnectionPreMix", [flat, f32(2, 3, 32)], {"num_branches": 4}, 1
    yield "post_mix_flat", "HyperConnectionPostMix", [flat, f32(2, 3, 8), f32(2, 3, 4)], {"num_branches": 4}, 1
    yield "engram_gate", "EngramGate", \
        [streams, f32(2, 3, 4, 8), f32(2, 3, 8), f32(4, 8), f32(4, 8), f32(4, 8)], {"epsilon": 1e-5}, 2
    yield "scaled_silu", "ScaledSiLU", [data], {"alpha": 1.5}, 1
    yield "scaled_silu_input", "ScaledSiLU", [data, scale(0.5)], {}, 1


def text_rows():
    def strings(*values):
        return np.array(values, dtype=object)

    how = {"mark": 0, "pad_value": "#", "mincharnum": 1}
    words = strings("Hello World", "I love  science !", "")
    yield "tokenizer", "Tokenizer", [words], {**how, "separators": [" "]}, 1
    yield "tokenizer_marks", "Tokenizer", [words], {**how, "separators": [" "], "mark": 1}, 1
    yield "tokenizer_long", "Tokenizer", [words], {**how, "separators": [" "], "mincharnum": 2}, 1
    yield "tokenizer_characters", "Tokenizer", [strings("aéb", "x\ny", "a")], {**how, "separators": [""], "mark": 1}, 1
    yield "tokenizer_dot", "Tokenizer", [strings("aéb", "x\ny", "a")], {**how, "tokenexp": "."}, 1
    yield "tokenizer_both", "Tokenizer", [strings("a1b22c", "aabaab ab")], {**how, "separators": ["a|ab", "[0-9]"]}, 1
    yield "tokenizer_longest", "Tokenizer", [strings("abcab", "xx")], {**how, "tokenexp": "a|ab|abc"}, 1
    yield "tokenizer_optional", "Tokenizer", [strings("a1b22c", "  12")], {**how, "tokenexp": "[0-9]*"}, 1
    yield "tokenizer_empty_match", "Tokenizer", [strings("abcab")], {**how, "separators": ["x*"]}, 1
    yield "tokenizer_matrix", "Tokenizer", [strings("a b", "c", "d", "e f g").reshape(2, 2)], {**how, "separators": [" "]}, 1


if __name__ == "__main__":
    sys.exit(verify("onnx-contrib-saved", rows()))
