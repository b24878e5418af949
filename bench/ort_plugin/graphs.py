# SPDX-License-Identifier: MIT
"""Times ONNX models on the execution provider beside ONNX Runtime's CPU EP, and `lathe perf`.

usage: graphs.py LIBRARY MODEL.onnx... [--threads=2] [--runs=20] [--rounds=5] [--refuse=OPERATORS] [--lathe=PROGRAM]
    [--sizes=batch:2,…]

Outputs are bound, unknown sizes are 1, of a sequence 128, of a past 0, or those of --sizes=NAME:SIZE,…. Rounds are
interleaved; a round counts by its median, an EP by its best round. With --lathe=build/release/bin/lathe each line has
the program's own time too.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
SIZES = {}  # of dims, by name


def read_sizes(text):
    SIZES.update((name, int(size)) for name, size in (entry.split(":") for entry in text.split(",") if entry))


def session(path, provider, threads, refuse):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if provider != "lathe":
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "lathe"]
    options.add_provider_for_devices(devices, {"threads": str(threads), "refuse": refuse})
    return onnxruntime.InferenceSession(path, options)


def size_of(dim):
    if dim in SIZES:
        return SIZES[dim]
    if "past" in str(dim):
        return 0
    return dim if isinstance(dim, int) else 128 if "seq" in str(dim) or "length" in str(dim) else 1


def bound(made):
    random, io = np.random.default_rng(1), made.io_binding()
    for given in made.get_inputs():
        shape, kind = [size_of(dim) for dim in given.shape], TYPES[given.type]
        value = random.random(shape) if kind == np.float32 else random.integers(0, 2, shape)
        io.bind_cpu_input(given.name, value.astype(kind))
    for output in made.get_outputs():
        io.bind_output(output.name)
    return io


def milliseconds(made, io, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        made.run_with_iobinding(io)
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def perf(program, path, fills, threads, runs):
    command = [program, "perf", path, "--json", f"--iterations={runs}", f"--threads={threads}", *fills]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["latency_ms"]["p50"]


def main():
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    library, *models = [a for a in sys.argv[1:] if not a.startswith("--")]
    read_sizes(options.get("sizes", ""))
    threads, runs = int(options.get("threads", 2)), int(options.get("runs", 20))
    onnxruntime.register_execution_provider_library("lathe", str(pathlib.Path(library).resolve()))
    ratios = []
    for path in models:
        made = {name: session(path, name, threads, options.get("refuse", "")) for name in ("lathe", "cpu")}
        bindings = {name: bound(one) for name, one in made.items()}
        dims = {d for given in made["cpu"].get_inputs() for d in given.shape if isinstance(d, str)}
        fills = [f"--fill={dim}={size_of(dim)}" for dim in sorted(dims)]
        best = dict.fromkeys([*made, *(["perf"] if "lathe" in options else [])], float("inf"))
        for _ in range(int(options.get("rounds", 5))):
            for name, one in made.items():
                milliseconds(one, bindings[name], 2)
                best[name] = min(best[name], milliseconds(one, bindings[name], runs))
            if "perf" in best:
                best["perf"] = min(best["perf"], perf(options["lathe"], path, fills, threads, runs))
        ours, theirs = best["lathe"], best["cpu"]
        ratios.append(theirs / ours)
        own = f", lathe perf {best['perf']:.2f} ms: {ours / best['perf']:.3f} of it" if "perf" in best else ""
        print(f"{pathlib.Path(path).parent.name}/{pathlib.Path(path).name}: {ours:.2f} / {theirs:.2f} ms, "
              f"CPU EP's time {theirs / ours:.2f} times ours{own}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
