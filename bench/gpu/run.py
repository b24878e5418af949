# SPDX-License-Identifier: MIT
"""Tests and times Lathe on a GPU.

usage: run.py [--target gpu] [--parts rows,graphs,torch] [--json FILE]

Runs in the folder into which gpu_pack.sh's archive was unpacked. Prints a table; --json writes all numbers.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Graph, sizes of its symbols or inputs, largest error relative to the largest output.
GRAPHS = [
    ("resnet50", ["batch=1"], 1e-4),
    ("resnet50", ["batch=8"], 1e-4),
    ("mobilenet_v3_large", ["batch=1"], 1e-4),
    ("efficientnet_b0", ["batch=1"], 1e-4),
    ("vit_b_16", ["batch=1"], 1e-4),
    ("bert_base", ["batch=1", "sequence=128"], 1e-4),
    ("bert_base", ["batch=8", "sequence=128"], 1e-4),
]


def environment(target):
    libraries = str(ROOT / "lib")
    return os.environ | {
        "LD_LIBRARY_PATH": libraries + ":" + os.environ.get("LD_LIBRARY_PATH", ""),
        "TEST_GPU": "" if target == "gpu:host" else target,
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(ROOT / "cache")),
    }


def run(command, target, seconds=500):
    env = environment(target)
    if not env["TEST_GPU"]:
        del env["TEST_GPU"]
    start = time.time()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        return -1, str(error.stdout or "")[-2000:], "time limit", time.time() - start
    return done.returncode, done.stdout, done.stderr, time.time() - start


def make_data(path):
    """Writes the graph's external data: random weights, of the scale that keeps activations near 1."""
    import numpy
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    random = numpy.random.default_rng(1)
    parts = {}
    for tensor in model.graph.initializer:
        fields = {entry.key: entry.value for entry in tensor.external_data}
        if not fields:
            continue
        count = int(numpy.prod(tensor.dims, dtype=numpy.int64))
        if tensor.data_type == onnx.TensorProto.FLOAT:
            if len(tensor.dims) > 1:
                fan_in = count // tensor.dims[0] if len(tensor.dims) == 4 else tensor.dims[0]
                values = random.standard_normal(count) * (1.5 / max(fan_in, 1)) ** 0.5
            elif "bias" in tensor.name or "mean" in tensor.name:
                values = random.standard_normal(count) * 0.05
            else:
                values = 1 + random.standard_normal(count) * 0.05
            data = values.astype(numpy.float32).tobytes()
        else:
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            # Positions; types of tokens and the like are 0.
            data = (numpy.arange(count) * ("position" in tensor.name)).astype(kind).tobytes()
        parts.setdefault(fields["location"], []).append((int(fields.get("offset", 0)), data))
    for location, pieces in parts.items():
        with open(path.parent / location, "wb") as file:
            for offset, data in pieces:
                file.seek(offset)
                file.write(data)


def test_rows(target, results):
    code, out, err, seconds = run(["bin/gpu_tests", "--gtest_brief=1"], target)
    failures = [line for line in out.splitlines() if "FAILED  ]" in line]
    results["rows"] = {"code": code, "seconds": seconds, "failures": failures}
    print(f"op rows: exit {code}, {seconds:.1f} s, {len(failures)} failures")
    if code != 0:
        print(out[-6000:], err[-2000:])


def compare_graphs(target, results):
    import numpy

    for name, sizes, limit in GRAPHS:
        path = ROOT / "graphs" / f"{name}.onnx"
        if not path.exists():
            continue
        if not pathlib.Path(f"{path}.data").exists():
            make_data(path)
        fills = [part for size in sizes for part in ("--fill", size)]
        outputs = {}
        entry = {"graph": name, "sizes": sizes}
        with tempfile.TemporaryDirectory() as folder:
            for on in ("cpu", target):
                file = f"{folder}/{on.replace(':', '_')}.npz"
                code, out, err, seconds = run(
                    ["bin/lathe", "run", str(path), "--target", on, "--seed", "1", "-o", file]
                    + fills,
                    target,
                )
                if code != 0:
                    print(f"{name} {sizes} on {on}: exit {code}\n{err[-1500:]}{out[-500:]}")
                    break
                outputs[on] = dict(numpy.load(file))
                entry[f"seconds_{on}"] = seconds
        if len(outputs) == 2:
            entry["error"] = max(
                float(numpy.abs(outputs[target][key] - value).max() / max(abs(value).max(), 1e-30))
                for key, value in outputs["cpu"].items()
            )
            code, out, err, _ = run(
                ["bin/lathe", "perf", str(path), "--target", target, "--json", "-n", "30"] + fills,
                target,
            )
            if code == 0:
                entry["perf"] = json.loads(out)
            else:
                print(err[-1500:])
            verdict = "ok" if entry["error"] <= limit else "WRONG"
            print(
                f"{name} {' '.join(sizes)}: error {entry['error']:.2e} {verdict}, "
                f"cold {entry['seconds_' + target]:.2f} s, {entry.get('perf', {}).get('latency_ms')}"
            )
        results["graphs"].append(entry)


def time_torch(results):
    import torch
    import torchvision
    import transformers

    def measure(function):
        for _ in range(5):
            function()
        torch.cuda.synchronize()
        times = []
        for _ in range(30):
            start = time.perf_counter()
            function()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        model = torchvision.models.resnet50().eval().cuda()
        for batch in (1, 8):
            x = torch.randn(batch, 3, 224, 224).cuda()
            results["torch"][f"resnet50 {batch}"] = measure(lambda: model(x))
        config = transformers.BertConfig()
        bert = transformers.BertModel(config).eval().cuda()
        for batch in (1, 8):
            ids = torch.randint(0, 1000, (batch, 128)).cuda()
            results["torch"][f"bert_base {batch}x128"] = measure(lambda: bert(ids))
    for key, value in results["torch"].items():
        print(f"PyTorch eager f32 {key}: {value:.3f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="gpu")
    parser.add_argument("--parts", default="rows,graphs,torch")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = {"target": arguments.target, "graphs": [], "torch": {}}
    parts = arguments.parts.split(",")
    if "rows" in parts:
        test_rows(arguments.target, results)
    if "graphs" in parts:
        compare_graphs(arguments.target, results)
    if "torch" in parts:
        try:
            time_torch(results)
        except ImportError as error:
            print(f"skipped PyTorch: {error}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
