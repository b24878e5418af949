# SPDX-License-Identifier: MIT
"""Compiled contexts (nodes EPContext) of ONNX models: results, and the time in which a session is made.

usage: contexts.py LIBRARY MODEL.onnx... [--threads=2] [--rounds=3] [--sizes=NAME:SIZE,…]

Writes each model with contexts beside it and embedded, then compares the results of sessions from both with the model's
own, bit by bit. Prints the best times of making sessions (rounds are interleaved) beside the CPU EP's, and the memory
that each holds outside of files. The exit status is 1 if a bit differs.
"""

import pathlib
import sys
import tempfile
import time

import graphs
import numpy as np
import onnxruntime


def anonymous():
    """Resident megabytes outside of files."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


def session(path, threads, provider="lathe", **entries):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    for key, value in entries.items():
        options.add_session_config_entry(f"ep.context_{key}", value)
    if provider != "lathe":
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "lathe"]
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices, {"threads": str(threads)})
    return onnxruntime.InferenceSession(path, options, enable_fallback=0)


def inputs(made):
    random, out = np.random.default_rng(1), {}
    for given in made.get_inputs():
        shape, kind = [graphs.size_of(dim) for dim in given.shape], graphs.TYPES[given.type]
        value = random.random(shape) if kind == np.float32 else random.integers(0, 2, shape)
        out[given.name] = np.ones(shape, kind) if "mask" in given.name else value.astype(kind)
    return out


def check(path, threads, rounds, folder):
    own = session(path, threads)
    feeds = inputs(own)
    expected = own.run(None, feeds)
    del own
    written = {}
    for name, embed in (("beside", "0"), ("embedded", "1")):
        written[name] = str(pathlib.Path(folder, f"{name}.onnx"))
        session(path, threads, enable="1", file_path=written[name], embed_mode=embed)
    different, best, held = 0, {}, {}
    for _ in range(rounds):
        for name, file in [*written.items(), ("CPU EP", path)]:
            before, start = anonymous(), time.perf_counter()
            made = session(file, threads, "cpu" if name == "CPU EP" else "lathe")
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
            held[name] = anonymous() - before
            if name != "CPU EP":
                got = made.run(None, feeds)
                different += sum(a.tobytes() != b.tobytes() for a, b in zip(got, expected, strict=True))
            del made
    theirs = best["CPU EP"]
    times = ", ".join(f"{name} {1000 * seconds:.0f} ms ({seconds / theirs:.2f}), {held[name]:.0f} MB"
                      for name, seconds in best.items())
    print(f"{pathlib.Path(path).parent.name}/{pathlib.Path(path).name}: {different} of "
          f"{2 * rounds * len(expected)} results differ; session {times}", flush=True)
    return different


def main():
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    library, *models = [a for a in sys.argv[1:] if not a.startswith("--")]
    graphs.read_sizes(options.get("sizes", ""))
    onnxruntime.register_execution_provider_library("lathe", str(pathlib.Path(library).resolve()))
    print(f"ONNX Runtime {onnxruntime.__version__}")
    failed = 0
    for path in models:
        with tempfile.TemporaryDirectory() as folder:
            failed |= check(path, int(options.get("threads", 2)), int(options.get("rounds", 3)), folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
