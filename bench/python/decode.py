# SPDX-License-Identifier: MIT
"""Compares the tokens per second of a Python loop over lathe.genai with those of `lathe generate`.

usage: decode.py LATHE MODEL_FOLDER      LATHE: the program; needs the package lathe

Both alternate, after their prefill; the best of each counts.
"""

import json
import subprocess
import sys
import time

import lathe.genai

PROMPT, TOKENS, ROUNDS, BAR = "Once upon a time there was a small lathe that", 128, 9, 0.98


def python_rate(model, ids):
    params = lathe.genai.GeneratorParams(model)
    length = len(ids) + TOKENS
    params.set_search_options(max_length=length, min_length=length)
    generator = lathe.genai.Generator(model, params)
    generator.append_tokens(ids)
    generator.generate_next_token()
    start, count = time.perf_counter(), 0
    while not generator.is_done():
        generator.generate_next_token()
        generator.get_next_tokens()
        count += 1
    return count / (time.perf_counter() - start)


def program_rate(program, folder):
    done = subprocess.run([program, "generate", folder, "-p", PROMPT, "--max-new-tokens", str(TOKENS),
                           "--min-new-tokens", str(TOKENS), "--json"], check=True, capture_output=True)
    return json.loads(done.stdout)["tokens_per_second"]


def main():
    program, folder = sys.argv[1:]
    model = lathe.genai.Model(folder)
    ids = lathe.genai.Tokenizer(model).encode(PROMPT)
    rows = [(python_rate(model, ids), program_rate(program, folder)) for _ in range(ROUNDS)]
    ours, theirs = (max(row[i] for row in rows) for i in (0, 1))
    print(f"{folder}: Python {ours:.1f} tokens per second, lathe generate {theirs:.1f}  "
          f"ratio {ours / theirs:.3f} (bar {BAR})")


main()
