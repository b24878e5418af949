# SPDX-License-Identifier: MIT
"""Writes a tiny Hugging Face folder of bfloat16 weights as a GGUF file of float32 ones, as llama.cpp's converters do."""

import json
import re
import struct

import numpy as np

ALIGNMENT = 32
# GGUF's architecture of each `model_type`; mixtral and mistral are written as llama.
ARCHITECTURES = {
    "ernie4_5": "ernie4_5", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3", "gemma4_text": "gemma4",
    "gemma4_unified_text": "gemma4", "glm": "chatglm",
    "glm4": "glm4", "gpt2": "gpt2", "gpt_oss": "gpt-oss", "granite": "granite", "granitemoehybrid": "granite",
    "hunyuan_v1_dense": "hunyuan-dense", "internlm2": "internlm2", "lfm2": "lfm2", "llama": "llama",
    "mistral": "llama", "mixtral": "llama", "nemotron": "nemotron", "olmo": "olmo", "olmo2": "olmo2", "phi": "phi2",
    "phi3": "phi3", "phimoe": "phimoe", "qwen2": "qwen2", "qwen2_vl_text": "qwen2vl", "qwen2_5_vl_text": "qwen2vl",
    "qwen3_vl_text": "qwen3vl", "qwen2_moe": "qwen2moe", "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "smollm3": "smollm3",
    "starcoder2": "starcoder2"}
# Architectures whose files rotate neighbouring pairs, where their checkpoints rotate halves.
TURNED = ("llama", "mistral3", "granite", "granitehybrid", "olmo", "smollm3", "internlm2")
PLUS_ONE = ("gemma", "gemma2", "gemma3", "nemotron", "qwen35", "qwen35moe")
SANDWICH = ("gemma2", "gemma3", "gemma4", "glm4")

NAMES = [
    (r"^(model\.)?language_model\.", "model."), (r"^model\.model\.", "model."), (r"^transformer\.", "model."),
    (r"^model\.(embed_tokens|tok_embeddings|wte)\.", "token_embd."), (r"^model\.wpe\.", "position_embd."),
    (r"^model\.(norm|final_layernorm|ln_f)\.", "output_norm."), (r"^model\.embedding_norm\.", "token_embd_norm."),
    (r"^(lm_head|output)\.", "output."), (r"^model\.(layers|h)\.(\d+)\.", r"blk.\2."),
    (r"\.self_attn\.sinks$", ".attn_sinks.weight"),
    (r"\.(self_attn|attention|attn)\.(q_proj|wq)\.", ".attn_q."), (r"\.(self_attn|attention)\.(k_proj|wk)\.", ".attn_k."),
    (r"\.(self_attn|attention)\.(v_proj|wv)\.", ".attn_v."),
    (r"\.(self_attn\.(o_proj|dense|out_proj)|attention\.wo|attn\.c_proj)\.", ".attn_output."),
    (r"\.(self_attn\.qkv_proj|attn\.c_attn)\.", ".attn_qkv."),
    (r"\.self_attn\.(q_norm|q_layernorm|query_layernorm)\.", ".attn_q_norm."),
    (r"\.self_attn\.(k_norm|k_layernorm|key_layernorm)\.", ".attn_k_norm."),
    (r"\.(input_layernorm|attention_norm|ln_1|operator_norm)\.", ".attn_norm."), (r"\.ln_2\.", ".ffn_norm."),
    (r"\.(block_sparse_moe|mlp)\.(gate|router)\.", ".ffn_gate_inp."),
    (r"\.mlp\.shared_expert_gate\.", ".ffn_gate_inp_shexp."), (r"\.mlp\.shared_expert\.(\w+)_proj\.", r".ffn_\1_shexp."),
    (r"\.(block_sparse_moe|mlp)\.experts\.", ".experts."), (r"\.router\.proj\.", ".ffn_gate_inp."),
    (r"\.router\.scale$", ".ffn_gate_inp.scale"), (r"\.router\.per_expert_scale$", ".ffn_down_exps.scale"),
    (r"\.layer_scalar$", ".layer_output_scale.weight"), (r"\.pre_feedforward_layernorm_2\.", ".pre_ffw_norm_2."),
    (r"\.(mlp\.(up_proj|gate_up_proj|fc1|c_fc)|feed_forward\.w3|shared_mlp\.input_linear)\.", ".ffn_up."),
    (r"\.(mlp\.gate_proj|feed_forward\.w1)\.", ".ffn_gate."),
    (r"\.(mlp\.(down_proj|fc2|c_proj)|feed_forward\.w2|shared_mlp\.output_linear)\.", ".ffn_down."),
    (r"\.conv\.(conv|in_proj|out_proj)\.", r".shortconv.\1."), (r"\.linear_attn\.in_proj_qkv\.", ".attn_qkv."),
    (r"\.linear_attn\.in_proj_z\.", ".attn_gate."), (r"\.linear_attn\.in_proj_a\.", ".ssm_alpha."),
    (r"\.linear_attn\.in_proj_b\.", ".ssm_beta."), (r"\.linear_attn\.A_log$", ".ssm_a"),
    (r"\.linear_attn\.dt_bias$", ".ssm_dt.bias"), (r"\.linear_attn\.conv1d\.", ".ssm_conv1d."),
    (r"\.linear_attn\.norm\.", ".ssm_norm."), (r"\.linear_attn\.out_proj\.", ".ssm_out."),
]


def name_of(name, arch):
    for pattern, to in NAMES:
        name = re.sub(pattern, to, name)
    if arch == "glm4":
        name = name.replace("post_attention_layernorm", "ffn_norm").replace("post_mlp_layernorm", "post_ffw_norm")
        return name.replace("post_self_attn_layernorm", "post_attention_norm")
    name = name.replace("post_feedforward_layernorm", "post_ffw_norm").replace("pre_feedforward_layernorm", "ffn_norm")
    after = arch in SANDWICH + ("olmo2", "gpt-oss", "qwen35", "qwen35moe")
    return name.replace("post_attention_layernorm", "post_attention_norm" if after else "ffn_norm")


def turn(weight, heads):
    """Halves of each head become neighbours."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tile(weight, axis, groups, size):
    """Value heads in the order of their place in a group of one key head."""
    shape = weight.shape
    split = weight.reshape(*shape[:axis], groups, -1, size, *shape[axis + 1:])
    return split.swapaxes(axis, axis + 1).reshape(shape)


def linear_tensor(name, values, c):
    """Tensors of layers with linear attention."""
    groups, size, value = c["linear_num_key_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"]
    keys = 2 * groups * size
    if name.endswith("ssm_a"):
        values = -np.exp(values)
    if ".ssm_conv1d" in name:
        values = values.reshape(values.shape[0], -1)
    if ".attn_qkv" in name or ".ssm_conv1d" in name:
        return np.concatenate([values[:keys], tile(values[keys:], 0, groups, value)])
    if ".attn_gate" in name:
        return tile(values, 0, groups, value)
    if ".ssm_out" in name:
        return tile(values, 1, groups, value)
    if any(part in name for part in (".ssm_a", ".ssm_b", ".ssm_dt")):
        return tile(values, 0, groups, 1)
    return values


def expert_tensors(tensors, arch):
    """Matrices of all experts, [experts, outputs, inputs]."""
    stacks = {}
    for name, values in tensors.items():
        layer, found, rest = name.partition(".experts.")
        if not found:
            yield name, values
            continue
        part = re.fullmatch(r"(\d+)\.(\w+)\.weight", rest)
        if part:
            kind = {"w1": "gate", "w2": "down", "w3": "up"}.get(part[2], part[2].removesuffix("_proj"))
            stacks.setdefault(f"{layer}.ffn_{kind}_exps.weight", {})[int(part[1])] = values
            continue
        suffix = "bias" if rest.endswith("_bias") else "weight"
        if arch == "gpt-oss" and suffix == "weight":
            values = values.swapaxes(1, 2)
        if not rest.startswith("gate_up"):
            yield f"{layer}.ffn_down_exps.{suffix}", values
            continue
        if arch == "gemma4":
            yield f"{layer}.ffn_gate_up_exps.{suffix}", values
            continue
        step = values.shape[1] // 2
        gate, up = (values[:, ::2], values[:, 1::2]) if arch == "gpt-oss" else (values[:, :step], values[:, step:])
        yield f"{layer}.ffn_gate_exps.{suffix}", gate
        yield f"{layer}.ffn_up_exps.{suffix}", up
    for name, experts in stacks.items():
        yield name, np.stack([experts[i] for i in range(len(experts))])


def change(name, values, c, arch):
    """(name, values) of a tensor's parts in the file."""
    heads, kv_heads = c["num_attention_heads"], c.get("num_key_value_heads") or c["num_attention_heads"]
    if arch in PLUS_ONE and name.endswith("norm.weight") and "ssm_norm" not in name:
        values = values + 1
    if ".wqkv." in name:  # InternLM2: for each key head its queries, the key and the value
        size = c.get("head_dim") or c["hidden_size"] // heads
        split = values.reshape(kv_heads, heads // kv_heads + 2, size, -1)
        parts = (split[:, :-2], split[:, -2], split[:, -1])
        for kind, part in zip("qkv", (part.reshape(-1, values.shape[1]) for part in parts)):
            name = re.sub(r"\.[^.]*\.wqkv", f".attn_{kind}", name) if kind == "q" else name[:-len("q.weight")] + f"{kind}.weight"
            yield name, turn(part, {"q": heads, "k": kv_heads}[kind]) if kind != "v" else part
        return
    if arch in TURNED and ".attn_q." in name:
        values = turn(values, heads)
    if arch in TURNED and ".attn_k." in name:
        values = turn(values, kv_heads)
    if arch == "gpt2" and re.search(r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight", name):
        values = values.T
    if c["model_type"] == "granitemoehybrid" and ".ffn_up." in name:
        yield name.replace("ffn_up", "ffn_gate"), values[:len(values) // 2]
        values = values[len(values) // 2:]
    if ".shortconv.conv" in name or ".ffn_gate_inp_shexp" in name:
        values = values.squeeze()
    linear = any(part in name for part in (".ssm_", ".attn_gate.")) or (arch.startswith("qwen35") and ".attn_qkv" in name)
    yield name, linear_tensor(name, values, c) if linear else values


def rope_of(c):
    rope = c.get("rope_parameters") or {"rope_theta": c.get("rope_theta", 10000.0)}
    return rope.get("full_attention", rope)


def gemma4_keys(c, tensors):
    """Keys of heads and RoPE that differ between layers; the rotated part of full attention is written as divisors."""
    slides = [kind == "sliding_attention" for kind in c["layer_types"]]
    own = c.get("per_layer_config") or {}
    last = own.get(str(len(slides) - 1), {})
    full = last.get("head_dim") or c.get("global_head_dim") or c["head_dim"]
    shared = c.get("num_global_key_value_heads") if c.get("attention_k_eq_v") else None
    all_heads = last.get("num_key_value_heads") or shared or c["num_key_value_heads"]
    part = c["rope_parameters"]["full_attention"].get("partial_rotary_factor", 1.0)
    rotated = int(full * part / 2)
    tensors["rope_freqs.weight"] = np.array([1.0] * rotated + [1e30] * (full // 2 - rotated), np.float32)
    return {"attention.sliding_window_pattern": slides, "attention.shared_kv_layers": 0,
            "attention.head_count_kv": [c["num_key_value_heads"] if one else all_heads for one in slides],
            "attention.key_length": full, "attention.value_length": full, "attention.key_length_swa": c["head_dim"],
            "attention.value_length_swa": c["head_dim"], "embedding_length_per_layer_input": 0,
            "rope.dimension_count": full, "rope.dimension_count_swa": c["head_dim"],
            "rope.freq_base_swa": float(c["rope_parameters"]["sliding_attention"]["rope_theta"])}


def keys_of(c, arch, tensors):
    heads = c["num_attention_heads"]
    size = c.get("head_dim") or c["hidden_size"] // heads
    rope = rope_of(c)
    keys = {"block_count": c["num_hidden_layers"], "embedding_length": c["hidden_size"], "attention.head_count": heads,
            "attention.head_count_kv": c.get("num_key_value_heads") or heads, "attention.key_length": size,
            "attention.value_length": size, "context_length": c["max_position_embeddings"], "vocab_size": c["vocab_size"]}
    if arch == "lfm2":
        keys["attention.head_count_kv"] = [c["num_key_value_heads"] * (kind == "full_attention")
                                           for kind in c["layer_types"]]
    for name in ("rms_norm_eps", "norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"):
        if c.get(name) is not None:
            rms = name == "rms_norm_eps" or arch == "lfm2"
            keys[f"attention.layer_norm_{'rms_' * rms}epsilon"] = float(c[name])
    for name, key in (("sliding_window", "attention.sliding_window"), ("attn_logit_softcapping", "attn_logit_softcapping"),
                      ("final_logit_softcapping", "final_logit_softcapping"), ("clip_qkv", "attention.clamp_kqv"),
                      ("embedding_multiplier", "embedding_scale"), ("residual_multiplier", "residual_scale"),
                      ("logits_scaling", "logit_scale"), ("attention_multiplier", "attention.scale"),
                      ("num_local_experts", "expert_count"), ("num_experts", "expert_count"),
                      ("num_experts_per_tok", "expert_used_count"), ("linear_num_key_heads", "ssm.group_count"),
                      ("linear_num_value_heads", "ssm.time_step_rank"), ("linear_key_head_dim", "ssm.state_size")):
        if c.get(name) and arch not in ("llama", "mistral3", "smollm3") or c.get(name) and key.startswith("expert"):
            keys[key] = c[name]
    # llama.cpp requires these, which follow from the tensors.
    for part, key, axis in (("ffn_down", "feed_forward_length", 1), ("ffn_gate_exps", "expert_feed_forward_length", 1),
                            ("ffn_gate_up_exps", "expert_feed_forward_length", 1), ("shortconv.conv", "shortconv.l_cache", 1),
                            ("ffn_gate_shexp", "expert_shared_feed_forward_length", 0), ("ssm_conv1d", "ssm.conv_kernel", 1)):
        found = next((values for name, values in tensors.items() if name.endswith(f".{part}.weight")), None)
        if found is not None:
            keys[key] = found.shape[axis] if part != "ffn_gate_up_exps" else found.shape[1] // 2
    if arch == "olmo":
        keys["attention.layer_norm_epsilon"] = 1e-5
    if "feed_forward_length" not in keys and "expert_feed_forward_length" in keys:
        keys["feed_forward_length"] = keys["expert_feed_forward_length"]
    if "linear_value_head_dim" in c:
        keys["ssm.inner_size"] = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    if arch == "gpt2":
        return keys
    theta = rope.get("rope_theta", 10000.0)
    if "alpha" in rope:
        theta *= rope["alpha"] ** (size / (size - 2))
    part = rope.get("partial_rotary_factor", c.get("partial_rotary_factor", 1.0))
    keys |= {"rope.freq_base": float(theta), "rope.dimension_count": int(size * part)}
    kind = rope.get("rope_type", "default")
    if arch == "gemma4":
        keys |= gemma4_keys(c, tensors)
    if kind == "yarn":
        keys |= {"rope.scaling.type": "yarn", "rope.scaling.factor": rope["factor"],
                 "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
                 "rope.scaling.yarn_beta_fast": rope["beta_fast"], "rope.scaling.yarn_beta_slow": rope["beta_slow"]}
    if kind == "linear":
        keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if kind == "longrope":
        old = rope.get("original_max_position_embeddings") or c["original_max_position_embeddings"]
        scale = max(c["max_position_embeddings"] / old, 1)
        factor = (1 + np.log(scale) / np.log(old)) ** 0.5
        keys |= {"rope.scaling.original_context_length": old,
                 "rope.scaling.attn_factor": float(rope.get("short_mscale", factor))}
        for name in ("long", "short"):
            tensors[f"rope_factors_{name}.weight"] = np.array(rope[f"{name}_factor"], np.float32)
    if kind == "llama3":
        frequencies = 1 / theta ** (np.arange(0, size, 2) / size)
        lengths, old = 2 * np.pi / frequencies, rope["original_max_position_embeddings"]
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        smooth = (old / lengths - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        divisors = np.where(lengths > old / low, factor, np.where(lengths < old / high, 1, between))
        tensors["rope_freqs.weight"] = divisors.astype(np.float32)
    return keys


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(value):
    """The type and the bytes of a value."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    kind = field(value[0])[0] if value else 4
    # llama.cpp reads the types of tokens as int32.
    return 9, struct.pack("<IQ", 5 if kind == 4 else kind, len(value)) + b"".join(field(one)[1] for one in value)


def tokens_of(folder, count):
    """Keys of a SentencePiece vocabulary; of one made up for a folder without."""
    if (folder / "tokenizer.json").exists():
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        tokens = sorted(vocabulary, key=vocabulary.get)
    else:
        tokens = ["<unk>", "<s>", "</s>", *(chr(i) for i in range(0x4e00, 0x4e00 + count - 3))]
    types = [2 if i == 0 else 3 if i < 3 else 6 if token.startswith("<0x") else 1 for i, token in enumerate(tokens)]
    return {"model": "llama", "tokens": tokens, "scores": [-float(i) for i in range(len(tokens))], "token_type": types,
            "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_bos_token": False}


TYPES = {"F32": 0, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13,
         "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23, "MXFP4": 39}


def write(path, arch, keys, tensors):
    """`tensors`: arrays, written as float32, or the type, shape and bytes of blocks."""
    fields = {"general.architecture": arch, "general.alignment": ALIGNMENT, **keys}
    out, data, at = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))], [], 0
    for key, value in fields.items():
        kind, payload = field(value)
        out += [text(key), struct.pack("<I", kind), payload]
    for name, values in tensors.items():
        kind, shape, blocks = values if isinstance(values, tuple) else ("F32", values.shape, values.astype(np.float32))
        payload = np.ascontiguousarray(blocks).tobytes()
        payload += b"\0" * (-len(payload) % ALIGNMENT)
        out += [text(name), struct.pack("<I", len(shape)), struct.pack(f"<{len(shape)}Q", *shape[::-1]),
                struct.pack("<IQ", TYPES[kind], at)]
        data.append(payload)
        at += len(payload)
    header = b"".join(out)
    path.write_bytes(header + b"\0" * (-len(header) % ALIGNMENT) + b"".join(data))


def write_one_layer(path, architecture, width, embedding, head, tensors, keys):
    """A decoder of one layer with 4 heads; its norms are ones unless `tensors` has others."""
    rows = (embedding[1] if isinstance(embedding, tuple) else embedding.shape)[0]
    norms = {f"{name}.weight": np.ones(width, np.float32) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")}
    keys = {"block_count": 1, "embedding_length": width, "attention.head_count": 4, "attention.head_count_kv": 4,
            "vocab_size": rows, **keys}
    write(path, architecture, {f"{architecture}.{key}": value for key, value in keys.items()},
          {"token_embd.weight": embedding, "output.weight": head, **norms, **tensors})


def write_gguf(folder, tensors, path, arch=None):
    """`tensors`: the folder's, by name, as float32. `arch`: another name of the architecture."""
    c = json.loads((folder / "config.json").read_text())
    tied = c.get("tie_word_embeddings")
    c = {**c, **c.get("text_config", {})}
    c["tie_word_embeddings"] = c.get("tie_word_embeddings") if tied is None else tied
    for name, to in (("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads"),
                     ("n_positions", "max_position_embeddings")):
        if name in c:
            c[to] = c[name]
    arch = arch or ARCHITECTURES[c["model_type"]]
    named = {name_of(name, arch): values for name, values in tensors.items() if ".visual." not in name}
    if "output.weight" in named and c.get("tie_word_embeddings"):
        del named["output.weight"]
    out = {}
    for name, values in expert_tensors(named, arch):
        out.update(change(name, values, c, arch))
    keys = {f"{arch}.{key}": value for key, value in keys_of(c, arch, out).items()}
    keys |= {f"tokenizer.ggml.{key}": value for key, value in tokens_of(folder, c["vocab_size"]).items()}
    write(path, arch, keys, out)
