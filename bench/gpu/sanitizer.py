# SPDX-License-Identifier: MIT
"""The tests of the target under a tool of NVIDIA's compute-sanitizer, in shards, so that a slow tool has results of
the tests that it reached."""

import collections
import os
import pathlib
import re
import shutil
import time

SHARDS = 16
# Tests that only compile, or launch nothing.
LEFT_OUT = "Architectures/*:GpuSymbols.*:GpuTraffic.*:GpuTargetTable.*"
KINDS = re.compile(r"Invalid|Program hit|Leaked|Error: |Warning: |Barrier error|Potential|Uninitialized")


def summary_of(text):
    """(tests that ran, kinds of findings without addresses and numbers, lines of the summary)."""
    lines = [line.removeprefix("=========").strip() for line in text.splitlines()]
    kinds = collections.Counter()
    for i, line in enumerate(lines):
        if not KINDS.match(line):
            continue
        kind = re.sub(r"0x[0-9a-f]+|[\d,]*\d", "N", line)
        # A handle of cuDNN lives as long as the process.
        if line.startswith("Leaked") and any("cudnnCreate" in frame for frame in lines[i + 1 : i + 12]):
            kind += ", by cudnnCreate"
        kinds[kind] += 1
    ran = re.search(r"\[==========\] (\d+) tests? from .* ran", text)
    return int(ran.group(1)) if ran else 0, kinds, [line for line in lines if "SUMMARY" in line]


def check(tool, run, keep, target, tests, left, results):
    """`left()`: seconds that the part may still take."""
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(found).exists():
        print(f"skipped {tool}: no compute-sanitizer")
        return
    options = ["--print-limit", "2000"] + (["--leak-check", "full"] if tool == "memcheck" else [])
    options += ["--racecheck-report", "all"] if tool == "racecheck" else []
    chosen = f"{tests}{':' if '-' in tests else '-'}{LEFT_OUT}"
    entry = results[tool] = {"shards": 0, "tests": 0, "failed": [], "kinds": {}}
    kinds, start, longest = collections.Counter(), time.time(), 0.0
    for shard in range(SHARDS):
        # A shard that is stopped has no summary.
        if left() < 1.3 * longest or left() < 5:
            break
        settings = ["env", f"GTEST_TOTAL_SHARDS={SHARDS}", f"GTEST_SHARD_INDEX={shard}"]
        code, out, err, seconds = run(
            [*settings, found, "--tool", tool, *options, "bin/gpu_tests", f"--gtest_filter={chosen}"], target, left()
        )
        longest = max(longest, seconds)
        keep(f"{tool}-{shard}", out, err)
        if "0 tests from 0 test suites ran" in out:  # fewer tests than shards
            entry["shards"] += 1
            continue
        ran, found_kinds, summary = summary_of(out + err)
        entry["shards"] += code == 0
        entry["tests"] += ran
        kinds.update(found_kinds)
        if all("cudnnCreate" in kind for kind in found_kinds) and found_kinds:
            summary = ["ERROR SUMMARY: 0 errors but what cuDNN keeps"]
        if code != 0 or not summary or not all("SUMMARY: 0 " in line for line in summary):
            entry["failed"].append([shard, code, *summary])
            print(f"  {tool}, shard {shard}: exit {code}, {' '.join(summary) or out[-300:] + err[-300:]}", flush=True)
    if entry["tests"] == 0:
        entry["failed"].append(f"no test ran of '{tests}'")
    entry |= {"seconds": time.time() - start, "kinds": dict(kinds)}
    print(f"{tool}: {entry['tests']} tests in {entry['shards']} of {SHARDS} shards, {entry['seconds']:.0f} s, "
          f"{len(entry['failed'])} shards with findings")
    for kind, count in kinds.most_common(12):
        print(f"  {count} x {kind}")
