# SPDX-License-Identifier: MIT
"""Fifty lengths of prompts after the first: nothing is compiled; what a new length costs; then, where PyTorch's profiler
is there, what each step of decoding launches, copies and waits for.

usage: lengths.py FOLDER TARGET COMPUTE
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import package


def compiled():
    """Files in the cache of compiled code."""
    return sum(1 for path in pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob("*") if path.is_file())


def settled():
    """compiled(), once no more come: what decoding may need is compiled beside the first prompt."""
    before = None
    while before != (now := compiled()):
        before = now
        time.sleep(1.5)
    return now


def profile(model, prompt, new):
    """Medians over steps of decoding: launches, bytes copied, microseconds between the kernels of two steps."""
    import torch

    if not torch.cuda.is_available():
        return {}
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        package.generate(model, prompt, new)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        found.export_chrome_trace(file.name)
        events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
    work = sorted((event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")),
                  key=lambda event: event["ts"])
    # A step ends with the kernel that chooses its tokens; the copy of them belongs to it.
    steps, own = [], []
    for event in work:
        first = event["cat"] == "kernel" and "choose" not in event["name"]
        if first and any("choose" in other["name"] for other in own):
            steps.append(own)
            own = []
        own.append(event)
    steps = steps[2:]  # without the prompt's
    if len(steps) < 4:
        return {"steps": len(steps), "events": len(work)}
    kernels = [[event for event in step if event["cat"] == "kernel"] for step in steps]
    gaps = [second[0]["ts"] - first[-1]["ts"] - first[-1]["dur"] for first, second in zip(kernels, kernels[1:])]
    crossed = [sum(event["args"].get("bytes", 0) for event in step if event["cat"] == "gpu_memcpy"
                   and "DtoD" not in event["name"]) for step in steps]
    inside = [sum(event["dur"] for event in own) for own in kernels]
    return {
        "steps": len(steps),
        "launches": statistics.median(map(len, kernels)),
        "copies": statistics.median(sum(event["cat"] == "gpu_memcpy" for event in step) for step in steps),
        "crossed_bytes": max(crossed),
        "between_us": statistics.median(gaps),
        "kernels_us": statistics.median(inside),
        "step_us": statistics.median(b[0]["ts"] - a[0]["ts"] for a, b in zip(kernels, kernels[1:])),
    }


def measure(folder, target, compute):
    import lathe.genai as og

    host = target == "gpu:host"
    vocabulary = json.loads((pathlib.Path(folder) / "config.json").read_text())["vocab_size"]
    start = time.perf_counter()
    model = og.Model(folder, target=target, compute=compute)
    loaded = time.perf_counter() - start
    longest = 40 if host else 1500
    lengths = [1 + i * 7919 % longest for i in range(5 if host else 50)]
    first = package.generate(model, package.ids(longest, vocabulary), 4)[1][0]
    before = settled()
    new, again, equal = [], [], True
    for length in lengths:
        prompt = package.ids(length, vocabulary)
        tokens, times = package.generate(model, prompt, 3)
        new.append(times[0])
        for _ in range(2):
            same, times = package.generate(model, prompt, 3)
            equal = equal and same == tokens
        again.append(times[0])
    more = [1e3 * (a - b) for a, b in zip(new, again)]
    out = {"lengths": len(set(lengths)), "load_ms": 1e3 * loaded, "first_ms": 1e3 * first, "compiled": [before, compiled() - before], "equal": equal,
           "new_ms": [statistics.median(more), max(more)], "at": lengths[more.index(max(more))],
           "again_ms": [1e3 * min(again), 1e3 * max(again)]}
    try:
        out["step"] = profile(model, package.ids(64, vocabulary), 4 if host else 40)
    except ImportError:
        out["step"] = {}
    return out


def compare(folder, run, target, results):
    compute = "bf16"
    with tempfile.TemporaryDirectory() as cache:
        wrapped = lambda command, on, seconds: run(["env", f"XDG_CACHE_HOME={cache}", *command], on, seconds)  # noqa: E731
        found = package.call("lengths.py", [folder, target, compute], wrapped, target, 300)
    if found is None:
        return
    results["lengths"] = found
    print(f"{found['lengths']} lengths of prompts after the first ({found['first_ms']:.0f} ms with compiling, after {found['load_ms']:.0f} of "
          f"loading): "
          f"{found['compiled'][1]} files of code compiled after {found['compiled'][0]}, a new length costs {found['new_ms'][0]:.2f} ms (median), "
          f"{found['new_ms'][1]:.2f} (most, of {found['at']} tokens) beyond {found['again_ms'][0]:.2f} to "
          f"{found['again_ms'][1]:.2f} ms; runs of one prompt {'equal' if found['equal'] else 'DIFFER'}", flush=True)
    print(f"a step of decoding in PyTorch's profiler: {found['step'] or 'no card of PyTorch'}", flush=True)


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:4])))
