# SPDX-License-Identifier: MIT
"""Compares engines on the rows of the models' table, several at once, each on two cores of its own.

usage: compare_rows.py PACK OUT [--cores=0-15] [--lanes=3] [--types=bf16,int8,f32] [--rounds=3] [--seconds=1]
                                [--limit=600]

PACK is a pack of pack_compare.sh, unpacked. Weights and int8 files (quantize.py) are made there first, on all of
--cores. Then --lanes rows at a time run compare.py with 2 threads, the types in the order of --types. OUT gets
rows.md, a line for each row when it is done, rows.json (one object a line), launches.txt (`lathe perf` of each row)
and notes.txt; no row begins in the last 25 of --limit seconds. Neighbouring cores that may be two faces of one
are not both used where --cores are enough.
"""

import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time

import arguments

# name, graph, sizes of its dims; the longest first, so that the lanes end together
ROWS = [("ResNet-50, batch 8", "resnet50", {"batch": 8}), ("ViT-B/16", "vit_b_16", {"batch": 1}),
        ("BERT-base, 512 tokens", "bert_base", {"batch": 1, "sequence": 512}),
        ("BERT-base, 128 tokens", "bert_base", {"batch": 1, "sequence": 128}),
        ("ResNet-50", "resnet50", {"batch": 1}), ("EfficientNet-B0", "efficientnet_b0", {"batch": 1}),
        ("MobileNetV3", "mobilenet_v3_large", {"batch": 1}), ("MiniLM, 128 tokens", "minilm", {"batch": 1, "sequence": 128})]
LAST = 25  # seconds before the limit in which no row begins


def options_of(words):
    parser = arguments.Parser(__doc__)
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cores", default="0-15")
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--types", type=arguments.words, default=["bf16", "int8", "f32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600)
    return parser.options_of(words)


def cores_of(text):
    cores = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return [core for core in cores if core in os.sched_getaffinity(0)]


def pairs_of(cores):
    """Pairs of cores; every second core only, where that leaves three pairs."""
    chosen = cores[::2] if len(cores) >= 12 else cores
    return [f"{a},{b}" for a, b in zip(chosen[::2], chosen[1::2])]


class Bench:
    def __init__(self, pack, out, options):
        self.pack, self.out, self.options = pack, out, options
        self.lathe = pack / "lathe"
        self.begin = time.monotonic()
        self.lock = threading.Lock()
        self.rows = [row for row in ROWS if (pack / "graphs" / f"{row[1]}.onnx").exists()]

    def left(self):
        return self.options["limit"] - (time.monotonic() - self.begin)

    def write(self, name, text):
        with self.lock, open(self.out / name, "a") as file:
            file.write(text + "\n")

    def run(self, command, cores):
        """(exit code, standard output, the end of standard error); 124 past the limit."""
        process = subprocess.Popen(["taskset", "-c", cores, *map(str, command)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
            output, errors = process.communicate(timeout=max(1.0, self.left() - 3))
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            code = 124
        return code, output, errors[-2000:]

    def graph(self, row):
        return self.pack / "filled" / row[1] / f"{row[1]}.onnx"

    def quantised(self, row):
        sizes = "-".join(str(size) for size in row[2].values())
        return self.pack / "qdq" / sizes / row[1] / f"{row[1]}-qdq.onnx"

    def make(self, graph):
        """The weights of a graph, and the int8 files of its rows at once."""
        source = self.pack / "graphs" / f"{graph}.onnx"
        self.note(f"fill {graph}", [sys.executable, self.pack / "fill", source, self.pack / "filled" / graph])
        if "int8" in self.options["types"]:
            together([lambda row=row: self.note(
                f"quantise {row[0]}", [sys.executable, self.pack / "quantize.py", self.quantised(row).parent.parent,
                                       self.graph(row), *fills(row)]) for row in self.rows if row[1] == graph])

    def note(self, name, command):
        begin = time.monotonic()
        code, output, errors = self.run(command, self.options["cores"])
        self.write("notes.txt", f"{name}: exit {code}, {time.monotonic() - begin:.0f} s: {output.strip()} {errors}".strip())

    def measure(self, row, kind, cores):
        model = self.quantised(row) if kind == "int8" else self.graph(row)
        words = fills(row) if kind != "int8" else []
        compute = "bf16" if kind == "bf16" else "as_model"
        code, output, errors = self.run(
            [sys.executable, self.pack / "compare.py", self.lathe, model, "--threads=2", "--json",
             f"--rounds={self.options['rounds']}", f"--seconds={self.options['seconds']}", f"--compute={compute}", *words],
            cores)
        if errors:
            self.write("notes.txt", f"{row[0]}, {kind}: exit {code}: {errors}")
        if not output:
            self.write("rows.md", f"| {kind} | {row[0]} | failed: exit {code} |")
            return
        found = json.loads(output)[0]
        times = found["times"]
        line = " | ".join(f"{times[name]:.2f}" for name in ("Lathe", "ONNX Runtime", "OpenVINO"))
        self.write("rows.md", f"| {kind} | {row[0]} | {line} | {found['ratio']:.2f} | {times['OpenVINO'] / times['Lathe']:.2f} |")
        self.write("rows.json", json.dumps({"row": row[0], "type": kind, "cores": cores, "exit": code, **found}))
        if self.left() > LAST:
            _, profile, _ = self.run([self.lathe, "perf", model, *words, "--threads", "2", "--compute", compute, "-n", "15",
                                      "--all"], cores)
            self.write("launches.txt", f"=== {row[0]}, {kind}\n{profile}")

    def lane(self, jobs, cores):
        while self.left() > LAST:
            try:
                row, kind = jobs.get_nowait()
            except queue.Empty:
                return
            self.measure(row, kind, cores)


def fills(row):
    return [f"--fill={dim}={size}" for dim, size in row[2].items()]


def together(tasks):
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    options = options_of(sys.argv[1:])
    bench = Bench(options["pack"], options["out"], options)
    bench.out.mkdir(parents=True, exist_ok=True)
    lanes = pairs_of(cores_of(options["cores"]))[:options["lanes"]]
    if not lanes or not bench.rows:
        raise SystemExit("error: no pair of cores, or no graph in the pack")
    together([lambda graph=graph: bench.make(graph) for graph in dict.fromkeys(row[1] for row in bench.rows)])
    together([lambda cores=cores: bench.note(f"peak of {cores}", [bench.pack / "bench_peak", "2"]) for cores in lanes])
    bench.write("rows.md", f"{len(lanes)} rows at once, of cores {' '.join(lanes)}\n\n"
                "| type | model | Lathe | ONNX Runtime | OpenVINO | best peer / Lathe | OpenVINO / Lathe |\n"
                "|---|---|---|---|---|---|---|")
    jobs = queue.Queue()
    for kind in options["types"]:
        for row in bench.rows:
            jobs.put((row, kind))
    together([lambda cores=cores: bench.lane(jobs, cores) for cores in lanes])
    missing = jobs.qsize()
    print((bench.out / "rows.md").read_text() + (f"{missing} rows had no time left\n" if missing else ""))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
