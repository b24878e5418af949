# SPDX-License-Identifier: MIT
"""Tests and times Lathe on a GPU.

usage: run.py [--target gpu] [--parts PART,...] [--peers PEER,...] [--ways WAY;...] [--tests FILTER] [--minutes 9]
              [--out FOLDER]

Runs in the folder into which gpu_pack.sh's archive was unpacked: rows (tests of ops), graphs (beside the CPU),
decoding (language models beside the CPU), memcheck (tests under compute-sanitizer), torch (PyTorch, eager), encoders
(ResNet-50 and BERT in turns with torch.compile), racecheck, synccheck, sampling (choices of
tokens), int4 (linear layers beside PyTorch's), llama (4 layers of an 8B model's shape, with the time of each kernel),
llama-whole (all 32, also with int4 weights, 32 sequences and a long prompt), smollm2 (bf16), genai (stock ONNX Runtime
GenAI with the plug-in), like-cpu (tokens, distributions and beams of GenAI's folders beside the CPU), counters (launches
and bytes of graphs that stay on the card), lengths (50 lengths of prompts), upload (weights to the card, memory beside
them), faults (a full card, a limit, a trap), dlpack (PyTorch's tensors).
Models of llama, llama-whole and smollm2 are timed only where their log-probabilities are PyTorch's.
A part begins only while minutes are left. Prints lines as they come and a summary at the end; `results.tar.gz` in --out
(default: $OUT) has all numbers, and what programs and libraries print, after each part.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import counters
import dlpack
import encoders
import faults
import genai
import int4
import lengths
import like_cpu
import llama
import sampling
import sanitizer
import upload
from report import Report

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Graph, sizes of its symbols or inputs, compute types.
GRAPHS = [
    ("resnet50", ["batch=1"], ["f16", "f32"]),
    ("bert_base", ["batch=1", "sequence=128"], ["f16", "f32"]),
    ("resnet50", ["batch=8"], ["f16", "f32"]),
    ("bert_base", ["batch=8", "sequence=128"], ["f16", "f32"]),
    ("vit_b_16", ["batch=1"], ["f16", "f32"]),
    ("mobilenet_v3_large", ["batch=1"], ["f16", "f32"]),
    ("bert_base", ["batch=8", "sequence=384"], ["f16"]),
    ("resnet50", ["batch=64"], ["f16"]),
    ("resnet50", ["batch=1"], ["bf16"]),
    ("efficientnet_b0", ["batch=1"], ["f32"]),
]
SMALL = [
    ("resnet50", ["batch=1"], ["f16"]),
    ("bert_base", ["batch=1", "sequence=16"], ["f32"]),
]
# Largest error relative to the largest output.
LIMITS = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}


DEADLINE = 0.0  # in time.time()'s seconds
REPORT = None


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
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=max(20, min(seconds, DEADLINE - time.time())))
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # A sanitizer's program too.
            out, err = process.communicate()
            code, err = -1, err + f"stopped after {seconds:.0f} s"
        except BaseException:  # This program is being ended.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return code, out, err, time.time() - start


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


def test_rows(target, results, tests):
    code, out, err, seconds = run(["bin/gpu_tests", "--gtest_brief=1", f"--gtest_filter={tests}"], target)
    failures = [line for line in out.splitlines() if "FAILED  ]" in line]
    REPORT.keep("rows", out, err)
    results["rows"] = {"code": code, "seconds": seconds, "failures": failures}
    print(f"op rows: exit {code}, {seconds:.1f} s, {len(failures)} failures")
    if code != 0:
        print(out[-3000:], err[-1000:])


def decode(target, results):
    """Language models: the tokens of the CPU, and their rate."""
    results["decoding"] = []
    for folder in sorted((ROOT / "models").glob("*")):
        for compute in ("as_model",):
            answers = {}
            for on in ("cpu", target):
                code, out, err, seconds = run(
                    ["bin/lathe", "generate", str(folder), "--target", on, "--compute", compute, "--ids",
                     "1,5,9,12", "--max-new-tokens", "64", "--json"],
                    target,
                    100,
                )
                if code != 0:
                    print(f"{folder.name} on {on}: exit {code}\n{err[-1500:]}")
                    break
                answers[on] = json.loads(out)
            if len(answers) == 2:
                equal = answers["cpu"]["ids"] == answers[target]["ids"]
                entry = {"model": folder.name, "compute": compute, "equal": equal}
                entry |= {on: answer["tokens_per_second"] for on, answer in answers.items()}
                results["decoding"].append(entry)
                print(f"decoding: {entry}", flush=True)


def outputs_of(path, on, compute, fills, folder, target):
    """The outputs of a first run in a new process, and its seconds; prints why there are none."""
    import numpy

    file = f"{folder}/{on.replace(':', '_')}-{compute}.npz"
    command = ["bin/lathe", "run", str(path), "--target", on, "--seed", "1", "-o", file]
    code, out, err, seconds = run(command + ["--compute", compute] + fills, target)
    if code != 0:
        print(f"{path.stem} on {on} in {compute}: exit {code}\n{err[-1500:]}{out[-500:]}")
        return None, seconds
    for line in err.splitlines()[:3]:
        print(f"  {line}")
    return dict(numpy.load(file)), seconds


def compare_graphs(target, results):
    import numpy

    results["graphs"] = []
    for name, sizes, computes in SMALL if target == "gpu:host" else GRAPHS:
        path = ROOT / "graphs" / f"{name}.onnx"
        if not path.exists() or time.time() > DEADLINE:
            continue
        if not pathlib.Path(f"{path}.data").exists():
            make_data(path)
        fills = [part for size in sizes for part in ("--fill", size)]
        with tempfile.TemporaryDirectory() as folder:
            expected, cpu_seconds = outputs_of(path, "cpu", "f32", fills, folder, target)
            for compute in computes:
                if expected is None or time.time() > DEADLINE:
                    break
                entry = {"graph": name, "sizes": sizes, "compute": compute}
                results["graphs"].append(entry)
                found, seconds = outputs_of(path, target, compute, fills, folder, target)
                if found is None:
                    continue
                entry |= {"cold_s": seconds, "cpu_s": cpu_seconds}
                entry["error"] = max(
                    float(numpy.abs(found[key] - value).max() / max(abs(value).max(), 1e-30))
                    for key, value in expected.items()
                )
                # A second process finds compiled code in the cache.
                command = ["bin/lathe", "perf", str(path), "--target", target, "--json"]
                command += ["-n", "2" if target == "gpu:host" else "50", "--compute", compute]
                start = time.time()
                code, out, err, _ = run(command + fills, target)
                verdict = "ok" if entry["error"] <= LIMITS[compute] else "WRONG"
                line = f"{name} {' '.join(sizes)} {compute}: error {entry['error']:.2e} {verdict}"
                if code != 0:
                    print(f"{line}\n{err[-1500:]}")
                    continue
                perf = entry["perf"] = json.loads(out)
                entry["perf_s"] = time.time() - start
                # Inputs and outputs that stay on the device.
                code, out, err, _ = run(command + ["--device-io"] + fills, target)
                there = entry["device_io"] = json.loads(out) if code == 0 else None
                print(
                    f"{line}, cold {seconds:.2f} s, then compiled in {perf.get('compile_ms', 0):.0f} "
                    f"ms, first run {perf.get('first_run_ms', 0):.0f} ms; p50 "
                    f"{perf['latency_ms']['p50']:.3f} ms, least {perf['latency_ms']['min']:.3f} ms; on the device "
                    + (f"{there['latency_ms']['p50']:.3f} ms" if there else f"exit {code}: {err[-300:]}"),
                    flush=True,
                )
                for call in perf.get("instructions", [])[:4]:
                    print(f"  {call['ms']:.3f} ms {call['name']} {call['result']}")


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
    entries = results["torch"] = {}
    resnet = torchvision.models.resnet50().eval().cuda()
    bert = transformers.BertModel(transformers.BertConfig()).eval().cuda()
    cases = [
        ("bert_base", bert, torch.randint(0, 1000, (1, 128))),
        ("resnet50", resnet, torch.randn(1, 3, 224, 224)),
        ("bert_base", bert, torch.randint(0, 1000, (8, 128))),
        ("resnet50", resnet, torch.randn(8, 3, 224, 224)),
        ("bert_base", bert, torch.randint(0, 1000, (8, 384))),
        ("resnet50", resnet, torch.randn(64, 3, 224, 224)),
    ]
    with torch.no_grad():
        for kind in ("f32", "f16"):
            for name, model, x in cases:
                if time.time() > DEADLINE:
                    return
                typed = model.float() if kind == "f32" else model.half()
                if kind == "f16" and name == "resnet50":
                    typed = typed.to(memory_format=torch.channels_last)
                    x = x.half().to(memory_format=torch.channels_last)
                on_device = x.cuda()
                key = f"eager {kind} {name} {'x'.join(str(n) for n in x.shape[:2])}"

                def with_copies():
                    result = typed(x.cuda())
                    (result if torch.is_tensor(result) else result[0]).cpu()

                times = {"ms": measure(lambda: typed(on_device)), "with_copies": measure(with_copies)}
                entries[key] = times
                print(f"PyTorch {key}: {times['ms']:.3f} ms, with copies {times['with_copies']:.3f}")


def on_shapes(part, target, results):
    """Parts on models of known shapes, with weights made here."""
    small = target == "gpu:host"
    shape = llama.SMALL if small else llama.SMOLLM2
    folder = ROOT / ("smollm2-2" if small else "smollm2-30")
    llama.make(folder, shape, 2 if small else 30)
    if part == "lengths":
        lengths.compare(folder, run, target, results)
        return
    layers = 3 if small else 32 if part == "upload" else 4
    large = ROOT / f"llama-{layers}"
    size = llama.make(large, llama.SMALL if small else llama.SHAPE, layers)
    if part == "upload":
        upload.compare(large, size, run, target, results)
    else:
        faults.compare(folder, large, run, target, results)


def run_part(part, arguments, results):
    target = arguments.target
    small = target == "gpu:host"
    if part == "rows":
        test_rows(target, results, arguments.tests)
    elif part == "decoding":
        decode(target, results)
    elif part == "graphs":
        compare_graphs(target, results)
    elif part == "genai":
        genai.compare(ROOT, run, target, results)
    elif part == "like-cpu":
        like_cpu.compare(ROOT, run, target, results)
    elif part == "dlpack":
        dlpack.compare(run, target, results)
    elif part == "counters":
        counters.compare(ROOT, make_data, run, target, results)
    elif part in ("lengths", "upload", "faults"):
        on_shapes(part, target, results)
    elif part == "sampling":
        sampling.measure(ROOT, run, target, results)
    elif part == "encoders":
        encoders.compare(ROOT, run, outputs_of, make_data, target, results, lambda: DEADLINE - time.time())
    elif part == "int4":
        int4.measure(ROOT, run, target, results)
    elif part == "llama":
        llama.compare(ROOT, run, REPORT.keep, target, results, 2 if small else 4, ["bf16", "int4"], [], profiled=True)
    elif part == "smollm2":
        llama.compare(ROOT, run, REPORT.keep, target, results, 2 if small else 30, ["bf16"], ["decode"], "smollm2",
                      llama.SMOLLM2)
    elif part == "llama-whole":
        ways = arguments.ways.split(";") if arguments.ways else llama.SMALL_WAYS if small else llama.WAYS
        peers = [] if arguments.peers == "none" else arguments.peers.split(",")
        llama.compare(ROOT, run, REPORT.keep, target, results, 3 if small else 32, list(ways), peers)
    elif part == "torch":
        time_torch(results)
    else:
        sanitizer.check(part, run, REPORT.keep, target, arguments.tests, lambda: DEADLINE - time.time(), results)


def main():
    global DEADLINE, REPORT
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="gpu")
    parser.add_argument(
        "--parts", default="rows,graphs,decoding,memcheck,torch,encoders,racecheck,synccheck"
    )
    parser.add_argument("--peers", default="decode,prefill,batch", help="of llama-whole")
    parser.add_argument("--ways", help="of llama-whole, separated by semicolons")
    parser.add_argument("--tests", default="*", help="of rows: a filter of googletest")
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--out", default=os.environ.get("OUT"), help="a folder: gets results.tar.gz")
    arguments = parser.parse_args()
    DEADLINE = time.time() + 60 * arguments.minutes
    REPORT = Report(pathlib.Path(arguments.out, "results.tar.gz") if arguments.out else None)
    REPORT.redirect()
    results = {"target": arguments.target}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # prints the summary
    try:
        for part in arguments.parts.split(","):
            if time.time() > DEADLINE:
                print(f"no time left for {part}")
                continue
            start = time.time()
            try:
                run_part(part, arguments, results)
            except Exception as error:  # What was measured before stays.
                print(f"{part} stopped: {error}"[:2000])
                results.setdefault("stopped", {})[part] = str(error)[:200]
                traceback.print_exc()
            print(f"-- {part}: {time.time() - start:.0f} s", flush=True)
            REPORT.write(results)
    finally:
        REPORT.end(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
