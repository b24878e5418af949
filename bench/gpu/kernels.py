# SPDX-License-Identifier: MIT
"""The time of each kernel in one step of decoding, by NVIDIA's ncu, which runs one kernel at a time.

What a step takes beyond their sum lies between them.
"""

import collections
import csv
import io
import pathlib
import shutil


def read(text):
    """(name, grid, threads, microseconds) of each kernel, in order."""
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        return []
    kernels = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[header:]))):
        if "gpu__time_duration" not in row.get("Metric Name", ""):
            continue
        unit = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}[row["Metric Unit"]]
        time = float(row["Metric Value"].replace(",", "")) * unit
        kernels.append((row["Kernel Name"].split("(")[0], row["Grid Size"], row["Block Size"], time))
    return kernels


def last_period(kernels):
    """The kernels of the last step: those after the last but one that chooses tokens."""
    ends = [i for i, kernel in enumerate(kernels) if "choose" in kernel[0]]
    # A choice may take several kernels.
    ends = [i for i in ends if i + 1 == len(kernels) or "choose" not in kernels[i + 1][0]]
    return kernels[ends[-2] + 1 : ends[-1] + 1] if len(ends) > 1 else kernels


def measure(run, target, command, keep, name, results):
    """Prints the kernels of the last step of `command`, a generation."""
    profiler = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not pathlib.Path(profiler).exists():
        print(f"skipped kernels of {name}: no ncu")
        return
    options = ["--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--cache-control", "none"]
    options += ["--graph-profiling", "node", "--csv"]
    code, out, err, seconds = run([profiler, *options, *command], target, 150)
    keep(f"kernels-{name}", out, err)
    kernels = read(out)
    if not kernels:
        print(f"kernels of {name}: exit {code}\n{out[-800:]}{err[-800:]}")
        return
    step = last_period(kernels)
    sums = collections.OrderedDict()
    for kernel, grid, threads, time in step:
        count, total = sums.get((kernel, grid, threads), (0, 0.0))
        sums[kernel, grid, threads] = (count + 1, total + time)
    total = sum(time for *_, time in step)
    results.setdefault("kernels", {})[name] = {
        "launches": len(step), "us": total, "kernels": [[*key, *value] for key, value in sums.items()]
    }
    print(f"kernels of {name}: {len(step)} launches in a step, {total:.0f} us in them ({seconds:.0f} s)")
    for (kernel, grid, threads), (count, own) in sorted(sums.items(), key=lambda entry: -entry[1][1])[:24]:
        print(f"  {own:8.1f} us {100 * own / total:5.1f} %  {count:4} x {own / count:7.2f} us  {kernel[:60]} {grid} {threads}")
