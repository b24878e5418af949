# SPDX-License-Identifier: MIT
"""Encoders of texts that Transformers builds at random: embeddings of `lathe embed` beside the mean of its states.
Needs PyTorch and Transformers; `make test-formats` installs them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENCODER = ROOT / "examples" / "encoder"
SIZES = {"vocab_size": 46, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96,
         "max_position_embeddings": 300, "pad_token_id": 0}
TYPES = {
    "bert": {}, "roberta": {"pad_token_id": 1}, "xlm-roberta": {"pad_token_id": 1, "type_vocab_size": 1},
    "distilbert": {"dim": 64, "n_layers": 4, "n_heads": 4, "hidden_dim": 96}}
LIMIT = 1e-5  # of the largest element


def make(kind, own, seed, folder):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **own})
    model = transformers.AutoModel.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    shutil.copy(ENCODER / "tokenizer.json", folder)
    return model


def run(*arguments, texts):
    return subprocess.run([os.environ["TEST_PROGRAM"], *map(str, arguments)], input="".join(t + "\n" for t in texts),
                          capture_output=True, text=True, check=True).stdout.splitlines()


def distance(model, folder, target, texts):
    ids = [json.loads(row) for row in run("tokenize", folder, "--lines", texts=texts)]
    given = np.array([json.loads(row) for row in run("embed", folder, "--target", target, texts=texts)])
    with torch.no_grad():
        expected = np.array([model(torch.tensor([i])).last_hidden_state[0].mean(0).numpy() for i in ids])
    return np.abs(given - expected).max() / np.abs(expected).max()


def main():
    words = [w for w in json.loads((ENCODER / "tokenizer.json").read_text())["model"]["vocab"] if w[0] != "["]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work:
        for kind, own in TYPES.items():
            for seed in (1, 2):
                folder = pathlib.Path(work) / f"{kind}-{seed}"
                model = make(kind, own, seed, folder)
                draw = np.random.default_rng(seed)
                texts = [" ".join(draw.choice(words, length)) for length in (1, 3, 40, 126, 127, 290, 7)]
                for target in ("ref", "cpu"):
                    far = distance(model, folder, target, texts)
                    if not far <= LIMIT:
                        print(f"wrong: {folder.name}, {target}: {far:.2g} of the largest away", file=sys.stderr)
                    passed, failed = passed + (far <= LIMIT), failed + (not far <= LIMIT)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
