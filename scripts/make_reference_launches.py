# SPDX-License-Identifier: MIT
"""Writes docs/reference-launches.md: the cases of the suites for which `cpu` launches evaluations of the reference.

usage: make_reference_launches.py PROGRAM [--check]     exits with 77 without the suites

With --check, only compares every 50th case, on a processor with the instruction sets that the page names. An
`explain` that fails otherwise than by refusing its model is an error.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from make_conformance import ROOT, SUITES, features

PAGE = ROOT / "docs" / "reference-launches.md"
HEAD = """# Launches of the reference on `cpu`

Made by `scripts/make_reference_launches.py`, by `lathe explain MODEL --target cpu`: the cases of
[conformance.md](conformance.md) in which instructions of the compiled program have no kernel of `cpu` and are
evaluated by the reference instead, on the same memory. Values of shapes, sequences, optionals and strings are among
them. The rows hold for a processor with {features}.

"""
CHECKED = 50
REFUSED = (3, 4)  # InvalidModel, Unsupported


def launches(program, path):
    """The ops that the reference evaluates, each with the reason; none if the model is refused."""
    report = subprocess.run([program, "explain", path, "--json", "--target", "cpu"], capture_output=True, text=True)
    if report.returncode in REFUSED:
        return set()
    if report.returncode != 0:
        raise RuntimeError(f"explain of {path} exits with {report.returncode}: {report.stderr[-1000:]}")
    return {(launch["op"], launch["reason"]) for launch in json.loads(report.stdout)["launches"]
            if launch["kernel"].startswith("ref.")}


def short(name):
    """A case's name, the same for both recordings of a case of ONNX."""
    return name.removeprefix("onnx-backend/").removeprefix("node/").removeprefix("test_")


def models_of(folder):
    """A suite's models by the names of their cases; two recordings of a case share one name."""
    return {short(str(path.parent.relative_to(folder))): path for path in sorted(folder.rglob("model.onnx"))}


def collect(program, folders):
    """By suite, the cases and the (op, reason) pairs of each."""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for suite, folder in folders.items():
            models = models_of(folder)
            found[suite] = dict(zip(models, threads.map(lambda path: launches(program, path), models.values())))
    return found


def differing(program, folders, rows, step):
    """Compares every step-th case with the page's rows: the cases that differ, and those that are gone."""
    models = collections.defaultdict(list)  # suites may share the name of a case
    for folder in folders.values():
        for name, path in models_of(folder).items():
            models[name].append(path)
    wrong = sorted(set(rows) - set(models))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        names = sorted(models)[::step]
        found = threads.map(lambda name: set().union(*(launches(program, path) for path in models[name])), names)
        return wrong + [name for name, pairs in zip(names, found) if pairs != rows.get(name, set())]


def page(program, found):
    text = HEAD.format(features=features(program))
    text += "| suite | cases | with a launch of the reference |\n|---|---|---|\n"
    for suite, title, _ in SUITES:
        text += f"| {title} | {len(found[suite])} | {sum(1 for rows in found[suite].values() if rows)} |\n"
    rows = collections.defaultdict(set)
    for cases in found.values():
        for name, pairs in cases.items():
            for pair in pairs:
                rows[pair].add(name)
    text += "\n| op | why | cases |\n|---|---|---|\n"
    for (op, why), names in sorted(rows.items()):
        text += f"| {op} | {why} | {' '.join(sorted(names))} |\n"
    return text


def recorded_rows(text):
    """The (op, reason) pairs of each case on the page."""
    rows = collections.defaultdict(set)
    for line in text.partition("| op | why |")[2].splitlines()[2:]:
        op, why, names = line.strip("| ").split(" | ")
        for name in names.split():
            rows[name].add((op, why))
    return rows


def main():
    program, *flags = sys.argv[1:]
    folders = {suite: cases() for suite, _, cases in SUITES}
    if None in folders.values():
        print("skipped: a suite is not there")
        return 77
    if "--check" not in flags:
        PAGE.write_text(page(program, collect(program, folders)))
        return 0
    text = PAGE.read_text()
    if f"processor with {features(program)}." not in text:
        print("skipped: the page is of a processor with other instruction sets")
        return 77
    wrong = differing(program, folders, recorded_rows(text), CHECKED)
    if wrong:
        print(f"error: {PAGE.name} has other launches of {', '.join(wrong)}; `make docs` writes it", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
