# SPDX-License-Identifier: MIT
"""Compares two commits: builds both, runs them in turn, and prints medians and their ratios.

usage: compare_commits.py OLD NEW [--rows A,B] [--models PATH...] [--folders DIR...] [--dims NAME=SIZE...]
                                  [--rounds 10] [--threads N] [--json]
                                  [--trees DIR] [--jobs N] [--define NAME=VALUE...]

OLD and NEW are git revisions. Each gets a worktree below --trees (default build/compare; kept for the next time) and
a build of lathe and bench_runtime with the preset release and the CMake definitions of --define; LATHE_ISA=host builds
faster. Both run NEW's bench/runtime.cpp (this checkout's if NEW has none), copied into the worktrees.

Rows are those of bench_runtime, and perf: `lathe perf` of each model (latency) and of each folder of a decoder
(prefill, decode). Default: all. --models are ONNX files, or folders with *.onnx files; a file or folder may be
NAME=PATH. A symbolic dim is 1 unless --dims sets it.

In each round each measurement runs on both builds, one after the other, in alternating order. A figure is the median
over the rounds; the range is that of new/old. Bytes and allocations are measured once. "results differ" marks rows
whose results have other bits. Exits with 1 if a measurement fails.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ("bench/runtime.cpp", "bench/runtime")
PERF = "perf"


class Tree:
    """A commit's worktree and build."""

    def __init__(self, name, revision, folder):
        self.name = name
        self.commit = git("rev-parse", "--verify", revision + "^{commit}")
        self.path = folder / self.commit[:12]
        self.values = {}  # measurement: one value for each round
        self.results = {}  # measurement: hash

    def check_out(self):
        if not self.path.exists():
            git("worktree", "prune")
            git("worktree", "add", "--detach", "--force", str(self.path), self.commit)
        git("checkout", "--quiet", "--force", "--detach", self.commit, cwd=self.path)

    def build(self, jobs, definitions):
        print(f"building {self.name}, {self.commit[:12]}, in {self.path}", file=sys.stderr)
        for command in (["cmake", "--preset", "release", *(f"-D{text}" for text in definitions)],
                        ["cmake", "--build", "--preset", "release", "--parallel", str(jobs), "--target", "lathe",
                         "bench_runtime"]):
            done = subprocess.run(command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)} failed in {self.path}:\n{done.stdout[-4000:]}")

    def run(self, program, arguments):
        """The JSON that a program of the build prints."""
        done = subprocess.run([self.path / "build/release" / program, *arguments, "--json"], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {program} {' '.join(map(str, arguments))}: {done.stderr.strip()[-1000:]}")
        return json.loads(done.stdout)


def git(*words, cwd=ROOT):
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def same_program(old, new):
    """Copies NEW's bench_runtime, or this checkout's if NEW has none, into the trees that lack it."""
    source = new.path if (new.path / PROGRAM[0]).exists() else ROOT
    for tree in (old, new):
        if tree.path == source:
            continue
        shutil.copyfile(source / PROGRAM[0], tree.path / PROGRAM[0])
        shutil.rmtree(tree.path / PROGRAM[1], ignore_errors=True)
        shutil.copytree(source / PROGRAM[1], tree.path / PROGRAM[1])


class Measurement:
    """One command, run on both builds; returns lines {row, subject, what, value, unit, counted, better, results}."""

    def __init__(self, label, run):
        self.label, self.run = label, run


def bench_row(row, models, folders, options):
    words = [f"--rows={row}", f"--threads={options.threads}"]
    words += [f"--model={name}={model}" for name, model in models.items()]
    words += [f"--decoder={name}={folder}" for name, folder in folders.items()]
    words += [f"--dim={name}={size}" for name, size in options.dims.items()]
    return Measurement(row, lambda tree: tree.run("bench/bench_runtime", words))


def line(subject, what, value, unit, better):
    return {"row": PERF, "subject": subject, "what": what, "value": value, "unit": unit, "counted": False,
            "better": better, "results": ""}


def perf_model(name, model, dims, threads):
    words = ["perf", model, f"--threads={threads}", "--iterations=10", "--warmup=2"]
    words += [f"--fill={dim}={size}" for dim, size in dims.items()]

    def run(tree):
        latency = tree.run("bin/lathe", words)["latency_ms"]["p50"]
        return [line(name, "latency", latency, "ms", "less")]

    return Measurement(f"perf {name}", run)


def perf_folder(name, folder, threads):
    words = ["perf", folder, f"--threads={threads}", "--iterations=1", "--warmup=1"]

    def run(tree):
        json_ = tree.run("bin/lathe", words)
        return [line(name, f"prefill of {json_['prompt_tokens']} tokens", json_["prompt_tokens_per_second"],
                     "tokens/s", "more"),
                line(name, f"decode of {json_['new_tokens'] - 1} tokens", json_["tokens_per_second"], "tokens/s",
                     "more")]

    return Measurement(f"perf {name}", run)


def dims_of(tree, model, dims):
    """Those of the dims that the model has."""
    text = subprocess.run([tree.path / "build/release/bin/lathe", "inspect", model], capture_output=True, text=True,
                          check=True).stdout
    symbols = set(re.findall(r"^\s*symbol (\S+) bound", text, re.MULTILINE))
    return {name: size for name, size in dims.items() if name in symbols}


def named(paths, name_of):
    """[NAME=]PATH words as {name: path}."""
    found = {}
    for name, path in paths:
        name = name or name_of(path)
        if name in found:
            raise SystemExit(f"'{path}' and '{found[name]}' are both named '{name}': name one, NAME=PATH")
        found[name] = path
    return found


def models_of(paths):
    files = []
    for name, path in paths:
        below = sorted(path.rglob("*.onnx")) if path.is_dir() else [path]
        if not below or not below[0].exists():
            raise SystemExit(f"no *.onnx file at {path}")
        files += [(name, file) for file in below]
    return named(files, lambda path: path.stem)


def measurements_of(new, options):
    models, folders = models_of(options.models), named(options.folders, lambda path: path.name)
    needs = new.run("bench/bench_runtime", ["--list"])
    able = [row for row, need in needs.items() if need == "nothing" or {"models": models, "decoders": folders}[need]]
    rows = options.rows or [*able, PERF]
    for row in rows:
        if row != PERF and row not in able:
            raise SystemExit(f"row '{row}' is unknown or has no models to run on; rows: {', '.join([*able, PERF])}")
    chosen = [bench_row(row, models, folders, options) for row in rows if row != PERF]
    if PERF in rows:
        chosen += [perf_model(name, model, dims_of(new, model, options.dims), options.threads)
                   for name, model in models.items()]
        chosen += [perf_folder(name, folder, options.threads) for name, folder in folders.items()]
    return chosen


def measure(trees, measurements, rounds):
    """Runs all measurements; returns their lines by key, and the failures."""
    lines, failures, done = {}, {}, set()
    for round_ in range(rounds):
        for measurement in measurements:
            if measurement.label in done or measurement.label in failures:
                continue
            print(f"round {round_ + 1} of {rounds}: {measurement.label}", file=sys.stderr)
            try:
                counted = True
                for tree in trees if round_ % 2 == 0 else reversed(trees):
                    for one in measurement.run(tree):
                        key = (one["row"], one["subject"], one["what"])
                        lines.setdefault(key, one)
                        tree.values.setdefault(key, []).append(one["value"])
                        tree.results[key] = one["results"]
                        counted = counted and one["counted"]
                if counted:
                    done.add(measurement.label)
            except RuntimeError as error:
                failures[measurement.label] = str(error)
    return lines, failures


def table(old, new, lines):
    rows = []
    for key, one in lines.items():
        if key not in old.values or key not in new.values:
            continue
        before, after = statistics.median(old.values[key]), statistics.median(new.values[key])
        ratios = [b / a for a, b in zip(old.values[key], new.values[key]) if a]
        rows.append({"row": key[0], "subject": key[1], "what": key[2], "unit": one["unit"], "better": one["better"],
                     "old": before, "new": after, "ratio": after / before if before else None,
                     "range": [min(ratios), max(ratios)] if ratios else None, "rounds": len(new.values[key]),
                     "results_differ": old.results[key] != new.results[key]})
    return rows


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def print_table(rows):
    cells = [("row", "measurement", "old", "new", "unit", "new/old", "range", "better", "")]
    for row in rows:
        what = f"{row['subject']}: {row['what']}" if row["subject"] else row["what"]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        spread = "" if row["range"] is None or row["rounds"] == 1 else "{:.3f}-{:.3f}".format(*row["range"])
        cells.append((row["row"], what, number(row["old"]), number(row["new"]), row["unit"], ratio, spread,
                      row["better"], "results differ" if row["results_differ"] else ""))
    widths = [max(len(line_[i]) for line_ in cells) for i in range(len(cells[0]))]
    for line_ in cells:
        columns = [f"{cell:>{width}}" if i in (2, 3, 5, 6) else f"{cell:<{width}}"
                   for i, (cell, width) in enumerate(zip(line_, widths))]
        print("  ".join(columns).rstrip())


def machine():
    try:
        names = re.findall(r"^model name\s*: (.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor()}, {len(os.sched_getaffinity(0))} cores"


def path_of(text):
    name, _, path = text.rpartition("=")
    return name, pathlib.Path(path).resolve()


def options_of(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rows", type=lambda text: text.split(","))
    parser.add_argument("--models", type=path_of, nargs="+", default=[])
    parser.add_argument("--folders", type=path_of, nargs="+", default=[])
    parser.add_argument("--dims", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--define", nargs="+", default=[])
    parser.add_argument("--trees", type=pathlib.Path, default=ROOT / "build/compare")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    options.dims = {name: int(size) for name, size in (text.split("=") for text in options.dims)}
    return options


def main(arguments):
    options = options_of(arguments)
    trees = options.trees.resolve()
    trees.mkdir(parents=True, exist_ok=True)
    old, new = Tree("old", options.old, trees), Tree("new", options.new, trees)
    for tree in (old, new):
        tree.check_out()
    same_program(old, new)
    for tree in (old, new):
        tree.build(options.jobs, options.define)
    lines, failures = measure((old, new), measurements_of(new, options), options.rounds)
    rows = table(old, new, lines)
    if options.json:
        print(json.dumps({"machine": machine(), "threads": options.threads, "old": old.commit, "new": new.commit,
                          "rounds": options.rounds, "rows": rows, "failures": failures}, indent=1))
    else:
        print(f"{machine()}, {options.threads} threads; old {old.commit[:12]}, new {new.commit[:12]}; "
              f"medians of {options.rounds} rounds")
        print_table(rows)
    for label, error in failures.items():
        print(f"failed: {label}: {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
