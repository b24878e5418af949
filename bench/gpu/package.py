# SPDX-License-Identifier: MIT
"""Lathe's Python package of the archive, and what the programs of this folder that import it share.

Each such program is a process of its own: what a card's failure leaves behind ends with it. It prints one JSON object.
"""

import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


def ids(count, vocabulary, step=37):
    return [3 + i * step % (min(vocabulary, 50_000) - 5) for i in range(count)]


def generate(model, prompt, new, **options):
    """(tokens, seconds until each) of one greedy generation."""
    import lathe.genai as og

    params = og.GeneratorParams(model)
    length = len(prompt) + new
    params.set_search_options(do_sample=False, min_length=length, max_length=length, **options)
    start = time.perf_counter()
    generator = og.Generator(model, params)
    generator.append_tokens(prompt)
    times = []
    while not generator.is_done():
        generator.generate_next_token()
        times.append(time.perf_counter() - start)
    return [int(token) for token in generator.get_sequence(0)[len(prompt):]], times


def call(program, arguments, run, target, seconds=200):
    """Runs a program of this folder; what it prints, or None."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name(program)), *map(str, arguments)]
    code, out, err, _ = run(command, target, seconds)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if code != 0 or not lines:
        print(f"{program} {' '.join(map(str, arguments))}: exit {code}\n{out[-800:]}{err[-1500:]}", flush=True)
        return None
    return json.loads(lines[-1])
