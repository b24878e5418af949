# SPDX-License-Identifier: MIT
"""Times whole models beside ONNX Runtime and OpenVINO, and compares the outputs first.

usage: compare.py LATHE MODEL... [--threads=2] [--rounds=5] [--seconds=1] [--compute=as_model]
                                 [--fill=NAME=SIZE]... [--peak=PROGRAM] [--json | --readme=FILE]

LATHE is the program, MODEL an ONNX file. Symbolic dims are 1 unless --fill sets them. Engines run one after
the other in each round, for --seconds each; a figure is the median over the rounds of the median latency in
ms, batch as in the file. Exits with 1 if outputs differ by more than 1e-3 of the largest value from ONNX
Runtime's. With a --compute below f32, ONNX Runtime still computes in f32, and Lathe and OpenVINO round:
|a - b| over |b|, as vectors, of each from ONNX Runtime's; exits with 1 if that of Lathe is above 1e-2 and above
1.1 times OpenVINO's. In models with quantised activations one rounding moves a value by a step, and steps
spread, so there every engine is compared with the program as written (ONNX Runtime without graph
optimisations), and exits with 1 if the distance of Lathe is above 1.1 times the smaller one of the peers
(`lathe verify` bounds each fused operation by one step). --peak=build/release/bench/bench_peak adds the share
of the arithmetic peak that Lathe reaches: the operations of products, convolutions and attention, as `lathe
explain` counts them, over its time and what registers reach in the type of --compute (int8 for quantised
models), measured in each round. --readme replaces the table between the markers of FILE.
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import arguments

WARM_UP = 3
BEGIN, END = "<!-- make bench-readme: begin -->", "<!-- make bench-readme: end -->"


def options_of(words):
    parser = arguments.Parser(__doc__)
    parser.add_argument("lathe", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    for name, default in (("threads", 2), ("rounds", 5), ("seconds", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compute", default="as_model")
    parser.add_fill()
    parser.add_argument("--peak")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true")
    shown.add_argument("--readme", type=pathlib.Path)
    return parser.options_of(words)


def check_fill(models, fill):
    """Exits if a name in `fill` is not that of a dim of any model's inputs."""
    known = {dim.dim_param for model in models for value in onnx.load(model, load_external_data=False).graph.input
             for dim in value.type.tensor_type.shape.dim} - {""}
    if fill.keys() - known:
        raise SystemExit(f"error: --fill: no model has a dim '{min(fill.keys() - known)}'; "
                         f"dims: {', '.join(sorted(known)) or 'none'}")


def inputs_of(model, fill):
    """Random inputs by name: floats normal, ids below 100, masks 1."""
    generator = np.random.default_rng(1)
    graph = onnx.load(model, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for value in graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value or fill.get(dim.dim_param, 1) for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if np.issubdtype(dtype, np.floating):
            inputs[value.name] = generator.standard_normal(shape).astype(dtype)
        else:
            high = 100 if value.name.endswith("ids") and "type" not in value.name else 1
            low = 1 if "mask" in value.name else 0
            inputs[value.name] = generator.integers(low, max(high, low + 1), shape).astype(dtype)
    return inputs


def is_quantised(model):
    return any(node.op_type == "QuantizeLinear" for node in onnx.load(model, load_external_data=False).graph.node)


def median_ms(run, seconds):
    for _ in range(WARM_UP):
        run()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


class Lathe:
    def __init__(self, program, model, inputs, folder, options):
        file = folder / "inputs.npz"
        np.savez(file, **inputs)
        self.command = [str(program), "perf", str(model), "--input", str(file), "--json",
                        "--threads", str(options["threads"]), "--compute", options["compute"]]
        results = folder / "outputs.npz"
        subprocess.run([str(program), "run", str(model), "--input", str(file), "-o", str(results), "--compute",
                        options["compute"]], check=True, stdout=subprocess.DEVNULL)
        self.outputs = dict(np.load(results))
        self.iterations = 5
        self.seconds = options["seconds"]

    def operations(self, folder):
        """Those of products and attention in a run; none if the size of one is not known."""
        page = str(folder / "page.html")
        words = [word for word in self.command if word != "--json"]
        run = subprocess.run([words[0], "explain", *words[2:], "--json", "--html", page], check=True, text=True,
                             stdout=subprocess.PIPE)
        counted = [(launch["operations"], launch["calls"]) for launch in json.loads(run.stdout)["launches"]
                   if launch["work"] in ("product", "attention")]
        return None if any(count is None for count, _ in counted) else sum(count * calls for count, calls in counted)

    def measure(self):
        run = subprocess.run([*self.command, "-n", str(self.iterations)], check=True, text=True,
                             stdout=subprocess.PIPE)
        ms = json.loads(run.stdout)["latency_ms"]["p50"]
        self.iterations = max(5, int(self.seconds * 1e3 / ms))
        return ms


class OnnxRuntime:
    def __init__(self, model, inputs, options):
        import onnxruntime  # each engine is imported where it runs

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options["threads"]
        session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        self.run = lambda: session.run(None, inputs)
        names = [output.name for output in session.get_outputs()]
        self.outputs = dict(zip(names, self.run()))
        self.seconds = options["seconds"]

    def measure(self):
        return median_ms(self.run, self.seconds)


class OpenVino:
    def __init__(self, model, inputs, options):
        import openvino

        core = openvino.Core()
        reduced = {"bf16": "bf16"}.get(options["compute"], "f32")
        compiled = core.compile_model(core.read_model(model), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": options["threads"],
            "INFERENCE_PRECISION_HINT": reduced})
        request = compiled.create_infer_request()
        self.run = lambda: request.infer(inputs, share_inputs=True, share_outputs=True)
        result = self.run()
        self.outputs = {output.get_any_name(): np.array(result[output]) for output in compiled.outputs}
        self.seconds = options["seconds"]

    def measure(self):
        return median_ms(self.run, self.seconds)


def paired(ours, theirs):
    """Outputs by name, or in order where an engine renames them."""
    if not ours.keys() & theirs.keys():
        theirs = dict(zip(ours, theirs.values(), strict=True))
    for name in ours.keys() & theirs.keys():
        yield ours[name].astype(np.float64), theirs[name].astype(np.float64)


def difference(ours, theirs):
    """The largest difference over the largest value; 0 without outputs."""
    return max((float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in paired(ours, theirs)), default=0.0)


def outputs_as_written(model, inputs):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


def noise(ours, theirs):
    """|ours - theirs| over |theirs|, of the output where it is largest."""
    return max(float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)) for a, b in paired(ours, theirs))


def distances_text(found):
    return ", ".join(f"{name} {value:.2g}" for name, value in found.items())


def check_outputs(engines, model, inputs, options):
    """The distance of our outputs, the most it may be, and all distances as text."""
    outputs = {name: engine.outputs for name, engine in engines.items()}
    if not is_quantised(model) and options["compute"] in ("as_model", "f32"):
        worst = difference(outputs["Lathe"], outputs["ONNX Runtime"])
        return worst, 1e-3, f"{worst:.2g} of the largest value"
    if not is_quantised(model):
        found = {name: noise(outputs[name], outputs["ONNX Runtime"]) for name in ("Lathe", "OpenVINO")}
        return found["Lathe"], max(1.1 * found["OpenVINO"], 1e-2), distances_text(found)
    written = outputs_as_written(model, inputs)
    found = {name: noise(values, written) for name, values in outputs.items()}
    most = max(1.1 * min(found["ONNX Runtime"], found["OpenVINO"]), 1e-3)
    return found["Lathe"], most, distances_text(found)


class Peak:
    """What registers reach, a round's figure beside those of the engines."""

    def __init__(self, model, options):
        self.command = [options["peak"], str(options["threads"])]
        self.type = "int8" if is_quantised(model) else "bf16" if options["compute"] == "bf16" else "f32"

    def measure(self):
        run = subprocess.run(self.command, check=True, text=True, stdout=subprocess.PIPE)
        return json.loads(run.stdout)[self.type]


def compare(program, model, options):
    inputs = inputs_of(model, options["fill"])
    with tempfile.TemporaryDirectory() as folder:
        engines = {"Lathe": Lathe(program, model, inputs, pathlib.Path(folder), options),
                   "ONNX Runtime": OnnxRuntime(model, inputs, options),
                   "OpenVINO": OpenVino(model, inputs, options)}
        distance, most, distances = check_outputs(engines, model, inputs, options)
        measured = engines | ({"peak": Peak(model, options)} if options["peak"] else {})
        rounds = [{name: engine.measure() for name, engine in measured.items()}
                  for _ in range(options["rounds"] + 1)][1:]
        operations = engines["Lathe"].operations(pathlib.Path(folder)) if options["peak"] else None
    times = {name: statistics.median(each[name] for each in rounds) for name in engines}
    ratios = sorted(min(each["ONNX Runtime"], each["OpenVINO"]) / each["Lathe"] for each in rounds)
    share = operations and statistics.median(operations / each["Lathe"] * 1e3 / each["peak"] for each in rounds)
    return {"model": model.stem if model.stem != "model" else model.parent.name, "times": times,
            "difference": distance, "most": most, "differences": distances,
            "ratio": min(times["ONNX Runtime"], times["OpenVINO"]) / times["Lathe"],
            "ratios": [ratios[0], ratios[-1]], "share": share}


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text).group(1)
    flags = set(re.search(r"flags\s*: (.*)", text).group(1).split())
    sets = [label for flag, label in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("amx_int8", "AMX"))
            if flag in flags]
    return f"{name}, {os.cpu_count()} cores, {' '.join(sets)}"


def command(options):
    fills = " ".join(f"--fill={dim}={size}" for dim, size in options["fill"].items())
    return "make bench-readme MODELS=DIR" + (f" OPTIONS='{fills}'" if fills else "")


def table(rows, options):
    peak = " of peak |" if options["peak"] else ""
    lines = ["| model | Lathe | ONNX Runtime | OpenVINO | best peer / Lathe |" + peak,
             "|---|---|---|---|---|" + ("---|" if peak else "")]
    for row in rows:
        cells = [f"{row['times'][name]:.2f}" for name in ("Lathe", "ONNX Runtime", "OpenVINO")]
        share = f" {row['share']:.2f} |" if row["share"] else " |" if peak else ""
        lines.append(f"| {row['model']} | {' | '.join(cells)} | {row['ratio']:.2f} |{share}")
    lines += ["", f"Milliseconds, {options['threads']} threads, `--compute {options['compute']}`; above 1 Lathe is faster."
                  f" Machine: {machine()}. Date: {datetime.date.today()}. ONNX Runtime {importlib.metadata.version('onnxruntime')},"
                  f" OpenVINO {importlib.metadata.version('openvino')}. Command: `{command(options)}`."]
    return "\n".join(lines)


def main():
    options = options_of(sys.argv[1:])
    check_fill(options["models"], options["fill"])
    rows = [compare(options["lathe"], model, options) for model in options["models"]]
    print(json.dumps(rows, indent=1) if options["json"] else table(rows, options))
    bad = [row for row in rows if not row["difference"] <= row["most"]]
    for row in bad:
        print(f"{row['model']}: outputs differ by {row['differences']}, at most {row['most']:.2g}", file=sys.stderr)
    if bad:
        return 1
    if options["readme"]:
        page = options["readme"]
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{table(rows, options)}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
