# SPDX-License-Identifier: MIT
"""Graphs of vision and text on gpu:host have the results of cpu, and no launch of theirs runs on the host.

usage: graphs_check.py [NAME...]

By `make test-gpu-host`: a minute or two for each graph. TEST_DATA: the folder of graphs without weights, which
are filled into build/graphs.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np

PROGRAM = os.environ["TEST_PROGRAM"]
DATA = pathlib.Path(os.environ.get("TEST_DATA", "../shared"))
FILLED = pathlib.Path("build/graphs")
TARGET = "gpu:host"
SIZES = {"resnet50": ["batch=1"], "mobilenet_v3_large": ["batch=1"], "bert_base": ["batch=1", "sequence=16"]}
TOLERANCE = 1e-4


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr[-2000:]}"
    return done.stdout


def filled(name):
    folder = FILLED / name
    if not (folder / "ready").exists():
        run(sys.executable, DATA / "tools/fill_weights.py", DATA / f"graphs/{name}.onnx", folder)
        (folder / "ready").touch()
    return folder / f"{name}.onnx"


def results(model, name, target):
    sizes = [word for size in SIZES[name] for word in ("--fill", size)]
    out = FILLED / f"{name}-{target.replace(':', '-')}.npz"
    run(PROGRAM, "run", model, *sizes, "--seed", "5", "--target", target, "-o", out)
    with np.load(out) as file:
        return {key: file[key] for key in file.files}


def main(names):
    if not (DATA / "graphs").exists():
        print(f"skipped: no {DATA}/graphs")
        return 77
    for name in names or SIZES:
        model = filled(name)
        launches = json.loads(run(PROGRAM, "explain", model, "--target", TARGET, "--json"))["launches"]
        kernels = {launch["kernel"] for launch in launches}
        assert any(kernel.startswith("gpu.") for kernel in kernels), f"{name}: {kernels}"
        assert not any(kernel.startswith("cpu.") for kernel in kernels), f"{name}: {kernels}"
        expected, found = results(model, name, "cpu"), results(model, name, TARGET)
        assert expected and expected.keys() == found.keys(), f"{name}: {expected.keys()}, {found.keys()}"
        for key, values in expected.items():
            largest = np.abs(values).max()
            error = np.abs(values.astype(np.float64) - found[key]).max() / largest
            assert largest > 0 and error <= TOLERANCE, f"{name}, {key}: {error} of the largest value"
            print(f"{name}, {key}: {error:.1e} of the largest value, {len(launches)} launches", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
