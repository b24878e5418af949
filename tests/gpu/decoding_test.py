# SPDX-License-Identifier: MIT
"""Language models on gpu:host (TEST_GPU: another target) generate the tokens of cpu: greedy, several prompts in one
step, beams, sampled; their layers run on the device."""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = os.environ["TEST_PROGRAM"]
TARGET = os.environ.get("TEST_GPU", "gpu:host")
MODELS = pathlib.Path("../shared/models")
LONG = ",".join(str(3 + i * 7 % 90) for i in range(40))
WAYS = {
    "greedy": ["--ids", LONG, "--max-new-tokens", "24"],
    "two prompts": ["--ids", "1,5,9,12", "--ids", LONG, "--max-new-tokens", "12"],
    "beams": ["--ids", "1,5,9", "--num-beams", "3", "--max-new-tokens", "8"],
    "quantised": ["--ids", LONG, "--quantize", "int4", "--max-new-tokens", "8"],
    "sampled": ["--ids", "1,5,9", "--do-sample", "true", "--random-seed", "7", "--max-new-tokens", "12"],
}


def run(*arguments):
    command = [PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return done.stdout


def ids(folder, target, way):
    answer = json.loads(run("generate", folder, "--target", target, "--json", *way))
    answers = answer if isinstance(answer, list) else answer.get("sequences", [answer])
    return [sequence["ids"] for sequence in answers]


def check_tokens(folder, ways):
    for name in ways:
        expected = ids(folder, "cpu", WAYS[name])
        found = ids(folder, TARGET, WAYS[name])
        assert all(expected) and found == expected, f"{folder}, {name}: {found}, expected {expected}"


def check_launches(folder):
    launches = json.loads(run("explain", folder, "--target", TARGET, "--json"))["launches"]
    kernels = [launch["kernel"] for launch in launches]
    others = [kernel for kernel in kernels if not kernel.startswith(("gpu.", "executor"))]
    assert kernels and not others, f"{folder}: {others} do not run on {TARGET}"


def check_casts(folder):
    command = ["explain", folder, "--target", TARGET, "--compute", "bf16", "--json"]
    kernels = [launch["kernel"] for launch in json.loads(run(*command))["launches"]]
    casts = kernels.count("gpu.cast")
    assert casts == 1, f"{folder} in bf16: {casts} casts, expected one, of the logits"


def main():
    zoo = MODELS / "zoo"
    if not zoo.exists():
        print(f"skipped: no {zoo}")
        return 77
    check_launches(zoo / "llama/fp32")
    check_launches(zoo / "llama/int4")
    for model in ("llama/hf", "llama/fp32", "llama/int4"):
        check_casts(zoo / model)
    check_tokens(zoo / "llama/fp32", ["greedy", "two prompts", "beams", "sampled"])
    check_tokens(zoo / "llama/int4", ["greedy", "two prompts"])
    check_tokens(zoo / "llama/hf", ["two prompts", "quantised"])
    check_tokens(zoo / "gemma2/fp32", ["greedy", "beams"])
    check_tokens(MODELS / "llm/stories260k-onnx", ["greedy"])
    print("all tokens as on cpu")
    return 0


if __name__ == "__main__":
    sys.exit(main())
