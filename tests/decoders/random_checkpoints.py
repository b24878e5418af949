# SPDX-License-Identifier: MIT
"""Architectures that Transformers builds at random, saved as Hugging Face folders and as GGUF files: logits and greedy
tokens of Lathe beside those of Transformers. Needs PyTorch and Transformers; `make test-checkpoints` installs them."""

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
# What differs from SIZES; two seeds of each.
TYPES = {
    "ernie4_5": {},
    "nemotron": {"partial_rotary_factor": 0.5},
    "gemma3_text": {"sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 6,
                    "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
    "llama": {},
    "qwen3": {},
    "glm4": {"partial_rotary_factor": 0.5, "attention_bias": True},
    "olmo": {"head_dim": None, "clip_qkv": 0.3},
    "qwen2_moe": {"head_dim": None, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                  "shared_expert_intermediate_size": 48, "norm_topk_prob": False},
}
TOKENS = 8
LIMIT = 1e-4  # of the largest logit


def make(kind, own, seed, folder):
    """Saves a random model of f32 and returns it; norms, biases and the like are random too."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **own})
    if own.get("head_dim", 0) is None and hasattr(config, "head_dim"):
        del config.head_dim
    config.dtype = torch.float32
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.generation_config = transformers.GenerationConfig(eos_token_id=2, bos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    return model


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
    passed = failed = 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for kind, own in TYPES.items():
            for seed in (1, 2):
                folder = pathlib.Path(work) / f"{kind}-{seed}"
                model = make(kind, own, seed, folder)
                gguf = pathlib.Path(work) / f"{kind}-{seed}.gguf"
                write_gguf(folder, {name: values.numpy() for name, values in model.state_dict().items()}, gguf)
                for place, target in ((folder, "ref"), (folder, "cpu"), (gguf, "ref"), (gguf, "cpu")):
                    problems = list(compare(probe, model, place, target, seed))
                    for problem in problems:
                        print(f"wrong: {place.name}, {target}: {problem[:600]}", file=sys.stderr)
                    passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
