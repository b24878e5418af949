# SPDX-License-Identifier: MIT
"""Writes wrong Hugging Face folders and GGUF files."""

import json
import struct

POINTER = b"version https://git-lfs" b".github.com/spec/v1\noid sha256:0\nsize 1\n"
CONFIG = {"model_type": "llama", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 2, "vocab_size": 6, "max_position_embeddings": 16, "tie_word_embeddings": True}
LAYER = "model.layers.0."
SHAPES = {"model.embed_tokens.weight": [6, 4], "model.norm.weight": [4],
          LAYER + "input_layernorm.weight": [4], LAYER + "post_attention_layernorm.weight": [4],
          **{f"{LAYER}self_attn.{p}_proj.weight": [4, 4] for p in "qkvo"},
          LAYER + "mlp.gate_proj.weight": [8, 4], LAYER + "mlp.up_proj.weight": [8, 4],
          LAYER + "mlp.down_proj.weight": [4, 8]}


EXPERT = LAYER + "block_sparse_moe."
MIXTRAL = {**{name: shape for name, shape in SHAPES.items() if ".mlp." not in name}, EXPERT + "gate.weight": [2, 4],
           **{f"{EXPERT}experts.{i}.w{j}.weight": [4, 8] if j == 2 else [8, 4] for i in (0, 1) for j in (1, 2, 3)}}
WHISPER_LAYER = "model.decoder.layers.0."
WHISPER = {"model.decoder.embed_tokens.weight": [6, 4], "model.decoder.embed_positions.weight": [16, 4],
           **{f"{name}layer_norm.{part}": [4] for part in ("weight", "bias")
              for name in ("model.decoder.", WHISPER_LAYER + "self_attn_", WHISPER_LAYER + "final_")},
           **{f"{WHISPER_LAYER}self_attn.{p}_proj.weight": [4, 4] for p in ("q", "k", "v", "out")},
           WHISPER_LAYER + "fc1.weight": [8, 4], WHISPER_LAYER + "fc2.weight": [4, 8]}
RECURRENT = LAYER + "linear_attn."
QWEN = {"model_type": "qwen3_5_text", "num_key_value_heads": 2, "head_dim": 2, "layer_types": ["linear_attention"],
        "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 2, "linear_value_head_dim": 2}
QWEN_SHAPES = {**{name: shape for name, shape in SHAPES.items() if ".self_attn." not in name},
               RECURRENT + "in_proj_qkv.weight": [8, 4], RECURRENT + "conv1d.weight": [8, 1, 4],
               RECURRENT + "A_log": [2], RECURRENT + "dt_bias": [2], RECURRENT + "norm.weight": [2],
               **{f"{RECURRENT}in_proj_{p}.weight": [4 if p == "z" else 2, 4] for p in "abz"},
               RECURRENT + "out_proj.weight": [4, 4]}
LFM2 = {"model_type": "lfm2", "num_key_value_heads": 2, "layer_types": ["conv"]}
LFM2_SHAPES = {"model.embed_tokens.weight": [6, 4], "model.embedding_norm.weight": [4],
               LAYER + "operator_norm.weight": [4], LAYER + "ffn_norm.weight": [4],
               **{f"{LAYER}feed_forward.w{i}.weight": [4, 8] if i == 2 else [8, 4] for i in (1, 2, 3)},
               LAYER + "conv.in_proj.weight": [12, 4], LAYER + "conv.out_proj.weight": [4, 4],
               LAYER + "conv.conv.weight": [4, 1, 3]}
HEADS = [40, 38, 4, 40]  # of layers, the last of another kind
GEMMA4 = {"model_type": "gemma4_text", "num_hidden_layers": len(HEADS), "num_key_value_heads": 1, "head_dim": 4,
          "hidden_size_per_layer_input": 0, "sliding_window": 4, "max_position_embeddings": 2**31 - 1,
          "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
          "per_layer_config": {str(i): {"head_dim": size} for i, size in enumerate(HEADS)}}
GEMMA4_SHAPES = {name.replace(LAYER, f"model.layers.{i}."): shape for i in range(len(HEADS)) for name, shape in SHAPES.items()}
for i, size in enumerate(HEADS):
    layer = f"model.layers.{i}."
    GEMMA4_SHAPES |= {f"{layer}self_attn.{p}_proj.weight": [4, 2 * size] if p == "o" else [2 * size if p == "q" else size, 4]
                      for p in "qkvo"}
    GEMMA4_SHAPES |= {f"{layer}self_attn.{p}_norm.weight": [size] for p in "qk"}
    GEMMA4_SHAPES |= {f"{layer}{p}_feedforward_layernorm.weight": [4] for p in ("pre", "post")}
INNER = 1000000  # rows of one column
NARROW = {"hidden_size": 1, "num_attention_heads": 1, "head_dim": 2, "intermediate_size": INNER}
NARROW_SHAPES = {"model.embed_tokens.weight": [6, 1], "model.norm.weight": [1], LAYER + "input_layernorm.weight": [1],
                 LAYER + "post_attention_layernorm.weight": [1], LAYER + "self_attn.o_proj.weight": [1, 2],
                 **{f"{LAYER}self_attn.{p}_proj.weight": [2, 1] for p in "qkv"},
                 LAYER + "mlp.up_proj.weight": ("I8", [INNER, 1]), LAYER + "mlp.up_proj.weight_scale": [1],
                 LAYER + "mlp.down_proj.weight": [1, 5]}
SIZES = {"U8": 1, "I8": 1, "F8_E4M3": 1}


def safetensors(shapes, cut=0):
    """Shapes of f32, or pairs of a type and a shape."""
    header, at = {}, 0
    for name, shape in shapes.items():
        dtype, shape = shape if isinstance(shape, tuple) else ("F32", shape)
        size = SIZES.get(dtype, 4)
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return (struct.pack("<Q", len(text)) + text + bytes(at))[:-cut or None]


def laid_out(*tensors, header=None, size=None):
    """A file of these tensors: name, type, shape and offsets; or of this header, whose size may be another."""
    text = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}
                       for name, dtype, shape, offsets in tensors}).encode() if header is None else header
    end = max((offsets[1] for *_, offsets in tensors), default=0)
    return struct.pack("<Q", len(text) if size is None else size) + text + bytes(end)


def folder(config=None, **files):
    """Files of a folder; a value of None removes one."""
    made = {"config.json": json.dumps({**CONFIG, **(config or {})}), "model.safetensors": safetensors(SHAPES)}
    made.update({name.replace("__", "."): content for name, content in files.items()})
    return {name: content for name, content in made.items() if content is not None}


def index(weight_map):
    return {"model.safetensors": None, "model.safetensors.index.json": json.dumps({"weight_map": weight_map})}


def without(name):
    return safetensors({k: v for k, v in SHAPES.items() if k != name})


def quantised(method, parts, **settings):
    """A folder of a quantiser, with these tensors in place of those of mlp.up_proj, or beside all others."""
    up = LAYER + "mlp.up_proj."
    shapes = {name: shape for name, shape in SHAPES.items() if not name.startswith(up)}
    shapes.update({name if name.startswith("a_") else up + name: shape for name, shape in parts.items()})
    return folder({"quantization_config": {"quant_method": method, **settings}}, model__safetensors=safetensors(shapes))


def gptq(bits=4, **parts):
    shapes = {"qweight": ("I32", [4 * bits, 32]), "qzeros": ("I32", [1, bits]), "scales": [1, 32], **parts}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def scaled(**rope):
    return {"rope_scaling": {"factor": 4.0, **rope}}


def values():
    """Folders whose configuration has a factor, divisor or epsilon of 0, NaN, infinity, or above or below all of f32."""
    granite = {"model_type": "granite"}
    gemma = {"head_dim": 2, "num_key_value_heads": 2}
    nan = json.dumps({**CONFIG, **granite, "logits_scaling": float("nan")})
    vast = json.dumps({**CONFIG, **granite, "logits_scaling": 1}).replace('"logits_scaling": 1', '"logits_scaling": 1e999')
    configs = {
        "zero_logits": {**granite, "logits_scaling": 0}, "zero_attention": {**granite, "attention_multiplier": 0.0},
        "zero_residual": {**granite, "residual_multiplier": 0}, "zero_embedding": {**granite, "embedding_multiplier": 0},
        "vast_residual": {**granite, "residual_multiplier": 1e39}, "small_logits": {**granite, "logits_scaling": 1e-60},
        "text_logits": {**granite, "logits_scaling": "8"},
        "zero_epsilon": {"rms_norm_eps": 0}, "negative_epsilon": {"rms_norm_eps": -1e-6},
        "zero_layer_epsilon": {"model_type": "phi", "layer_norm_eps": 0},
        "zero_theta": {"rope_theta": 0}, "small_theta": {"rope_theta": 1, **scaled(type="yarn")},
        "zero_part": {"model_type": "phi", "partial_rotary_factor": 0},
        "zero_factor": scaled(type="linear", factor=0), "negative_factor": scaled(rope_type="yarn", factor=-1),
        "zero_llama3": scaled(rope_type="llama3", low_freq_factor=0),
        "zero_rope_scale": scaled(rope_type="yarn", attention_factor=0),
        "zero_alpha": scaled(rope_type="dynamic", alpha=0),
        "one_length": {"model_type": "phi3", "original_max_position_embeddings": 1,
                       **scaled(type="longrope", short_factor=[1], long_factor=[1])},
        "zero_length_factor": {"model_type": "phi3", "original_max_position_embeddings": 4,
                               **scaled(type="su", short_factor=[0], long_factor=[1])},
        "zero_rope_parameters": {"rope_parameters": {"rope_type": "linear", "factor": 0}},
        "zero_cap": {**gemma, "model_type": "gemma2", "attn_logit_softcapping": 0},
        "zero_scalar": {**gemma, "model_type": "gemma2", "query_pre_attn_scalar": 0},
        "zero_clip": {"model_type": "olmo", "clip_qkv": 0},
        "zero_interval": {"model_type": "smollm3", "num_key_value_heads": 2, "no_rope_layer_interval": 0},
        "zero_window": {**gemma, "model_type": "gemma3_text", "rope_local_base_freq": 0}}
    return {**{name: folder(config) for name, config in configs.items()},
            "nan_logits": folder(config__json=nan), "infinite_logits": folder(config__json=vast)}


def indexed(weight_map, **files):
    return {name: content for name, content in (folder() | index(weight_map) | files).items() if content is not None}


def typed():
    """Folders with values of wrong types or ranges, and with tensors and shards that do not fit."""
    shard = "model-00001-of-00001.safetensors"
    places = dict.fromkeys(SHAPES, shard)
    configs = {
        "negative_hidden": {"hidden_size": -4}, "half_hidden": {"hidden_size": 4.5}, "vast_hidden": {"hidden_size": 10**30},
        "no_heads": {"num_attention_heads": 0}, "no_context": {"max_position_embeddings": 0},
        "list_type": {"model_type": ["llama"]}, "foreign_type": {"model_type": "\u6a21\u578b"},
        "text_tied": {"tie_word_embeddings": "yes"}, "text_end": {"eos_token_id": "two"},
        "far_end": {"eos_token_id": [1, 99]}, "two_starts": {"bos_token_id": [1, 2]},
        "number_kinds": {"layer_types": [3]}, "list_quantiser": {"quantization_config": []},
        "no_method": {"quantization_config": {}}, "list_rope": {"rope_parameters": [1]}, "vast_head": {"head_dim": 2**31 - 1}}
    return {
        **{name: folder(config) for name, config in configs.items()},
        "no_experts": folder({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 0,
                              "num_key_value_heads": 2}, model__safetensors=safetensors(MIXTRAL)),
        "page": folder(config__json="<!DOCTYPE html><title>model_type</title>"),
        "list_generation": folder(generation_config__json="[]"),
        "nothing": folder(model__safetensors=b""),
        "integer_norm": folder(model__safetensors=safetensors({**SHAPES, "model.norm.weight": ("I32", [4])})),
        "no_rows": folder(model__safetensors=safetensors({**SHAPES, "model.embed_tokens.weight": [0, 4]})),
        "foreign_tensor": folder(model__safetensors=safetensors({**SHAPES, "model.\u91cd\u307f.weight": [2]})),
        "cut_shard": indexed(places, **{shard: safetensors(SHAPES, cut=7)}),
        "pointer_shard": indexed(places, **{shard: POINTER}),
        "absolute_shard": indexed({"a": "/etc/hostname"}),
        "hidden_shard": indexed({"a": "a\n\0.safetensors"}),
        "list_of_shards": indexed({}, **{"model.safetensors.index.json": "[]"}),
        "dangling": folder(model__safetensors=None),
        "folder.gguf": {"README.md": "a folder"},
    }


def folders():
    shard = "model-00001-of-00002.safetensors"
    return {
        "unknown": folder({"model_type": "lama"}),
        "quantised": folder({"quantization_config": {"quant_method": "bitsandbytes"}}),
        "gptq_3_bits": quantised("gptq", gptq(bits=3)),
        "gptq_scales": quantised("gptq", gptq(scales=[2, 32]), group_size=128),
        "gptq_zeros": quantised("gptq", gptq(qzeros=None)),
        "marlin": quantised("gptq", gptq(), checkpoint_format="marlin"),
        "awq_gemv": quantised("awq", gptq(), version="gemv"),
        "nvfp4": quantised("compressed-tensors", {}, format="nvfp4-pack-quantized"),
        "fp8_scales": quantised("fp8", {"weight": ("F8_E4M3", [8, 4]), "weight_scale_inv": [3, 1]},
                                weight_block_size=[4, 4]),
        "mxfp4_blocks": quantised("mxfp4", {"a_blocks": ("U8", [2, 8, 1, 8]), "a_scales": ("U8", [2, 8, 1])}),
        "no_weights": folder(model__safetensors=None),
        "pickle": folder(model__safetensors=None, pytorch_model__bin=b""),
        "adapter": folder(model__safetensors=None, adapter_config__json="{}"),
        "pointer": folder(model__safetensors=POINTER),
        "cut": folder(model__safetensors=safetensors(SHAPES, cut=5)),
        "missing_tensor": folder(model__safetensors=without(LAYER + "self_attn.k_proj.weight")),
        "more_tensors": folder(model__safetensors=safetensors({**SHAPES, "model.extra.weight": [1]})),
        "cross_attention": folder(model__safetensors=safetensors({**SHAPES, LAYER + "cross_attn.q_proj.weight": [4, 4]})),
        "no_cross_attention": folder({"model_type": "whisper"}, model__safetensors=safetensors(WHISPER)),
        "no_positions": folder({"model_type": "whisper"}, model__safetensors=safetensors(
            {name: shape for name, shape in WHISPER.items() if "positions" not in name})),
        "turned_expert": folder({"model_type": "mixtral", "num_local_experts": 2, "num_key_value_heads": 2},
                                model__safetensors=safetensors({**MIXTRAL, EXPERT + "experts.1.w3.weight": [4, 8]})),
        "wrong_shape": folder(model__safetensors=safetensors({**SHAPES, LAYER + "mlp.up_proj.weight": [8, 5]})),
        "untied": folder({"tie_word_embeddings": False}),
        "gap": folder(model__safetensors=laid_out(("a", "F32", [2], [0, 8]), ("b", "F32", [2], [12, 20]))),
        "overlap": folder(model__safetensors=laid_out(("a", "F32", [2], [0, 8]), ("b", "F32", [2], [4, 12]))),
        "wrong_bytes": folder(model__safetensors=laid_out(("a", "F32", [2], [0, 12]))),
        "new_dtype": folder(model__safetensors=laid_out(("a", "F128", [2], [0, 32]))),
        "rank": folder(model__safetensors=laid_out(("a", "F32", [1] * 9, [0, 4]))),
        "long_header": folder(model__safetensors=laid_out(header=b"{}", size=200_000_000)),
        "past_the_end": folder(model__safetensors=laid_out(header=b"{}", size=1000)),
        "no_header": folder(model__safetensors=laid_out(header=b"tensors")),
        "list": folder(config__json='["model_type"]'),
        "deep": folder(config__json='{"model_type": ' + "[" * 70 + "]" * 70 + "}"),
        "large": folder(config__json='{"model_type": "llama", "a": "' + "a" * (4 << 20) + '"}'),
        "objects": folder(config__json='{"model_type": "llama", "a": [' + "{}," * 1390000 + "0]}"),
        "numbers": folder(config__json='{"model_type": "llama", "a": [' + "0," * 2090000 + "0]}"),
        "lists": folder(config__json='{"model_type": "llama", "a": [' + "[]," * 1390000 + "0]}"),
        "large_generation": folder(generation_config__json='{"a": "' + "a" * (4 << 20) + '"}'),
        "two_shapes": folder(model__safetensors=laid_out(
            header=b'{"a": {"dtype": "U8", "shape": [], "shape": [0], "data_offsets": [0, 0]}}')),
        "list_index": {k: v for k, v in (folder() | index({"a": ["a.safetensors"]})).items() if v is not None},
        "index_of_lists": {k: v for k, v in (folder() | index({"a": [[]] * 140000})).items() if v is not None},
        "many_entries": {k: v for k, v in (folder() | index({f"{i:x}": 0 for i in range(1500000)})).items() if v is not None},
        "many_experts": folder({"model_type": "mixtral", "num_local_experts": 5000, "num_experts_per_tok": 2,
                                "num_key_value_heads": 2}, model__safetensors=safetensors(MIXTRAL)),
        "wrong_index": {k: v for k, v in (folder() | index({"lm_head.weight": "a.safetensors"})
                                          | {"a.safetensors": safetensors(SHAPES)}).items() if v is not None},
        "many_heads": folder(GEMMA4, model__safetensors=safetensors(GEMMA4_SHAPES)),
        "narrow": folder({**NARROW, "quantization_config": {"quant_method": "compressed-tensors", "format": "int-quantized"}},
                         model__safetensors=safetensors(NARROW_SHAPES)),
        "no_hidden": folder({"hidden_size": None}),
        "long_name": folder({"model_type": "qwen3_vl_text", "num_key_value_heads": 2, "head_dim": 2}, model__safetensors=
                            safetensors({**SHAPES, "model.language_model." * 200000: [1]})),
        "no_type": folder({"model_type": None}),
        "value_heads": folder({**QWEN, "linear_num_value_heads": 2**31 - 1}, model__safetensors=safetensors(QWEN_SHAPES)),
        "decays": folder(QWEN, model__safetensors=safetensors({**QWEN_SHAPES, RECURRENT + "A_log": [1]})),
        "time_steps": folder(QWEN, model__safetensors=safetensors({**QWEN_SHAPES, RECURRENT + "dt_bias": [1]})),
        "conv_taps": folder(LFM2, model__safetensors=safetensors({**LFM2_SHAPES, LAYER + "conv.conv.weight": [4, 1, 0]})),
        "conv_parts": folder(LFM2, model__safetensors=safetensors({**LFM2_SHAPES, LAYER + "conv.in_proj.weight": [13, 4]})),
        "short_bias": folder(model__safetensors=safetensors({**SHAPES, LAYER + "self_attn.q_proj.bias": [1]})),
        "empty_vast": folder(model__safetensors=laid_out(("a", "F32", [0, 2**62], [0, 0]))),
        "text_scaling": folder({"rope_scaling": "linear"}),
        "number_scaling": folder({"rope_scaling": {"rope_type": 3}}),
        "no_factor": folder({"rope_scaling": {"type": "linear"}}),
        **values(), **typed(),
        "many_layers": folder({"num_hidden_layers": 5000}),
        "text_layers": folder({"num_hidden_layers": "two"}),
        "wrong_heads": folder({"num_key_value_heads": 3}),
        "wrong_rope": folder({"rope_scaling": {"type": "spiral"}}),
        "mamba": folder({"layer_types": ["mamba"]}),
        "missing_shard": {k: v for k, v in (folder() | index({"a": shard})).items() if v is not None},
        "leaving_shard": {k: v for k, v in (folder() | index({"a": "../b.safetensors"})).items() if v is not None},
    }


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(keys=(), version=3, tensors=0):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, len(keys)) + b"".join(
        text(name) + (struct.pack("<IIQ", 9, 7, len(value)) + value if isinstance(value, bytes) else
                      struct.pack("<II", 4, value) if isinstance(value, int) else
                      struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<I", 8) + text(value))
        for name, value in keys)


def gguf_of(*tensors, data=b"", keys=()):
    """Tensors: name, dims from the innermost on, type and offset."""
    sizes = [("general.architecture", "llama"), ("llama.embedding_length", 32), ("llama.attention.head_count", 2)]
    head = gguf([*sizes, *keys], tensors=len(tensors)) + b"".join(
        text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
        for name, dims, kind, offset in tensors)
    return head + bytes(-len(head) % 32) + data


def first_part(count, tensors=2):
    return gguf_of(("a", [8], 0, 0), data=bytes(32),
                   keys=[("split.no", 0), ("split.count", count), ("split.tensors.count", tensors)])


def later_part(number, count, name="b"):
    """As llama.cpp splits: without the model's keys."""
    head = gguf([("split.no", number), ("split.count", count), ("split.tensors.count", 2)], tensors=1)
    head += text(name) + struct.pack("<IQIQ", 1, 8, 0, 0)
    return head + bytes(-len(head) % 32) + bytes(32)


def gguf_llama(*more, blocks=1, keys=()):
    """A Llama of one layer, with further tensors: name and dims from the innermost on."""
    shapes = [("token_embd", [32, 6]), ("output_norm", [32]), ("blk.0.attn_norm", [32]), ("blk.0.ffn_norm", [32]),
              *((f"blk.0.attn_{p}", [32, 32]) for p in ("q", "k", "v", "output")),
              *((f"blk.0.ffn_{p}", [32, 32]) for p in ("gate", "up", "down")), *more]
    tensors, at = [], 0
    for name, dims in shapes:
        tensors.append((name + ".weight", dims, 0, at))
        at += 128 * (dims[1] if len(dims) > 1 else 1)
    return gguf_of(*tensors, data=bytes(at), keys=[("llama.block_count", blocks), ("tokenizer.ggml.model", "llama"), *keys])


def files():
    llama = ("general.architecture", "llama")
    return {
        "old.gguf": gguf(version=1),
        "big_endian.gguf": b"GGUF\x00\x00\x00\x03" + bytes(16),
        "no_architecture.gguf": gguf(),
        "unknown.gguf": gguf([("general.architecture", "lama")]),
        "projector.gguf": gguf([("general.architecture", "clip")]),
        "adapter.gguf": gguf([("general.type", "adapter"), llama]),
        "empty_model.gguf": gguf([llama]),
        "cut_key.gguf": gguf([llama])[:-3],
        "types.gguf": gguf_of(("a", [256], 16, 0), ("b", [256], 21, 96), ("c", [256], 16, 224), data=bytes(320)),
        "new_type.gguf": gguf_of(("a", [32], 99, 0), data=bytes(32)),
        "deep.gguf": gguf_of(("a", [1] * 5, 0, 0), data=bytes(32)),
        "twins.gguf": gguf_of(("a", [8], 0, 0), ("a", [8], 0, 32), data=bytes(64)),
        "overlap.gguf": gguf_of(("a", [16], 0, 0), ("b", [8], 0, 32), data=bytes(64)),
        "odd_offset.gguf": gguf_of(("a", [8], 0, 4), data=bytes(64)),
        "short.gguf": gguf_of(("a", [64], 0, 0), data=bytes(64)),
        "vast.gguf": gguf_of(("a", [2**40, 2**40], 0, 0), data=bytes(64)),
        "half_block.gguf": gguf_of(("a", [40], 2, 0), data=bytes(64)),
        "layers.gguf": gguf_llama(("blk.1.attn_q", [32, 32])),
        "nan_epsilon.gguf": gguf_llama(keys=[("llama.attention.layer_norm_rms_epsilon", float("nan"))]),
        "zero_epsilon.gguf": gguf_llama(keys=[("llama.attention.layer_norm_rms_epsilon", 0.0)]),
        "infinite_theta.gguf": gguf_llama(keys=[("llama.rope.freq_base", float("inf"))]),
        "zero_theta.gguf": gguf_llama(keys=[("llama.rope.freq_base", 0.0)]),
        "no_rotation.gguf": gguf_llama(keys=[("llama.rope.dimension_count", 0)]),
        "nan_factor.gguf": gguf_llama(keys=[("llama.rope.scaling.factor", float("nan"))]),
        "many_blocks.gguf": gguf_llama(blocks=2**31 - 1),
        "many_kinds.gguf": gguf([("general.architecture", "gemma4"), ("gemma4.embedding_length", 32),
                                 ("gemma4.attention.head_count", 2),
                                 ("gemma4.attention.sliding_window_pattern", bytes(3000000))]),
        "nothing.gguf": b"", "garbage.bin": bytes(range(256)) * 8,
        "text_context.gguf": gguf_llama(keys=[("llama.context_length", "long")]),
        "no_kv_heads.gguf": gguf_llama(keys=[("llama.attention.head_count_kv", 0)]),
        "bad_template.gguf": gguf_llama(keys=[("tokenizer.chat_template", "{% for %}")]),
        "far_end.gguf": gguf_llama(keys=[("llama.vocab_size", 6), ("tokenizer.ggml.eot_token_id", 99)]),
        "two_keys.gguf": gguf([llama, llama]),
        "empty_vast.gguf": gguf_of(("a", [2**62, 0], 0, 0)),
        "tokens.gguf": gguf_of(("a", [8], 0, 0), data=bytes(32), keys=[("tokenizer.ggml.tokens", "a")]),
        "many_keys.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**20 + 1),
        "many_tensors.gguf": gguf([llama, ("llama.embedding_length", 32), ("llama.attention.head_count", 2)],
                                  tensors=2**17 + 1),
        "nested.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1),
        "large_alignment.gguf": gguf_of(keys=[("general.alignment", 1 << 17)]),
        "half-00001-of-00002.gguf": first_part(2), "some-00001-of-00004.gguf": first_part(4),
        "some-00003-of-00004.gguf": later_part(2, 4), "lost-00002-of-00003.gguf": later_part(1, 3),
        "two-00001-of-00002.gguf": first_part(2), "two-00002-of-00002.gguf": later_part(1, 2),
        "turned-00001-of-00002.gguf": later_part(1, 2), "first.gguf": first_part(2), "second.gguf": later_part(1, 2),
        "again-00001-of-00002.gguf": first_part(2), "again-00002-of-00002.gguf": first_part(2),
        "fewer-00001-of-00002.gguf": first_part(2, tensors=5), "fewer-00002-of-00002.gguf": later_part(1, 2),
        "same-00001-of-00002.gguf": first_part(2), "same-00002-of-00002.gguf": later_part(1, 2, "a"),
        "parts.gguf": first_part(100000),
        "alignment.gguf": gguf_of(keys=[("general.alignment", 24)]),
    }
