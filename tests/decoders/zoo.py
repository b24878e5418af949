# SPDX-License-Identifier: MIT
"""Tiny decoders of every type with recorded answers (../shared/models/zoo), and their comparison."""

import json
import os
import pathlib
import subprocess

import numpy as np

ZOO = pathlib.Path("../shared/models/zoo")
END = 2
# Absolute, on logits of spread 3; larger for graphs that differ from the model or magnify rounding.
LOOSE = {"qwen3_5": 1e-3, "qwen3_5_moe": 1e-3, "phi": 1e-3}
LONGROPE = ("phi3_longrope", "phi4_mini", "phimoe")
SWITCH = 64  # tokens, beyond which LongRoPE uses its long factors
FULL = bool(os.environ.get("LATHE_FULL_DECODERS"))
FEW = ("llama", "lfm2", "gemma2")  # under sanitizers


def few():
    return os.environ.get("TEST_PRESET") != "release"


class Type:
    """A decoder's folder and its recorded answers."""

    def __init__(self, folder):
        self.name = folder.name
        self.folder = folder
        self.expected = json.loads((folder / "expected.json").read_text())
        self.prompts = self.expected["prompts"]
        self.batch = self.expected["batch"]

    def forms(self):
        return sorted(path.name for path in self.folder.iterdir() if (path / "genai_config.json").exists())

    def reference(self, form):
        """The reference of this form: name of the runs and of the logits."""
        if form.startswith(("fp", "bf")) and self.name != "olmo":
            return "transformers", "hf"
        return f"genai_{form}", f"genai_{form}"

    def tolerance(self, form):
        return LOOSE.get(self.name, 1e-4)

    def arrays(self, name):
        path = self.folder / f"logits_{name}.npz"
        return dict(np.load(path)) if path.exists() else {}

    def greedy(self, reference):
        """For each prompt and batch entry: name, prompt, tokens, margins, and how many tokens to compare."""
        recorded = self.expected.get(reference, {})
        for name, run in recorded.get("greedy", {}).items():
            prompt = self.prompts[name]
            count = 32
            if self.name in LONGROPE and reference != "transformers" and len(prompt) <= SWITCH:
                count = SWITCH + 1 - len(prompt)  # GenAI keeps the keys of the short factors
            yield name, prompt, *run_of(run, 0), count
        batch_runs = recorded.get("batch_greedy", {})
        if "tokens" not in batch_runs:  # GenAI's sliding-window caches and M-RoPE do not support batches
            return
        longest = max(map(len, self.batch))
        for i, prompt in enumerate(self.batch):
            count = 32
            if self.name in LONGROPE and (len(prompt) < longest or reference != "transformers"):
                count = SWITCH + 1 - longest  # references switch the whole batch with its longest prompt
            if self.name == "lfm2" and reference != "transformers" and len(prompt) < longest:
                count = 1  # GenAI's padding enters the convolution's state
            yield f"batch {i}", prompt, *run_of(batch_runs, i), count


def run_of(runs, index):
    """Tokens and margins of a batch entry; GenAI omits its end token."""
    tokens, margins = runs["tokens"][index], runs["margins"][index]
    return tokens + [END] * (len(tokens) < len(margins)), margins


def until_end(tokens):
    return tokens[:tokens.index(END) + 1] if END in tokens else tokens


def before_end(tokens):
    return tokens[:tokens.index(END)] if END in tokens else tokens


def first_difference(got, tokens, margins, count, least):
    """Index at which `got` differs from recorded tokens, if before a margin below `least`."""
    expected = until_end(tokens[:count])
    for i, token in enumerate(expected):
        if margins[i] < least:
            return None
        if i >= len(got) or got[i] != token:
            return i
    return len(expected) if expected[-1] == END and len(got) > len(expected) else None


def types(work):
    """All types with graphs of one decoder; unpacks archives into `work`."""
    for path in ZOO.glob("*.tar.zst"):
        subprocess.run(["tar", "--zstd", "-xf", path, "-C", work], check=True)
    for path in ZOO.iterdir():
        if path.is_dir():
            (work / path.name).mkdir(exist_ok=True)  # variants have their own archive
            for part in path.iterdir():
                if not (work / path.name / part.name).exists():
                    (work / path.name / part.name).symlink_to(part.resolve())
    for folder in sorted(work.iterdir()):
        if (folder / "expected.json").exists() and (folder / "fp32").exists() and folder.name != "whisper":
            yield Type(folder)


def disagreements(t, form):
    """Differences between Transformers and ONNX Runtime GenAI on an f32 form: 'p60 from 5, beams p7 fails'."""
    ours, theirs = t.expected["transformers"], t.expected.get(f"genai_{form}", {})
    found = []

    def compare(what, a, b):
        if "tokens" not in b:
            found.append(f"{what} fails")
            return
        for i, (left, right) in enumerate(zip(a["tokens"], b["tokens"])):
            left, right = before_end(left) + [END], before_end(right) + [END]
            if left != right:
                index = next(i for i, (x, y) in enumerate(zip(left, right)) if x != y)
                found.append(f"{what}{f'[{i}]' if len(a['tokens']) > 1 else ''} from {index}")

    if "error" in theirs:
        return "all fails"
    for prompt, run in ours["greedy"].items():
        compare(prompt, run, theirs["greedy"][prompt])
    compare("batch", ours["batch_greedy"], theirs["batch_greedy"])
    for prompt, run in ours["beams"].items():
        compare(f"beams {prompt}", run, theirs["beams"].get(prompt, {}))
    for prompt, run in ours["greedy_repetition_penalty_1.3"].items():
        compare(f"penalty {prompt}", run, theirs["greedy_repetition_penalty_1.3"].get(prompt, {}))
    return ", ".join(found)
