# SPDX-License-Identifier: MIT
"""The zoo's types as F32 GGUF files against llama.cpp, which computes the log-probabilities of the token after a prompt.

usage: llama_cpp.py DIR [TYPE…]

bench/llm/fetch_llama_cpp.sh DIR fetches llama.cpp. What it does not load, or computes unlike Transformers, is skipped."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

import zoo
from checkpoints_test import NAMES, float_tensors, hf_types
from probe import Probe, Refused
from write_gguf import write_gguf

PROMPT = [1, 7, 42, 3, 99, 12, 5, 23, 77, 8, 31, 64, 11]
MOST = 1e-3
GELU = 1e-2  # llama.cpp's is a table of f16
LIMITS = dict.fromkeys(("gemma", "gemma2", "gemma4", "gemma4_moe", "phi", "starcoder2"), GELU)
BY_SIZE = "llama.cpp chooses LongRoPE's factors by the size of the context"
DIFFERENT = {"gpt_oss": "llama.cpp rounds YaRN's bounds", "phi3_longrope": BY_SIZE, "phi4_mini": BY_SIZE,
             "phimoe": "llama.cpp scales cosines and sines by the long factors"}


@contextlib.contextmanager
def server(folder, model):
    """The address of a server of the model; None if it does not load it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [folder / "llama-server", "-m", model, "--port", str(port), "-c", "64", "-t", "2", "-ctk", "f32", "-ctv", "f32",
               "-fa", "off", "--no-warmup"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        address = f"http://127.0.0.1:{port}"
        for line in process.stderr:
            if "listening on" in line:
                break
        yield address if process.poll() is None and healthy(address, process) else None
    finally:
        process.kill()
        process.communicate()


def healthy(address, process):
    for _ in range(100):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            if answer.status == 200:
                return True
        if process.poll() is not None:
            return False
        time.sleep(0.1)
    return False


def log_probabilities(address):
    """Token to log-probability."""
    body = json.dumps({"prompt": PROMPT, "n_predict": 1, "n_probs": 500, "ignore_eos": True, "temperature": 1.0, "samplers": []}).encode()
    request = urllib.request.Request(f"{address}/completion", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        first = json.load(answer)["completion_probabilities"][0]
    return {one["id"]: one["logprob"] for one in first["top_logprobs"]}


def compare(folder, probe, t, work):
    model = work / f"{t.name}.gguf"
    write_gguf(t.folder / "hf", dict(float_tensors(t.folder / "hf")), model, NAMES.get(t.name))
    logits = probe.logits({"folder": str(model), "target": "cpu", "compute": "f32"}, [PROMPT])[-1].astype(np.float64)
    ours = logits - logits.max()
    ours -= np.log(np.exp(ours).sum())
    with server(folder, model) as address:
        if address is None:
            return None
        theirs = log_probabilities(address)
    if len(theirs) < 100:
        raise Refused(f"llama.cpp returned {len(theirs)} log-probabilities")
    return max(abs(ours[token] - value) for token, value in theirs.items())


def main(folder, *names):
    failed = skipped = passed = 0
    with tempfile.TemporaryDirectory() as work, Probe() as probe:
        for t in hf_types(pathlib.Path(work)):
            if names and t.name not in names:
                continue
            try:
                found = compare(pathlib.Path(folder).resolve(), probe, t, pathlib.Path(work))
            except (Refused, KeyError, OSError) as error:
                found = error
            most = LIMITS.get(t.name, MOST)
            if found is None:
                skipped += 1
                print(f"{t.name}: llama.cpp does not load it")
            elif t.name in DIFFERENT and not isinstance(found, Exception):
                skipped += 1
                print(f"{t.name}: {found:.1e}, not compared: {DIFFERENT[t.name]}")
            elif isinstance(found, Exception) or not found <= most:
                failed += 1
                print(f"{t.name}: FAILED: {found!r}, expected at most {most}")
            else:
                passed += 1
                print(f"{t.name}: {found:.1e} (at most {most})")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
