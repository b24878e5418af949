# SPDX-License-Identifier: MIT
"""Compares operators of com.microsoft and old opsets with ONNX Runtime: one model per row, random inputs."""

import sys

import numpy as np

from contrib_models import I8, RANDOM, U8, codes, f32, i32, quantized, run, scale, verify


def attention(mask=None, past=False, extra=(), **attributes):
    """com.microsoft.Attention of two heads of size 4: batch 2, 3 tokens, 2 in the KV cache."""
    inputs = [f32(2, 3, 8), f32(8, 24), f32(24), mask]
    inputs.append(f32(2, 2, 2, 2, 4) if past else None)
    inputs += list(extra)
    return inputs, dict(num_heads=2, **attributes), 2 if past else 1


# name, operator, inputs (None: absent), attributes, outputs (number or indices), and their values if
# ONNX Runtime's CPU provider does not have the operator
def rows():
    yield "bias_gelu", "BiasGelu", [f32(2, 8), f32(8)], {}, 1
    yield "fast_gelu", "FastGelu", [f32(2, 8)], {}, 1
    yield "fast_gelu_bias", "FastGelu", [f32(2, 8), f32(8)], {}, 1
    yield "gelu", "Gelu", [f32(2, 8)], {}, 1
    yield "quick_gelu", "QuickGelu", [f32(2, 8)], {"alpha": 1.5}, 1
    for name in ("Relu", "Tanh", "Sigmoid"):
        yield f"fused_conv_{name}", "FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3)], \
            {"activation": name, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}, 1
    yield "fused_conv_clip", "FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3)], \
        {"activation": "Clip", "activation_params": [-0.5, 0.5]}, 1
    yield "fused_conv_sum", "FusedConv", \
        [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3), f32(1, 3, 3, 3)], {"activation": "Relu"}, 1
    yield "fused_gemm", "FusedGemm", [f32(2, 3), f32(4, 3), f32(4)], \
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2}, 1
    yield "fused_matmul", "FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], \
        {"transA": 1, "transB": 1, "alpha": 0.3}, 1
    yield "fused_matmul_batch", "FusedMatMul", [f32(4, 2, 3, 5), f32(2, 3, 5, 6)], \
        {"transBatchA": 1}, 1
    yield "fused_matmul_both", "FusedMatMul", [f32(4, 2, 3, 5), f32(2, 3, 4, 6)], \
        {"transBatchA": 1, "transA": 1}, 1
    yield "skip_layer_norm", "SkipLayerNormalization", \
        [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)], {"epsilon": 1e-5}, 4
    yield "skip_layer_norm_broadcast", "SkipLayerNormalization", \
        [f32(2, 3, 8), f32(1, 3, 8), f32(8), f32(8)], {"epsilon": 1e-5}, 1
    yield "skip_rms_norm", "SkipSimplifiedLayerNormalization", \
        [f32(2, 3, 8), f32(2, 3, 8), f32(8)], {"epsilon": 1e-5}, (0, 3)
    for mask, name in ((None, "plain"), (i32(2, 3), "lengths"),
                       (i32(3, 2, 1, 0), "between"), (i32([1, 1, 0], [1, 1, 1]), "raw")):
        inputs, attributes, outputs = attention(mask)
        yield f"attention_{name}", "Attention", inputs, attributes, outputs
    inputs, attributes, outputs = attention(unidirectional=1, past=True)
    yield "attention_causal_past", "Attention", inputs, attributes, outputs
    inputs, attributes, outputs = attention(extra=[f32(2, 2, 3, 3)], scale=0.7)
    yield "attention_bias", "Attention", inputs, attributes, outputs
    ids = RANDOM.integers(0, 8, (2, 3)).astype(np.int32)
    tables = [f32(8, 4), f32(6, 4), f32(8, 4), f32(4), f32(4)]
    yield "embed", "EmbedLayerNormalization", [ids, ids, *tables], {}, 2
    yield "embed_mask", "EmbedLayerNormalization", \
        [ids, ids, *tables, i32([1, 1, 0], [1, 1, 1])], {"epsilon": 1e-5}, 2
    yield "embed_positions", "EmbedLayerNormalization", \
        [ids, None, *tables[:2], None, *tables[3:], None, i32([2, 1, 0], [3, 4, 5])], {}, 2
    positions = RANDOM.integers(0, 6, (2, 3)).astype(np.int64)
    yield "rotary", "RotaryEmbedding", [f32(2, 3, 8), positions, f32(6, 2), f32(6, 2)], \
        {"num_heads": 0}, 1
    yield "rotary_offset", "RotaryEmbedding", \
        [f32(2, 2, 3, 4), np.array([2], np.int64), f32(6, 2), f32(6, 2)], {"interleaved": 1}, 1
    for kind, zero in ((np.uint8, U8), (np.int8, I8)):
        name = np.dtype(kind).name
        out = [scale(0.047), zero]
        a = quantized(kind, zero, 2, 3, 4, 4)
        for word in ("Add", "Mul"):
            yield f"qlinear_{word}_{name}", f"QLinear{word}", [*a, *quantized(kind, zero, 4), *out], {}, 1
        yield f"qlinear_sigmoid_{name}", "QLinearSigmoid", [*a, scale(0.004), zero], {}, 1
        yield f"qlinear_leaky_{name}", "QLinearLeakyRelu", [*a, *out], {"alpha": 0.1}, 1
        yield f"qlinear_global_pool_{name}", "QLinearGlobalAveragePool", [*a, *out], {}, 1
        yield f"qlinear_global_pool_last_{name}", "QLinearGlobalAveragePool", [*a, *out], \
            {"channels_last": 1}, 1
        yield f"qlinear_pool_{name}", "QLinearAveragePool", [*a, *out], {"kernel_shape": [2, 2]}, 1
        yield f"qlinear_concat_{name}", "QLinearConcat", \
            [*out, *quantized(kind, zero, 2, 3), *quantized(kind, zero, 2, 2)], {"axis": 1}, 1
        yield f"qlinear_softmax_{name}", "QLinearSoftmax", \
            [*quantized(kind, zero, 2, 5), scale(1 / 256), np.array(np.iinfo(kind).min, kind)], {"opset": 13, "axis": -1}, 1
    yield "dynamic_quantize_matmul", "DynamicQuantizeMatMul", \
        [f32(2, 3, 8), codes(np.int8, 8, 4), np.full(4, 0.02, np.float32), np.zeros(4, np.int8), f32(4)], {}, 1
    yield "matmul_integer_to_float", "MatMulIntegerToFloat", \
        [codes(np.uint8, 3, 8), codes(np.uint8, 8, 4), scale(0.02), scale(0.03), U8, U8, f32(4)], {}, 1
    packed = codes(np.uint8, 5, 2, 8)
    yield "matmul_4_bits", "MatMulNBits", [f32(2, 32), packed, f32(10)], \
        {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1
    yield "matmul_4_bits_zero_bias", "MatMulNBits", \
        [f32(2, 32), packed, f32(10), codes(np.uint8, 5), None, f32(5)], \
        {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1
    yield from decoder_rows()
    yield from cache_rows()
    yield from shared_rows()
    yield from packed_rows()


def gqa(capacity, past, rows, **attributes):
    """Windowed GroupQueryAttention: 4 query heads, 2 KV heads of size 16, `past` and `rows` tokens."""
    total = past + rows
    return [f32(1, rows, 64), f32(1, rows, 32), f32(1, rows, 32), f32(1, 2, capacity, 16), f32(1, 2, capacity, 16),
            i32(total - 1), np.array(total, np.int32), f32(64, 8), f32(64, 8)], \
        dict(num_heads=4, kv_num_heads=2, do_rotary=1, sliding_window_cache=1, **attributes)


def gqa_codes(bits, per_channel, past, rows, batch=1, **attributes):
    """GroupQueryAttention with a quantised KV cache: 4 query heads, 2 KV heads of size 16."""
    kind, size = (np.int8, 16) if bits == 8 else (np.uint8, 8)
    count = 32 if per_channel else 1
    inputs = [f32(batch, rows, 64), f32(batch, rows, 32), f32(batch, rows, 32)]
    inputs += [codes(kind, batch, 2, past, size) for _ in range(2)]
    total = past + rows
    inputs += [i32(*[total - 1] * batch), np.array(total, np.int32), f32(16, 8), f32(16, 8), None, None, None]
    inputs += [(np.abs(f32(count)) + 0.5) / (50 if bits == 8 else 3) for _ in range(2)]
    how = "PER_CHANNEL" if per_channel else "PER_TENSOR"
    return inputs, dict(num_heads=4, kv_num_heads=2, do_rotary=1, k_quant_type=how, v_quant_type=how,
                        kv_cache_bit_width=bits, **attributes)


# Quantised KV caches, and KV caches with capacity for more tokens.
def cache_rows():
    for bits in (8, 4):
        for per_channel in (False, True):
            for past, now, batch in ((0, 5, 1), (3, 1, 2), (4, 3, 1)):
                inputs, attributes = gqa_codes(bits, per_channel, past, now, batch)
                yield f"gqa_codes_{bits}_{int(per_channel)}_{past}_{now}", "GroupQueryAttention", inputs, attributes, 3
        inputs, attributes = gqa_codes(bits, True, 6, 2, local_window_size=3, softcap=2.0, rotary_interleaved=1)
        inputs[11] = f32(4)
        yield f"gqa_codes_{bits}_window", "GroupQueryAttention", inputs, attributes, 3
        inputs, attributes = gqa_codes(bits, True, 0, 4)
        inputs[10] = f32(1, 4, 4, 4)
        yield f"gqa_codes_{bits}_bias", "GroupQueryAttention", inputs, attributes, 3
    inputs, attributes = gqa_codes(8, True, 4, 2, local_window_size=4, sliding_window_cache=1)
    inputs[3:5] = [codes(np.int8, 1, 2, 6, 16) for _ in range(2)]
    yield "gqa_codes_sliding", "GroupQueryAttention", inputs, attributes, 3
    for past, now in ((0, 6), (8, 1), (9, 3)):
        inputs, attributes = gqa(6, past, now, local_window_size=4)
        yield f"gqa_window_bias_{past}", "GroupQueryAttention", [*inputs, None, f32(1, 4, now, past + now)], attributes, 3
    for past, rows in ((0, 3), (2, 1)):
        room = [f32(2, 2, 6, 4), f32(2, 2, 6, 4)]
        yield f"multi_head_room_{past}", "MultiHeadAttention", \
            [f32(2, rows, 8), f32(2, rows, 8), f32(2, rows, 8), None, None, None, *room, i32(past)], {"num_heads": 2}, 3
    room = [f32(4, 2, 6, 4), f32(4, 2, 6, 4)]
    beams = RANDOM.integers(0, 2, (2, 2, 6)).astype(np.int32)
    yield "multi_head_beams", "MultiHeadAttention", \
        [f32(4, 1, 8), f32(4, 1, 8), f32(4, 1, 8), None, None, None, *room, i32(3), beams], {"num_heads": 2}, 3


def attention_parts(past, rows, rotated=0):
    """Attention computed by MultiHeadAttention, with RoPE on `rotated` elements of each head."""
    x, weights, bias, cache = f32(2, rows, 8), f32(8, 48), f32(48), f32(2, 2, 2, past, 8)
    query, key, value = np.split((x.reshape(-1, 8) @ weights + bias).reshape(2, rows, 48), 3, axis=2)
    if rotated:
        angles = np.arange(past, past + rows)[:, None] * 10000 ** (-np.arange(0, rotated, 2) / rotated)
        tables = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        ids = np.tile(np.arange(rows, dtype=np.int64), (2, 1))
        attributes = {"num_heads": 2, "rotary_embedding_dim": rotated}
        query, key = (run("RotaryEmbedding", [heads, ids, *tables], attributes, 1)[0] for heads in (query, key))
    y, keys, values = run("MultiHeadAttention", [query, key, value, None, None, None, *cache],
                          {"num_heads": 2, "unidirectional": 1}, 3)
    return [x, weights, bias, None, cache], [y, np.stack([keys, values])]


def shared_rows():
    """Attention with a shared KV cache or with RoPE, which ONNX Runtime's CPU provider does not have."""
    plain = {"num_heads": 2, "unidirectional": 1}
    for past, rows in ((0, 3), (2, 1), (2, 3)):
        for rotated in (0, 4, 8):
            inputs, (y, present) = attention_parts(past, rows, rotated)
            more = {"do_rotary": 1} | ({"rotary_embedding_dim": rotated} if rotated == 4 else {}) if rotated else {}
            if past and rotated:
                yield f"attention_turned_{past}_{rows}_{rotated}", "Attention", inputs, {**plain, **more}, 2, [y, present]
            room = f32(2, 2, 2, 7, 8)
            room[:, :, :, :past] = inputs[4]
            full = room.copy()
            full[:, :, :, :past + rows] = present
            yield f"attention_room_{past}_{rows}_{rotated}", "Attention", [*inputs[:4], room, None, i32(past)], \
                {**plain, **more, "past_present_share_buffer": 1}, 2, [y, full]


def packed_rows():
    """Packed batches, which ONNX Runtime has for GPUs alone: computed by its MultiHeadAttention on each sequence."""
    batch, lengths = f32(3, 4, 8), [2, 4, 0]
    places = np.concatenate([np.arange(4) + 4 * i < 4 * i + length for i, length in enumerate(lengths)])
    offsets = np.argsort(~places, kind="stable").astype(np.int32).reshape(3, 4)
    begins = np.cumsum([0, *lengths], dtype=np.int32)
    yield "remove_padding", "RemovePadding", [batch, i32(*lengths)], {}, 4, \
        [batch.reshape(12, 8)[places], offsets, begins, i32(4)]
    yield "restore_padding", "RestorePadding", [batch.reshape(12, 8)[places], offsets], {}, 1, \
        [np.where(places.reshape(3, 4, 1), batch, 0)]
    heads = {"num_heads": 2, "scale": 0.7}
    query, key, value, extra = f32(6, 8), f32(6, 8), f32(6, 4), f32(3, 2, 4, 4)

    def attended(q, k, v, addend=None):
        parts = [run("MultiHeadAttention", [q[None, a:b], k[None, a:b], v[None, a:b], None, None] +
                     ([addend[i:i + 1, :, :b - a, :b - a]] if addend is not None else []), heads, 1)[0][0]
                 for i, (a, b) in enumerate(zip(begins, begins[1:])) if b > a]
        return [np.concatenate(parts)]

    rows = [offsets, begins]
    yield "packed_mha", "PackedMultiHeadAttention", [query, key, value, None, *rows], heads, 1, attended(query, key, value)
    bias = f32(20)
    yield "packed_mha_bias", "PackedMultiHeadAttention", [query, key, value, bias, *rows, extra], heads, 1, \
        attended(query + bias[:8], key + bias[8:16], value + bias[16:], extra)
    wide = f32(6, 2, 3, 4)
    yield "packed_mha_beside", "PackedMultiHeadAttention", [wide, None, None, None, *rows], heads, 1, \
        attended(*(wide[:, :, i].reshape(6, 8) for i in range(3)))
    weights, bias = f32(8, 20), f32(20)
    parts = np.split(query @ weights + bias, [8, 16], axis=1)
    yield "packed_attention", "PackedAttention", [query, weights, bias, *rows], {**heads, "qkv_hidden_sizes": [8, 8, 4]}, 1, \
        attended(*parts)


# Operators of exported decoders.
def decoder_rows():
    for dilation, activation in ((1, "silu"), (2, "none")):
        yield f"causal_conv_{activation}", "CausalConvWithState", \
            [f32(2, 6, 5), f32(6, 1, 4), f32(6), f32(2, 6, 3 * dilation)], \
            {"activation": activation, "ndim": 1, "dilation": dilation}, 2
    yield "causal_conv_bare", "CausalConvWithState", [f32(2, 6, 2), f32(6, 1, 4)], {"ndim": 1}, 2
    yield "causal_conv_last", "CausalConvWithState", [f32(2, 5, 2, 3), f32(6, 1, 3), f32(6), f32(2, 2, 2, 3)], \
        {"activation": "swish", "ndim": 1, "channels_last": 1}, 2
    for heads, kv_heads in ((4, 2), (2, 2), (2, 4)):
        for rule in ("linear", "gated", "delta", "gated_delta"):
            key_heads = min(heads, kv_heads)
            decay = -np.abs(f32(2, 5, kv_heads)) if "gated" in rule else None
            beta = np.abs(f32(2, 5, kv_heads)) / 3 if "delta" in rule else None
            yield f"linear_attention_{rule}_{heads}_{kv_heads}", "LinearAttention", \
                [f32(2, 5, heads * 4), f32(2, 5, key_heads * 4) / 2, f32(2, 5, kv_heads * 3), f32(2, kv_heads, 4, 3), decay, beta], \
                {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule}, 2
    yield "linear_attention_per_key", "LinearAttention", \
        [f32(1, 3, 8), f32(1, 3, 8) / 2, f32(1, 3, 6), None, -np.abs(f32(1, 3, 8)), np.abs(f32(1, 3, 1)) / 3], \
        {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated_delta", "scale": 1.0}, 2
    yield "linear_attention_gate", "LinearAttentionGate", [f32(2, 3, 4), f32(4), -np.abs(f32(4)), f32(2, 3, 4)], {}, 2
    for activation in ("silu", "sigmoid"):
        yield f"gated_rms_norm_{activation}", "GatedRMSNorm", [f32(2, 3, 8), f32(4), f32(2, 3, 8)], \
            {"activation": activation, "epsilon": 1e-6}, 1
    yield "gated_add", "GatedAdd", [f32(2, 3, 8), f32(2, 3, 8), f32(2, 3, 1)], {}, 1
    positions = RANDOM.integers(0, 16, (3, 2, 5)).astype(np.int64)
    for layout, section in ((0, [4, 2, 2]), (1, [4, 2, 2]), (1, [3, 3, 2])):
        yield f"mrotary_{layout}_{section[0]}", "MRotaryEmbedding", [f32(2, 5, 64), positions, f32(16, 8), f32(16, 8)], \
            {"num_heads": 2, "rotary_embedding_dim": 16, "mrope_layout": layout, "mrope_section": section}, 1
    yield "mrotary_heads", "MRotaryEmbedding", [f32(2, 2, 5, 16), positions, f32(16, 8), f32(16, 8)], \
        {"mrope_section": [8, 0, 0], "interleaved": 1}, 1
    for kind in ("relu", "gelu", "silu", "identity"):
        yield f"moe_{kind}", "MoE", [f32(2, 3, 16), f32(6, 4), f32(4, 8, 16), f32(4, 8), f32(4, 16, 8), f32(4, 16)], \
            {"k": 2, "activation_type": kind}, 1
    gates = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5}
    yield "moe_swiglu", "MoE", [f32(6, 16), f32(6, 4), f32(4, 16, 16), f32(4, 16), f32(4, 16, 8), f32(4, 16)], \
        {"k": 3, "swiglu_fusion": 1, "normalize_routing_weights": 1, **gates}, 1
    for bits in (4, 8):
        inputs = [f32(6, 32), f32(6, 4), codes(np.uint8, 4, 64, 4 * bits), np.abs(f32(4, 64, 2)) / 50, f32(4, 64),
                  codes(np.uint8, 4, 32, 4 * bits), np.abs(f32(4, 32, 2)) / 50, f32(4, 32)]
        if bits == 4:
            yield f"qmoe_{bits}", "QMoE", inputs, {"k": 2, "expert_weight_bits": bits, "block_size": 16, "swiglu_fusion": 1,
                                                   "normalize_routing_weights": 1, **gates}, 1
        inputs[3], inputs[6] = np.abs(f32(4, 64)) / 50, np.abs(f32(4, 32)) / 50
        yield f"qmoe_rows_{bits}", "QMoE", inputs, {"k": 1, "expert_weight_bits": bits, "swiglu_fusion": 1, **gates}, 1
    for capacity, past, now in ((6, 0, 6), (6, 0, 9), (6, 5, 1), (6, 8, 1), (6, 17, 1), (4, 9, 3), (4, 3, 1)):
        inputs, attributes = gqa(capacity, past, now, local_window_size=4)
        yield f"gqa_window_{capacity}_{past}_{now}", "GroupQueryAttention", inputs, attributes, 3


if __name__ == "__main__":
    sys.exit(verify("onnx-contrib", rows()))
