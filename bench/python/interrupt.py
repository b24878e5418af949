# SPDX-License-Identifier: MIT
"""Measures how soon Ctrl-C ends a load, a prefill, a compilation and a run of the package lathe.

usage: interrupt.py MODEL_FOLDER...      needs the package lathe

SIGINT arrives at evenly spread moments of each; the longest wait counts. After each the same object
works again.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np

import lathe.genai
import lathe.onnxruntime

BAR, MOMENTS, TOKENS = 0.2, 16, 500


def longest_wait(call):
    """The longest wait for KeyboardInterrupt, and how many calls were interrupted."""
    call()
    start = time.perf_counter()
    call()
    whole = time.perf_counter() - start
    waits = []
    for moment in range(1, MOMENTS):
        sent = []

        def send():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(whole * moment / MOMENTS, send)
        try:
            timer.start()
            call()
            timer.cancel()
            timer.join()
        except KeyboardInterrupt:
            waits.append(time.perf_counter() - sent[0])
    call()
    return max(waits, default=float("nan")), len(waits), whole


def measures(folder):
    yield "load", lambda: lathe.genai.Model(folder)
    model = lathe.genai.Model(folder)
    params = lathe.genai.GeneratorParams(model)
    params.set_search_options(max_length=TOKENS + 2)
    ids = np.arange(1, TOKENS + 1, dtype=np.int32)
    generator = lathe.genai.Generator(model, params)

    def prefill():
        generator.rewind_to(0)
        generator.append_tokens(ids)

    yield f"prefill of {TOKENS} tokens", prefill
    program = lathe.parse_onnx(str(pathlib.Path(folder, "model.onnx")))
    yield "compile", lambda: program.compile(lathe.get_target("cpu"))
    session = lathe.onnxruntime.InferenceSession(str(pathlib.Path(folder, "model.onnx")))
    feed = {}
    decoder = json.loads(pathlib.Path(folder, "genai_config.json").read_text())["model"]["decoder"]
    for arg in session.get_inputs():
        past = len(arg.shape) == 4  # a past of no tokens
        shape = [1, decoder["num_key_value_heads"], 0, decoder["head_size"]] if past else [1, TOKENS]
        feed[arg.name] = np.ones(shape, np.float32 if past else np.int64)
    yield "run", lambda: session.run(None, feed)


def main():
    for folder in sys.argv[1:]:
        for name, call in measures(folder):
            wait, count, whole = longest_wait(call)
            print(f"{folder}: {name} of {whole:.2f} s: Ctrl-C ends it within {wait * 1e3:.0f} ms "
                  f"({count} of {MOMENTS - 1} interrupted, bar {BAR * 1e3:.0f} ms)", flush=True)


main()
