# SPDX-License-Identifier: MIT
"""Architectures that Transformers builds at random, saved as Hugging Face folders and as GGUF files: logits and greedy
tokens of Lathe beside those of Transformers; of multimodal models the text part. Needs PyTorch and Transformers;
`make test-formats` installs them.

usage: random_checkpoints.py [TYPE…]"""

import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

from probe import Probe, Refused
from write_gguf import write_gguf

SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0}
VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16,
          "patch_size": 4}
QWEN_VISION = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "patch_size": 4,
               "out_hidden_size": 64, "deepstack_visual_indexes": [0], "fullatt_block_indexes": [0]}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "short_factor": [1.5] * 6,
            "long_factor": [4.0] * 6}
# What differs from SIZES; two seeds of each. With "text_config": of the whole model.
TYPES = {
    "ernie4_5": {},
    "nemotron": {"partial_rotary_factor": 0.5},
    "gemma3_text": {"sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 6,
                    "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
    "llama": {},
    "qwen3": {},
    "glm4": {"partial_rotary_factor": 0.5, "attention_bias": True},
    "olmo": {"head_dim": None, "clip_qkv": 0.3},
    "gemma": {"hidden_act": "gelu", "hidden_activation": "relu"},
    "gemma4_text": {"attention_k_eq_v": True, "global_head_dim": 32, "num_global_key_value_heads": 1,
                    "hidden_size_per_layer_input": 0, "sliding_window": 8, "num_hidden_layers": 7},
    "gemma4_text without shared keys": {"attention_k_eq_v": False, "global_head_dim": 32,
                                        "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0,
                                        "sliding_window": 8, "layer_types": ["sliding_attention"] * 4},
    "phi4_multimodal": {"original_max_position_embeddings": 64, "rope_parameters": LONGROPE,
                        "vision_config": {**VISION, "crop_size": 16},
                        "audio_config": {"hidden_size": 32, "intermediate_size": 32, "num_blocks": 1,
                                         "num_attention_heads": 2, "nemo_conv_channels": 8}},
    "gemma3": {"text_config": {"sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 6},
               "vision_config": VISION, "mm_tokens_per_image": 4},
    "gemma3 untied": {"text_config": {"sliding_window": 8, "query_pre_attn_scalar": 16, "tie_word_embeddings": True},
                      "vision_config": VISION, "mm_tokens_per_image": 4, "tie_word_embeddings": False},
    "mistral3": {"text_config": {"model_type": "mistral", "sliding_window": 8},
                 "vision_config": {**VISION, "head_dim": 16}, "tie_word_embeddings": False},
    "mistral3 tied": {"text_config": {"model_type": "mistral", "tie_word_embeddings": False},
                      "vision_config": {**VISION, "head_dim": 16}},
    "qwen2_5_vl": {"text_config": {"head_dim": None, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}}, "vision_config": QWEN_VISION},
    "qwen2_5_vl tied": {"text_config": {"head_dim": None, "tie_word_embeddings": True, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}}, "vision_config": QWEN_VISION},
    "qwen2_vl": {"text_config": {"head_dim": None, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}},
        "vision_config": {**QWEN_VISION, "hidden_size": 64}},
    "qwen3_vl": {"text_config": {"rope_parameters": {
        "rope_type": "default", "rope_theta": 5e5, "mrope_section": [4, 2, 2], "mrope_interleaved": True}},
        "vision_config": QWEN_VISION},
    "qwen2_moe": {"head_dim": None, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                  "shared_expert_intermediate_size": 48, "norm_topk_prob": False},
}
# GGUF files do not have these, or not their windows.
UNWRITTEN = ("mistral3", "phi4_multimodal")
TOKENS = 8
LIMIT = 1e-4  # of the largest logit


def make(kind, own, seed, folder):
    """Saves a random model of f32 and returns it; norms, biases and the like are random too."""
    torch.manual_seed(seed)
    multimodal = "text_config" in own
    if multimodal:
        own = {**own, "text_config": {**SIZES, **own["text_config"]}}
    config = transformers.AutoConfig.for_model(kind.split()[0], **(own if multimodal else {**SIZES, **own}))
    text = config.text_config if multimodal else config
    if (own["text_config"] if multimodal else own).get("head_dim", 0) is None and hasattr(text, "head_dim"):
        del text.head_dim
    config.dtype = torch.float32
    family = transformers.AutoModelForImageTextToText if multimodal else transformers.AutoModelForCausalLM
    model = family.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.generation_config = transformers.GenerationConfig(eos_token_id=2, bos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    return model


def text_tensors(model):
    """Without those of images; a tied head is the embedding."""
    return {name: values.numpy() for name, values in model.state_dict().items()
            if not any(part in name for part in ("visual.", "vision_tower.", "multi_modal_projector."))}


def compare(probe, model, folder, target, seed):
    """The problems found, as text."""
    prompt = np.random.default_rng(seed).integers(3, 96, 33).tolist()
    settings = {"folder": str(folder), "target": target, "compute": "f32"}
    with torch.no_grad():
        expected = model(torch.tensor([prompt])).logits[0].numpy()
        tokens = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, min_new_tokens=TOKENS,
                                do_sample=False)[0, len(prompt):].tolist()
    try:
        got = probe.logits(settings, [prompt])
        distance = np.abs(got - expected[-len(got):]).max() / np.abs(expected).max()
        if not distance <= LIMIT:
            yield f"logits are {distance:.2g} of the largest away, allowed {LIMIT}"
        ids = probe.generate(settings, [prompt], max_new_tokens=TOKENS, min_new_tokens=TOKENS)[0][0]["ids"]
        if list(ids)[-TOKENS:] != tokens:
            yield f"greedy: {ids}, Transformers has {tokens}"
    except Refused as refused:
        yield str(refused)


def main():
    only = sys.argv[1:]
    passed = failed = 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for kind, own in TYPES.items():
            if only and kind not in only:
                continue
            for seed in (1, 2):
                folder = pathlib.Path(work) / f"{kind}-{seed}"
                model = make(kind, own, seed, folder)
                places = [folder]
                if kind not in UNWRITTEN:
                    places.append(pathlib.Path(work) / f"{kind}-{seed}.gguf")
                    write_gguf(folder, text_tensors(model), places[1], "mistral3" if "mistral3" in kind else None)
                for place, target in ((place, target) for place in places for target in ("ref", "cpu")):
                    problems = list(compare(probe, model, place, target, seed))
                    for problem in problems:
                        print(f"wrong: {place.name}, {target}: {problem[:600]}", file=sys.stderr)
                    passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
