# SPDX-License-Identifier: MIT
"""Times GenAI folders on the execution provider beside ONNX Runtime's CPU EP.

usage: genai.py LIBRARY FOLDER... [--threads=1] [--prompt=512] [--tokens=64] [--rounds=3] [--lathe=PROGRAM]

Prints for each folder tokens per second of the prompt and of decoding, and their ratios; rounds of both are
interleaved, the best of each counts. With --lathe=build/release/bin/lathe the program's own speed as well (`lathe perf`
computes logits of the last prompt token alone, GenAI those of all).
"""

import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnxruntime_genai as og


def load(folder, provider, threads):
    config = og.Config(str(folder))
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
    config.clear_providers()
    if provider:
        config.append_provider(provider)
        config.set_provider_option(provider, "threads", str(threads))
    return og.Model(config)


def measure(model, prompt, tokens):
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=len(prompt) + tokens, min_length=len(prompt) + tokens)
    generator = og.Generator(model, params)
    start = time.perf_counter()
    generator.append_tokens(prompt)
    generator.generate_next_token()
    middle = time.perf_counter()
    steps = 0
    while not generator.is_done():
        generator.generate_next_token()
        steps += 1
    return len(prompt) / (middle - start), steps / (time.perf_counter() - middle)


def perf(program, folder, threads, prompt, tokens):
    command = [program, "perf", str(folder), "--json", f"--threads={threads}", f"--prompt-tokens={prompt}",
               f"--new-tokens={tokens}", "--iterations=1"]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return out["prompt_tokens_per_second"], out["tokens_per_second"]


def main():
    options = dict(a[2:].split("=") for a in sys.argv[1:] if a.startswith("--"))
    library, *folders = [a for a in sys.argv[1:] if not a.startswith("--")]
    threads, rounds = int(options.get("threads", 1)), int(options.get("rounds", 3))
    og.register_execution_provider_library("lathe", str(pathlib.Path(library).resolve()))
    prompt = np.random.default_rng(1).integers(10, 400, int(options.get("prompt", 512))).astype(np.int32)
    for folder in map(pathlib.Path, folders):
        models = {name: load(folder, name, threads) for name in ("lathe", "")}
        best = {name: (0.0, 0.0) for name in (*models, "perf")}
        tokens = int(options.get("tokens", 64))
        for _ in range(rounds):
            for name, model in models.items():
                run = measure(model, prompt, tokens)
                best[name] = tuple(map(max, best[name], run))
            if "lathe" in options:
                run = perf(options["lathe"], folder, threads, len(prompt), tokens)
                best["perf"] = tuple(map(max, best["perf"], run))
        (ours, step), (theirs, their_step) = best["lathe"], best[""]
        own = ""
        if "lathe" in options:
            own = (f"; lathe perf {best['perf'][0]:.0f}, {best['perf'][1]:.1f} tok/s: "
                   f"{ours / best['perf'][0]:.2f}, {step / best['perf'][1]:.2f} of it")
        print(f"{folder.name}, {threads} threads: prompt {ours:.0f} / {theirs:.0f} tok/s = {ours / theirs:.2f}, "
              f"decode {step:.1f} / {their_step:.1f} tok/s = {step / their_step:.2f}{own}", flush=True)


if __name__ == "__main__":
    main()
