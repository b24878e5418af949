# SPDX-License-Identifier: MIT
"""Language models on gpu:host (TEST_GPU: another target) generate the tokens of cpu: greedy, several prompts in one
step, beams, sampled; their layers run on the device, in a known number of launches."""

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
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr}"
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


def kernels_of(folder, target, *options):
    launches = json.loads(run("explain", folder, "--target", target, *options, "--json"))["launches"]
    return [launch["kernel"] for launch in launches]


def check_launches(folder):
    kernels = kernels_of(folder, TARGET)
    others = [kernel for kernel in kernels if not kernel.startswith(("gpu.", "executor"))]
    assert kernels and not others, f"{folder}: {others} do not run on {TARGET}"


def check_contiguous_caches(model):
    """The file as it is, as the plug-in of ONNX Runtime runs it."""
    attention = [kernel for kernel in kernels_of(model, TARGET) if "group_query_attention" in kernel]
    others = [kernel for kernel in attention if not kernel.startswith("gpu.")]
    assert attention and not others, f"{model}: attention on {TARGET} is {attention}"


def check_casts(folder):
    kernels = kernels_of(folder, TARGET, "--compute", "bf16")
    casts = kernels.count("gpu.cast")
    assert casts == 1, f"{folder} in bf16: {casts} casts, expected one, of the logits"


def check_counts(folder, options, layer, others):
    """Launches of a step but copies: those of each of two layers, and the others."""
    kernels = kernels_of(folder, TARGET, *options)
    found = sorted(kernel for kernel in kernels if not kernel.startswith(("gpu.copy", "executor")))
    expected = sorted(f"gpu.{kernel}" for kernel in 2 * layer + others)
    assert found == expected, f"{folder} {options}: launches {found}, expected {expected}"
    copies = kernels.count("gpu.copy")
    assert copies == 6, f"{folder} {options}: {copies} copies, expected 6: tokens, tables, chosen rows, logits"


def layer_of(product, bias=""):
    """Five launches: each normalisation in the product behind it, each residual in the one before it."""
    norm = "simplified_layer_normalization+"
    gated = f"{norm}{product}+{product}+swiglu"
    return [norm + product + bias, "sequence_attention", f"{product}+add", gated, f"{product}+add"]


def check_launches_of_step(zoo):
    others = ["gather", "simplified_layer_normalization", "gather", "cast"]
    check_counts(zoo / "llama/hf", ["--compute", "bf16"], layer_of("matmul"), [*others, "matmul"])
    check_counts(zoo / "qwen2/hf", ["--compute", "bf16"], layer_of("matmul", "+add"), [*others, "matmul"])
    on_cpu = kernels_of(zoo / "qwen2/hf", "cpu")
    assert on_cpu.count("cpu.matmul+add") == 6, f"on cpu: {on_cpu}, expected query, keys and values on their own"
    product = "matmul_n_bits"
    check_counts(zoo / "llama/int4", ["--compute", "bf16"], layer_of(product), [*others, product])


def main():
    zoo = MODELS / "zoo"
    if not zoo.exists():
        print(f"skipped: no {zoo}")
        return 77
    check_launches(zoo / "llama/fp32")
    check_launches(zoo / "llama/int4")
    check_contiguous_caches(zoo / "llama/fp32/model.onnx")
    for model in ("llama/hf", "llama/fp32", "llama/int4"):
        check_casts(zoo / model)
    check_launches_of_step(zoo)
    check_tokens(zoo / "llama/fp32", ["greedy", "two prompts", "beams", "sampled"])
    check_tokens(zoo / "llama/int4", ["greedy", "two prompts"])
    check_tokens(zoo / "llama/hf", ["two prompts", "quantised"])
    check_tokens(zoo / "qwen2/hf", ["two prompts", "beams", "quantised"])
    check_tokens(zoo / "gemma2/fp32", ["greedy", "beams"])
    check_tokens(MODELS / "llm/stories260k-onnx", ["greedy"])
    print("all tokens as on cpu")
    return 0


if __name__ == "__main__":
    sys.exit(main())
