# SPDX-License-Identifier: MIT
"""Times models with the choices that `--tune` measured beside those of the cost model.

usage: tuned.py LATHE FOLDER MODEL... [--tune=60] [--rounds=9] [--seconds=1] [--threads=2] [--compute=TYPE]
                                      [--fill=NAME=SIZE]... [--make]

LATHE is the program, MODEL an ONNX file. Both are compiled to FOLDER, unless it has them from a run before; --make
does nothing else, so that the files can be made in advance. Then both run in turns, each first in every second
round, for --seconds each; the gain is the median over the rounds of the cost model's median latency over that of the
measured choices. Symbolic dims are 1 unless --fill sets them. Exits with 1 if a gain is below 0.98.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import arguments

LEAST = 0.98


def options_of(words):
    parser = arguments.Parser(__doc__)
    parser.add_argument("lathe")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    for name, default in (("tune", 60), ("rounds", 9), ("seconds", 1), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compute", default="as_model")
    parser.add_fill()
    parser.add_argument("--make", action="store_true")
    return parser.options_of(words)


def fill_of(program, model, options):
    """The flags of those sizes that the model leaves open."""
    text = subprocess.run([program, "inspect", model], check=True, stdout=subprocess.PIPE, text=True).stdout
    symbols = re.findall(r"^ *symbol (\S+) bound", text, re.MULTILINE)
    return [word for dim, size in options["fill"].items() if dim in symbols for word in ("--fill", f"{dim}={size}")]


def compiled(program, folder, model, fill, options):
    """The file with the cost model's choices, that with the measured ones, and what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = pathlib.Path(model).stem
    usual, tuned, notes = (folder / f"{stem}{end}" for end in (".usual.lathe", ".tuned.lathe", ".txt"))
    flags = ["--threads", str(options["threads"]), "--compute", options["compute"], "--target", "cpu"]
    if not usual.exists():
        subprocess.run([program, "compile", model, "-o", usual, *flags], check=True, capture_output=True)
    if not tuned.exists() or not notes.exists():
        run = subprocess.run([program, "compile", model, "-o", tuned, *flags, *fill,
                              "--tune", str(options["tune"])], check=True, capture_output=True, text=True,
                             env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})  # nothing is known before
        notes.write_text(next(line for line in run.stderr.splitlines() if line.startswith("tuned ")) + "\n")
    return usual, tuned, notes.read_text().strip()


class Timed:
    def __init__(self, program, file, fill, options):
        self.command = [program, "perf", file, "--json", "--threads", str(options["threads"]), *fill, "-n"]
        self.seconds, self.iterations = options["seconds"], 5

    def measure(self):
        run = subprocess.run([*self.command, str(self.iterations)], check=True, text=True, stdout=subprocess.PIPE)
        ms = json.loads(run.stdout)["latency_ms"]["p50"]
        self.iterations = max(5, int(self.seconds * 1e3 / ms))
        return ms


def main():
    options = options_of(sys.argv[1:])
    program, folder, models = options["lathe"], options["folder"], options["models"]
    fills = [fill_of(program, model, options) for model in models]
    files = [compiled(program, folder, model, fill, options) for model, fill in zip(models, fills)]
    if options["make"]:
        return 0
    worst = float("inf")
    print(f"{'model':24} {'cost model':>10} {'measured':>10} {'gain':>6}   range        choices")
    for model, fill, (usual, tuned, notes) in zip(models, fills, files):
        engines = [Timed(program, file, fill, options) for file in (usual, tuned)]
        for engine in engines:
            engine.measure()
        times = [[], []]
        for turn in range(options["rounds"]):
            for i in (0, 1) if turn % 2 == 0 else (1, 0):
                times[i].append(engines[i].measure())
        gains = [a / b for a, b in zip(*times)]
        gain = statistics.median(gains)
        worst = min(worst, gain)
        print(f"{pathlib.Path(model).stem:24} {statistics.median(times[0]):10.2f} {statistics.median(times[1]):10.2f} "
              f"{gain:6.3f}   {min(gains):.3f}-{max(gains):.3f}  {re.sub('^tuned ', '', notes)}", flush=True)
    print(f"least gain {worst:.3f} (bar {LEAST})")
    return 1 if worst < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
