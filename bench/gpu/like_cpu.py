# SPDX-License-Identifier: MIT
"""Folders of ONNX Runtime GenAI on the GPU beside the CPU: tokens, the divergence of their distributions, beams."""

import json
import tempfile

import genai

# Mean Kullback-Leibler divergence of a type's distributions to those of the CPU.
LIMITS = {"fp32": 1e-6, "int4-level1": 1e-6, "int4": 1e-2}


def generated(folder, on, run, target, options):
    """(sequences of tokens, tokens a second), or None."""
    code, out, err, _ = run(["bin/lathe", "generate", str(folder), "--target", on, "--json", *options], target, 300)
    if code != 0:
        print(f"{folder.name} on {on}: exit {code}\n{err[-1200:]}", flush=True)
        return None
    answer = json.loads(out)
    answers = answer if isinstance(answer, list) else answer.get("sequences", [answer])
    return [sequence["ids"] for sequence in answers]


def logits_of(folder, on, run, target, prompt):
    import numpy

    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        found = generated(folder, on, run, target, ["--ids", prompt, "--max-new-tokens", "1", "--logits", file.name])
        return None if found is None else numpy.load(file.name).astype(numpy.float64)


def log_softmax(x):
    import numpy

    x = x - x.max(-1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))


def prompts_of(count, length, vocabulary):
    return [[3 + (i * 7 + row * 131) % (min(vocabulary, 40_000) - 5) for i in range(length + 3 * row)]
            for row in range(count)]


def compare(root, run, target, results):
    import numpy

    host = target == "gpu:host"
    entries = results["like_cpu"] = []
    for folder in genai.folders(root):
        settings = json.loads((folder / "genai_config.json").read_text())["model"]
        vocabulary = settings["vocab_size"]
        kind = next((kind for kind in ("int4-level1", "int4", "fp32") if kind in folder.name), "fp32")
        texts = [",".join(map(str, prompt)) for prompt in prompts_of(4, 20 if host else 64, vocabulary)]
        each = [part for text in texts for part in ("--ids", text)]
        new = 6 if host else 256
        ways = {"greedy, 4 prompts": [*each, "--max-new-tokens", str(8 if host else 64)],
                "4 beams, 4 prompts": [*each, "--num-beams", "4", "--max-new-tokens", str(new)]}
        entry = {"model": folder.name}
        for way, options in ways.items():
            if "beams" in way and kind != "fp32":
                continue
            found, expected = (generated(folder, on, run, target, options) for on in (target, "cpu"))
            if found is None or expected is None:
                continue
            same = sum(a == b for a, b in zip(found, expected))
            first = min((next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(b)) for a, b in zip(found, expected)))
            entry[way] = [same, len(expected), first]
            print(f"{folder.name}, {way}, {max(map(len, expected))} new: {same} of {len(expected)} sequences equal those of "
                  f"cpu (first difference at {first})", flush=True)
        ours, cpu = (logits_of(folder, on, run, target, texts[0]) for on in (target, "cpu"))
        if ours is not None and cpu is not None:
            a, b = log_softmax(cpu), log_softmax(ours)
            divergence = float((numpy.exp(a) * (a - b)).sum(-1).mean())
            error = float(abs(ours - cpu).max() / abs(cpu).max())
            entry |= {"divergence": divergence, "error": error}
            print(f"{folder.name}: mean KL(cpu || {target}) {divergence:.2e} (limit {LIMITS[kind]:.0e}), largest difference of "
                  f"logits {error:.2e} of the largest, likeliest tokens equal in {int((a.argmax(-1) == b.argmax(-1)).sum())} "
                  f"of {len(a)}: {'ok' if abs(divergence) <= LIMITS[kind] else 'BEYOND'}", flush=True)
        entries.append(entry)
