# SPDX-License-Identifier: MIT
"""Times whole models at several thread counts beside ONNX Runtime and OpenVINO, and compares the outputs first.

usage: scaling.py LATHE MODEL... [--threads=1,2,4,8,16] [--compute=f32,bf16] [--rounds=3] [--seconds=1]
                                 [--fill=NAME=SIZE]... [--json=FILE] [--plot=FILE]

MODEL is an ONNX file, or a folder with a genai_config.json: those run a prompt of 512 tokens and 64 steps,
beside ONNX Runtime GenAI. Each engine is a process of its own for each model, compute type and thread count;
in each round they run one after the other, for --seconds each. A figure is the median over the rounds of the
median latency in ms (for a folder: of the prompt, of one step, and of one step of 16 sequences, each after a
prompt of 32). ONNX Runtime runs in f32 alone; where --compute is bf16 OpenVINO alone is the peer; f32 of a
folder is as_model. Thread counts above the number of cores are left out. Exits with 1 if outputs differ by
more than 1e-3 of the largest value (bf16: 5e-2, both sides rounded).

A worker is this program as: scaling.py --worker ENGINE LATHE MODEL COMPUTE THREADS SECONDS FOLDER
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import arguments
import compare

PROMPT, STEPS, BATCH = 512, 64, 16
LIMITS = {"f32": 1e-3, "bf16": 5e-2}


class Folder:
    """A language model in Lathe or in ONNX Runtime GenAI; measure() returns the ms of the prompt and of a step."""

    def __init__(self, engine, program, model, options):
        self.model, self.threads = model, options["threads"]
        self.measure = self.lathe if engine == "lathe" else self.genai
        self.program, self.compute, self.outputs = program, options["compute"], {}
        if engine != "lathe":
            import onnxruntime_genai as og

            config = og.Config(str(model))
            config.overlay(json.dumps({"model": {"decoder": {"session_options": {
                "intra_op_num_threads": self.threads}}}}))
            self.og, self.loaded = og, og.Model(config)

    def lathe(self):
        prompt, step = self.lathe_of(1, PROMPT)
        return [prompt, step, self.lathe_of(BATCH, PROMPT // BATCH)[1]]

    def genai(self):
        prompt, step = self.genai_of(1, PROMPT)
        return [prompt, step, self.genai_of(BATCH, PROMPT // BATCH)[1]]

    def lathe_of(self, sequences, tokens):
        run = subprocess.run([self.program, "perf", self.model, "--json", "--threads", str(self.threads),
                              "--prompt-tokens", str(tokens), "--new-tokens", str(STEPS + 1), "--iterations", "3",
                              "--sequences", str(sequences),
                              "--compute", "as_model" if self.compute == "f32" else self.compute],
                             check=True, text=True, stdout=subprocess.PIPE)
        report = json.loads(run.stdout)
        return [report["first_token_seconds"] * 1e3, 1e3 * sequences / report["tokens_per_second"]]

    def genai_of(self, sequences, tokens):
        settings = self.og.GeneratorParams(self.loaded)
        length = tokens + STEPS + 1
        settings.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=sequences)
        generator = self.og.Generator(self.loaded, settings)
        prompts = 100 + np.arange(sequences * tokens, dtype=np.int32).reshape(sequences, tokens)
        begin = time.perf_counter()
        generator.append_tokens(prompts)
        generator.generate_next_token()
        middle = time.perf_counter()
        for _ in range(STEPS):
            generator.generate_next_token()
        return [(middle - begin) * 1e3, (time.perf_counter() - middle) * 1e3 / STEPS]


def worker(engine, program, model, compute, threads, seconds, folder):
    """Loads, saves the outputs to FOLDER/ENGINE.npz, then answers each line of input with a measurement."""
    model, folder = pathlib.Path(model), pathlib.Path(folder)
    options = {"threads": int(threads), "seconds": float(seconds), "compute": compute}
    if model.is_dir():
        runs = Folder(engine, program, model, options)
    else:
        inputs = dict(np.load(folder / "inputs.npz"))
        runs = {"lathe": lambda: compare.Lathe(program, model, inputs, folder, options),
                "onnxruntime": lambda: compare.OnnxRuntime(model, inputs, options),
                "openvino": lambda: compare.OpenVino(model, inputs, options)}[engine]()
    np.savez(folder / f"{engine}.npz", **{name.replace("/", "|"): value for name, value in runs.outputs.items()})
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(np.atleast_1d(runs.measure()).tolist()), flush=True)


class Worker:
    def __init__(self, engine, program, model, compute, threads, seconds, folder):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", engine, program, model, compute, str(threads), str(seconds), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.answer("ready")

    def answer(self, expected=None):
        line = self.process.stdout.readline()
        while line and not line.startswith(("[", "ready")):  # engines print notes of their own
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker stopped with {self.process.wait()}")
        return line.strip() if expected else json.loads(line)

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def engines_of(model, compute):
    if model.is_dir():
        return ["lathe", "genai"]
    return ["lathe", "openvino"] if compute == "bf16" else ["lathe", "onnxruntime", "openvino"]


def name_of(model):
    return model.parent.name if model.stem == "model" else model.stem


def measure(program, model, compute, threads, options):
    """One row: {model, compute, threads, times: {engine: [ms…]}, ratios: [faster peer / Lathe…], difference}."""
    with tempfile.TemporaryDirectory() as folder:
        if not model.is_dir():
            np.savez(os.path.join(folder, "inputs.npz"), **compare.inputs_of(model, options["fill"]))
        workers = {}
        try:
            for engine in engines_of(model, compute):
                workers[engine] = Worker(engine, str(program), str(model), compute, threads, options["seconds"], folder)
            rounds = [{engine: each.measure() for engine, each in workers.items()}
                      for _ in range(options["rounds"] + 1)][1:]
        finally:
            for each in workers.values():
                each.close()
        outputs = {engine: dict(np.load(os.path.join(folder, f"{engine}.npz"))) for engine in workers}
    peers = [engine for engine in workers if engine != "lathe"]
    times = {engine: [statistics.median(column) for column in zip(*(each[engine] for each in rounds))]
             for engine in workers}
    ratios = [min(times[peer][i] for peer in peers) / ours for i, ours in enumerate(times["lathe"])]
    return {"model": name_of(model), "compute": compute, "threads": threads, "times": times, "ratios": ratios,
            "difference": compare.difference(outputs["lathe"], outputs[peers[0]])}


def table(rows):
    lines = ["| model | compute | threads | Lathe | ONNX Runtime | OpenVINO | best peer / Lathe | speed-up |",
             "|---|---|---|---|---|---|---|---|"]
    first = {}
    for row in rows:
        times = row["times"]
        base = first.setdefault((row["model"], row["compute"]), times["lathe"])
        cells = [" / ".join(f"{ms:.2f}" for ms in times[engine]) if engine in times else "" for engine in
                 ("lathe", "genai" if "genai" in times else "onnxruntime", "openvino")]
        ratio = " / ".join(f"{each:.2f}" for each in row["ratios"])
        speed_up = " / ".join(f"{a / b:.1f}" for a, b in zip(base, times["lathe"]))
        lines.append(f"| {row['model']} | {row['compute']} | {row['threads']} | {' | '.join(cells)} | {ratio} | "
                     f"{speed_up} |")
    for compute in sorted({row["compute"] for row in rows}):
        for threads in sorted({row["threads"] for row in rows}):
            found = [row["ratios"][0] for row in rows if (row["compute"], row["threads"]) == (compute, threads)]
            if found:
                lines.append(f"{compute}, {threads} threads: geometric mean {statistics.geometric_mean(found):.2f}, "
                             f"least {min(found):.2f}")
    return "\n".join([*lines, f"Milliseconds; above 1 Lathe is faster. {compare.machine()}."])


def plot(rows, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = sorted({(row["model"], row["compute"]) for row in rows})
    figure, axes = pyplot.subplots(1, len(groups), figsize=(3 * len(groups), 3), squeeze=False)
    for axis, group in zip(axes[0], groups):
        mine = [row for row in rows if (row["model"], row["compute"]) == group]
        for engine in mine[0]["times"]:
            axis.plot([row["threads"] for row in mine], [1e3 / row["times"][engine][0] for row in mine], "o-",
                      label=engine)
        axis.set(title=" ".join(group), xlabel="threads", ylabel="runs per second")
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(file)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(*sys.argv[2:])
    parser = arguments.Parser(__doc__)
    parser.add_argument("lathe", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--threads", type=arguments.counts, default=[1, 2, 4, 8, 16])
    parser.add_argument("--compute", type=arguments.words, default=["f32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_fill()
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot")
    options = parser.options_of(sys.argv[1:])
    rows = []
    for model in options["models"]:
        for compute in options["compute"]:
            for threads in options["threads"]:
                if threads > len(os.sched_getaffinity(0)):
                    continue
                rows.append(measure(options["lathe"], model, compute, threads, options))
                if options["json"]:
                    options["json"].write_text(json.dumps(rows, indent=1))
                print(f"{rows[-1]['model']} {compute} {threads}: {rows[-1]['times']}", file=sys.stderr, flush=True)
    print(table(rows))
    if options["plot"]:
        plot(rows, options["plot"])
    wrong = [row for row in rows if not row["difference"] <= LIMITS.get(row["compute"], 1e-3)]
    for row in wrong:
        print(f"{row['model']} {row['compute']} {row['threads']}: outputs differ by {row['difference']:.2g} of the "
              "largest value", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
