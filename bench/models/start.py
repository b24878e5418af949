# SPDX-License-Identifier: MIT
"""Measures what compiled files are for: how soon a process is ready, their size, and memory of a second program.

usage: start.py LATHE FOLDER MODEL... [--rounds=7] [--threads=2] [--prompt=TEXT] [--fill=NAME=SIZE]...

LATHE is the program; MODEL is an ONNX file, or the folder of a language model. Each is compiled to FOLDER, unless it
has the file from a run before. A table has ms from the start of a process, the median over the rounds with the pages
of the files in memory: of an ONNX file until it is compiled, of a folder until its first token of --prompt is there,
then the same of the compiled file; the bytes of the compiled file over those of its weights; and the MB of memory of
its own that a second program over the file adds to a process (with build/release/python in PYTHONPATH).
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import onnx

import arguments
import compare
import tuned

SECOND = """
import gc, sys
import lathe.onnxruntime as runtime

def own():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("RssAnon"))) / 1e3

options = runtime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
first = runtime.InferenceSession(sys.argv[1], options)
gc.collect()
before = own()
second = runtime.InferenceSession(sys.argv[1], options)
gc.collect()
print(own() - before)
"""


def options_of(words):
    parser = arguments.Parser(__doc__)
    parser.add_argument("lathe")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_fill()
    return parser.options_of(words)


def weight_bytes(model):
    file = model / "model.onnx" if model.is_dir() else model
    tensors = onnx.load(file, load_external_data=False).graph.initializer
    bits = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4}
    total = 0
    for tensor in tensors:
        count = 1
        for size in tensor.dims:
            count *= size
        own = bits.get(tensor.data_type) or 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        total += count * own // 8
    return total


def ready_ms(program, model, fill, options):
    begin = time.perf_counter()
    subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
    start = (time.perf_counter() - begin) * 1e3  # of a process that opens nothing
    run = subprocess.run([program, "perf", model, "--json", "-n", "1", "--threads", str(options["threads"]), *fill],
                         check=True, text=True, stdout=subprocess.PIPE)
    times = json.loads(run.stdout)
    return start + times["load_ms"] + times["compile_ms"]


def first_token_ms(program, model, _fill, options):
    begin = time.perf_counter()
    process = subprocess.Popen([program, "generate", model, "-p", options["prompt"], "--max-new-tokens", "1", "--threads",
                                str(options["threads"])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)
    ms = (time.perf_counter() - begin) * 1e3
    if process.wait() != 0:
        raise SystemExit(f"error: {model}: generate fails")
    return ms


def second_mb(file, threads):
    run = subprocess.run([sys.executable, "-c", SECOND, file, str(threads)], text=True, capture_output=True)
    return f"{float(run.stdout):.2f}" if run.returncode == 0 else "-"


def main():
    options = options_of(sys.argv[1:])
    program, folder, models = options["lathe"], options["folder"], options["models"]
    folder.mkdir(parents=True, exist_ok=True)
    compare.check_fill([model for model in models if not model.is_dir()], options["fill"])
    print(f"{'model':28} {'as it is':>9} {'.lathe':>7} {'size':>6} {'second':>7}")
    for model in models:
        file = folder / f"{model.stem}.lathe"
        if not file.exists():
            subprocess.run([program, "compile", model, "-o", file, "--target", "cpu", "--threads",
                            str(options["threads"])], check=True, capture_output=True)
        measure = first_token_ms if model.is_dir() else ready_ms
        fill = [] if model.is_dir() else tuned.fill_of(program, model, options)
        both = [statistics.median(measure(program, path, fill, options) for _ in range(options["rounds"]))
                for path in (model, file)]
        size = file.stat().st_size / weight_bytes(model)
        second = "-" if model.is_dir() else second_mb(file, options["threads"])
        print(f"{model.stem:28} {both[0]:9.0f} {both[1]:7.0f} {size:6.3f} {second:>7}", flush=True)


if __name__ == "__main__":
    main()
