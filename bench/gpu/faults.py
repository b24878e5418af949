# SPDX-License-Identifier: MIT
"""A full card, a limit of its memory, and a trap that loses it: errors that state what to do, nothing kept, other sessions
that go on.

usage: faults.py full|limit|trap SMALL LARGE TARGET     folders of language models
"""

import json
import pathlib
import subprocess
import sys

import package

GIB = 1 << 30


def tokens_of(model, vocabulary):
    return package.generate(model, package.ids(12, vocabulary), 8)[0]


def vocabulary_of(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return config["vocab_size"]


def refusal(work):
    """The error of `work`, or None."""
    import lathe

    try:
        work()
    except lathe.Error as error:
        return f"{type(error).__name__}: {error}"
    return None


def free_bytes():
    import torch

    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def full(small, large, target):
    """PyTorch takes nearly all; a model that does not fit is refused, one that is open goes on."""
    import lathe.genai as og
    import torch

    vocabulary = vocabulary_of(small)
    other = og.Model(small, target=target)
    expected = tokens_of(other, vocabulary)
    weights = sum(path.stat().st_size for path in pathlib.Path(large).glob("*.safetensors"))
    cases = []
    for left in (weights // 2, weights + 96 * (1 << 20), weights + 256 * (1 << 20)):
        size = max(free_bytes() - left, 0)
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        before = free_bytes()

        def work():
            model = og.Model(large, target=target, compute="bf16")
            package.generate(model, package.ids(1800, vocabulary_of(large)), 4)

        error = refusal(work)
        same = tokens_of(other, vocabulary) == expected
        after = free_bytes()
        cases.append({"left": before, "beyond_weights": left - weights, "error": error, "others": same,
                      "kept": before - after})
        del block
        torch.cuda.empty_cache()
    error = refusal(lambda: tokens_of(og.Model(large, target=target, compute="bf16"), vocabulary_of(large)))
    return {"cases": cases, "then": error}


def limit(small, large, target):
    """Limits below the weights, and where caches no longer fit."""
    weights = sum(path.stat().st_size for path in pathlib.Path(large).glob("*.safetensors"))
    cases = []
    for bytes_of in (weights // 2, weights + weights // 64, 4 * weights + GIB):
        command = [str(package.ROOT / "bin/lathe"), "generate", large, "--target", target, "--ids",
                   ",".join(map(str, package.ids(40, vocabulary_of(large)))), "--max-new-tokens", "4", "--json", "--compute", "bf16",
                   "--device-memory-limit", str(bytes_of)]
        done = subprocess.run(command, capture_output=True, text=True)
        cases.append({"limit": bytes_of, "weights": weights, "code": done.returncode,
                      "error": done.stderr.strip()[-600:]})
    return {"cases": cases}


def trap(small, large, target):
    """An assertion of a kernel of PyTorch's fails: the context of the process is lost."""
    import lathe.genai as og
    import torch

    vocabulary = vocabulary_of(small)
    lost, other = og.Model(small, target=target), og.Model(small, target="cpu")
    expected = tokens_of(other, vocabulary)
    before = tokens_of(lost, vocabulary)
    try:
        torch.zeros(4, device="cuda")[torch.full((4,), 1 << 20, device="cuda")].sum().item()
        trapped = "no error"
    except RuntimeError as error:
        trapped = str(error).splitlines()[0]
    errors = [refusal(lambda: tokens_of(lost, vocabulary)) for _ in range(2)]
    errors.append(refusal(lambda: og.Model(small, target=target)))
    return {"trap": trapped, "equal": before == expected, "errors": errors,
            "cpu": tokens_of(other, vocabulary) == expected,
            "new_cpu": tokens_of(og.Model(small, target="cpu"), vocabulary) == expected}


def compare(small, large, run, target, results):
    for part in ("limit",) if target == "gpu:host" else ("limit", "full", "trap"):
        found = results[part] = package.call("faults.py", [part, small, large, target], run, target, 200)
        if found is None:
            continue
        for case in found.pop("cases", []):
            print(f"{part}: {case}", flush=True)
        if found:
            print(f"{part}: {found}", flush=True)


if __name__ == "__main__":
    print(json.dumps({"full": full, "limit": limit, "trap": trap}[sys.argv[1]](*sys.argv[2:5])))
