# SPDX-License-Identifier: MIT
"""The values that a config.json may leave out, in src/import/checkpoint/architectures, beside the defaults of
Transformers' classes. Needs Transformers; `make test-formats` installs it."""

import dataclasses
import json
import pathlib
import re
import sys

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SOURCES = pathlib.Path(__file__).parents[2] / "src/import/checkpoint/architectures"
# Names of the classes, and what Lathe takes without a value.
NAMES = {"hidden_size": ("n_embd", "d_model"), "num_hidden_layers": ("n_layer", "decoder_layers"),
         "num_attention_heads": ("n_head", "decoder_attention_heads"), "num_local_experts": ("num_experts",),
         "max_position_embeddings": ("n_positions", "max_target_positions")}
FALLBACKS = {"hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None, "num_key_value_heads": None,
             "head_dim": None, "max_position_embeddings": 2048, "original_max_position_embeddings": None,
             "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "norm_epsilon": 1e-5,
             "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh",
             "activation_function": "gelu_new", "tie_word_embeddings": False, "use_sliding_window": False,
             "sliding_window": None, "max_window_layers": None, "num_local_experts": None,
             "num_experts_per_tok": None, "attn_logit_softcapping": None, "final_logit_softcapping": None,
             "query_pre_attn_scalar": None, "encoder_layers": None, "encoder_attention_heads": None,
             "num_mel_bins": None, "max_source_positions": None, "attention_k_eq_v": False,
             "num_kv_shared_layers": 0, "hidden_size_per_layer_input": None, "embedding_multiplier": 1.0,
             "residual_multiplier": 1.0, "attention_multiplier": 1.0, "logits_scaling": 1.0, "clip_qkv": None,
             "no_rope_layer_interval": 4, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
             "rope_theta": 1e4, "partial_rotary_factor": 1.0}


def read_tables():
    """The table of each type that has one."""
    for path in sorted(SOURCES.glob("*.cpp")):
        text = path.read_text()
        named = dict(re.findall(r'std::string_view (k\w+Defaults) =\s*R"\((.*?)\)";', text, re.DOTALL))
        for part in text.split("const RegisterArchitecture ")[1:]:
            used = re.search(r'\.defaults = (?:R"\((.*?)\)"|(\w+))', part, re.DOTALL)
            if used:
                yield re.search(r'\.type = "(\w+)"', part)[1], json.loads(used[1] or named[used[2]])


def defaults_of(kind):
    made = CONFIG_MAPPING[kind]
    fields = {field.name: field.default for field in dataclasses.fields(made)}
    values = {}
    for name in FALLBACKS:
        for own in (name, *NAMES.get(name, ())):
            if own in fields and fields[own] is not dataclasses.MISSING:
                values[name] = fields[own]
    rope = getattr(made(), "rope_parameters", None) or {}
    if "full_attention" in rope and hasattr(made, "default_theta") and isinstance(made.default_theta, dict):
        values["rope_theta"] = rope["full_attention"]["rope_theta"]
        values["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    elif "full_attention" in rope:
        values["rope_parameters"] = rope
    elif rope:
        values["rope_theta"] = rope["rope_theta"]
        values["partial_rotary_factor"] = rope.get("partial_rotary_factor", 1.0)
        if rope["rope_type"] != "default":
            values["rope_parameters"] = {key: rope[key] for key in rope if key != "rope_theta"}
    return values


def main():
    passed = failed = 0
    for kind, table in read_tables():
        if kind not in CONFIG_MAPPING:
            continue
        for name, value in defaults_of(kind).items():
            own = table.get(name, FALLBACKS.get(name))
            right = own == value
            if not right:
                print(f"wrong: {kind}: '{name}' is {own}, Transformers has {value}", file=sys.stderr)
            passed, failed = passed + right, failed + (not right)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or passed < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
