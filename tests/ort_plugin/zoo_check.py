# SPDX-License-Identifier: MIT
"""Decoders of every type through ONNX Runtime GenAI on the execution provider, with recorded tokens.

usage: zoo_check.py LIBRARY [NAME...]     default: every type of the zoo
       zoo_check.py LIBRARY amdgpu        a folder of AMD's provider alone, on the device gpu:host

A token may differ where the recorded margin is within twice the tolerance of logits.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime_genai as og

ZOO = pathlib.Path("../shared/models/zoo")
NEW, BEAM_NEW = 32, 16
# Absolute, on logits of spread 3. With int8 activations a rounding tie moves logits by up to 0.3.
TOLERANCE = {"int4_acc4": 0.3, "int4_qdq": 0.5, "fp16_cuda": 0.05, "bf16_cuda": 0.3}
LOOSE = {"qwen3_5": 1e-3, "qwen3_5_moe": 1e-3, "phi": 1e-3}
# Graphs for another provider, and one that ONNX Runtime's CPU kernels refuse: Transformers' tokens.
OTHERS = {("llama", "fp16_cuda"), ("llama", "bf16_cuda"), ("gemma4_moe", "fp32")}


def unpack(target):
    """Folders of all types below `target`."""
    for archive in sorted(ZOO.glob("*.tar.zst")):
        if archive.name.split(".")[0] not in ("gguf", "whisper"):
            subprocess.run(["tar", "--zstd", "-xf", archive.resolve(), "-C", target], check=True)
    llama = target / "llama"  # the variants of the type
    for folder in sorted(ZOO.iterdir()):
        if not (folder / "expected.json").exists() or folder.name == "llama_processors":
            continue
        (target / folder.name).mkdir(exist_ok=True)
        for item in folder.iterdir():
            if not (target / folder.name / item.name).exists():
                (target / folder.name / item.name).symlink_to(item.resolve())
    return llama


def load(folder, provider="lathe"):
    config = og.Config(str(folder))
    config.clear_providers()
    config.append_provider(provider)
    if provider == "lathe":
        config.set_provider_option(provider, "strict", "1")
    return og.Model(config)


def check_amdgpu(library):
    """A folder that names AMD's provider runs as it is. Returns a problem, or None."""
    og.register_execution_provider_library("AMDGPUExecutionProvider", library)
    expected = json.loads((ZOO / "llama/expected.json").read_text())
    model = load(ZOO / "llama/fp32", "amdgpu")
    for name, recorded in expected["genai_fp32"]["greedy"].items():
        problem = wrong(tokens(model, [expected["prompts"][name]]), recorded, 1e-4)
        if problem:
            return f"amdgpu {name}: {problem}"
    if "LATHE_TARGET" not in os.environ:
        return None
    problem = wrong(tokens(model, expected["batch"]), expected["genai_fp32"]["batch_greedy"], 1e-4)
    return f"amdgpu, several prompts: {problem}" if problem else None


def start(model, prompts, **options):
    width = max(map(len, prompts))
    ids = np.array([p + [0] * (width - len(p)) for p in prompts], np.int32)
    params = og.GeneratorParams(model)
    params.set_search_options(**{"batch_size": len(prompts), "do_sample": False, "max_length": width + NEW, **options})
    generator = og.Generator(model, params)
    generator.append_tokens(ids)
    return width, generator


def tokens(model, prompts, **options):
    width, generator = start(model, prompts, **options)
    while not generator.is_done():
        generator.generate_next_token()
    count = options.get("num_return_sequences", len(prompts))
    return [np.array(generator.get_sequence(i))[width:].tolist() for i in range(count)]


def wrong(run, recorded, tolerance):
    """The first difference beyond the margins, or None."""
    for row, (got, want) in enumerate(zip(run, recorded["tokens"], strict=True)):
        for at, (a, b) in enumerate(zip(got, want)):
            if a == b:
                continue
            margin = recorded["margins"][row][at] if "margins" in recorded else np.inf
            if margin > 2 * tolerance:
                return f"sequence {row}, token {at}: {a}, expected {b} (margin {margin})"
            break
    return None


def later_appends(model, prompt, whole):
    """A second append, and a rewind, continue as the prompt at once does."""
    generator = start(model, [prompt[: len(prompt) // 2]], max_length=len(prompt) + NEW)[1]
    generator.append_tokens(np.array([prompt[len(prompt) // 2 :]], np.int32))
    for attempt in ("second append", "rewind"):
        while not generator.is_done():
            generator.generate_next_token()
        got = np.array(generator.get_sequence(0))[len(prompt) :].tolist()
        if got != whole:
            return f"{attempt}: {got[:8]}…, expected {whole[:8]}…"
        if attempt == "second append":
            generator.rewind_to(len(prompt))
            generator.append_tokens(np.array([whole[:1]], np.int32))
    return None


def check_folder(folder, expected, type_name):
    """Yields a line per difference."""
    form = folder.name
    reference = expected.get("transformers" if (type_name, form) in OTHERS else f"genai_{form}", {})
    if "greedy" not in reference:
        return
    tolerance = TOLERANCE.get(form, LOOSE.get(type_name, 1e-4))
    model = load(folder)
    for name, recorded in reference["greedy"].items():
        if "tokens" in recorded:
            problem = wrong(tokens(model, [expected["prompts"][name]]), recorded, tolerance)
            if problem:
                yield f"greedy {name}: {problem}"
    recorded = reference.get("batch_greedy", {})
    if "tokens" in recorded and (type_name, form) not in OTHERS:
        problem = wrong(tokens(model, expected["batch"]), recorded, tolerance)
        if problem:
            yield f"batch: {problem}"
    for name, recorded in reference.get("beams", {}).items():
        if "tokens" not in recorded or form in TOLERANCE or (type_name, form) in OTHERS:
            continue
        prompt = expected["prompts"][name]
        got = tokens(model, [prompt], batch_size=1, num_beams=4, num_return_sequences=4, length_penalty=1.0,
                     early_stopping=True, max_length=len(prompt) + BEAM_NEW)
        if got != recorded["tokens"]:
            yield f"beams {name}: {got}, expected {recorded['tokens']}"
    if type_name in ("llama", "qwen3") and form in ("fp32", "int4"):
        prompt = expected["prompts"]["p33"]
        problem = later_appends(model, prompt, tokens(model, [prompt])[0])
        if problem:
            yield problem


def main():
    library = str(pathlib.Path(sys.argv[1]).resolve())
    if sys.argv[2:] == ["amdgpu"]:
        os.environ["LATHE_TARGET"] = "gpu:host"
        problem = check_amdgpu(library)
        print(problem or "amdgpu: caches in the memory of gpu:host")
        return 1 if problem else 0
    og.register_execution_provider_library("lathe", library)
    problem = check_amdgpu(library)
    passed, failed = int(problem is None), int(problem is not None)
    if problem:
        print(problem)
    with tempfile.TemporaryDirectory() as scratch:
        target = pathlib.Path(scratch)
        unpack(target)
        for file in sorted(target.glob("*/expected.json")):
            if sys.argv[2:] and file.parent.name not in sys.argv[2:]:
                continue
            expected = json.loads(file.read_text())
            for config in sorted(file.parent.glob("*/genai_config.json")):
                name = f"{file.parent.name}/{config.parent.name}"
                try:
                    problems = list(check_folder(config.parent, expected, file.parent.name))
                except Exception as error:  # noqa: BLE001 — whatever GenAI throws
                    problems = [str(error)]
                passed, failed = passed + (not problems), failed + bool(problems)
                for problem in problems:
                    print(f"{name}: {problem}", flush=True)
    print(f"zoo: {passed} folders passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
