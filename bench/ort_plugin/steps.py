# SPDX-License-Identifier: MIT
"""Times decode steps of a GenAI folder on the execution provider with short and long caches.

usage: steps.py LIBRARY FOLDER... [--threads=1] [--filled=400] [--steps=100]

Two generators with max_length 640 and 8,192, both filled equally, step alternately; prints their medians and ratio.
"""

import pathlib
import statistics
import sys
import time

import genai
import numpy as np
import onnxruntime_genai as og

LENGTHS = (640, 8192)


def generator(model, prompt, length):
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=length, min_length=length)
    made = og.Generator(model, params)
    made.append_tokens(prompt)
    made.generate_next_token()
    return made


def main():
    options = dict(a[2:].split("=") for a in sys.argv[1:] if a.startswith("--"))
    library, *folders = [a for a in sys.argv[1:] if not a.startswith("--")]
    og.register_execution_provider_library("lathe", str(pathlib.Path(library).resolve()))
    prompt = np.random.default_rng(1).integers(10, 400, int(options.get("filled", 400))).astype(np.int32)
    for folder in map(pathlib.Path, folders):
        model = genai.load(folder, "lathe", int(options.get("threads", 1)))
        made = {length: generator(model, prompt, length) for length in LENGTHS}
        times = {length: [] for length in LENGTHS}
        for _ in range(int(options.get("steps", 100))):
            for length, one in made.items():
                start = time.perf_counter()
                one.generate_next_token()
                times[length].append(1000 * (time.perf_counter() - start))
        short, long = (statistics.median(times[length]) for length in LENGTHS)
        print(f"{folder.name}: a step with max_length 8192 {long:.2f} ms, 640 {short:.2f} ms, {long / short:.2f}")


if __name__ == "__main__":
    main()
