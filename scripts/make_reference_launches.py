# SPDX-License-Identifier: MIT
"""Writes docs/reference-launches.md: the cases of the suites for which `cpu` launches evaluations of the reference.

usage: make_reference_launches.py PROGRAM [--check]     exits with 77 without the suites

With --check, only compares every 50th case, on a processor with the instruction sets that the page names.
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


def launches(program, path):
    """The ops that the reference evaluates, each with the reason; none if the model is refused."""
    report = subprocess.run([program, "explain", path, "--json", "--target", "cpu"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    if report.returncode != 0:
        return set()
    return {(launch["op"], launch["reason"]) for launch in json.loads(report.stdout)["launches"]
            if launch["kernel"].startswith("ref.")}


def short(name):
    """A case's name, the same for both recordings of a case of ONNX."""
    return name.removeprefix("onnx-backend/").removeprefix("node/").removeprefix("test_")


def collect(program, folders, step=1):
    """By suite, the cases looked at and the (op, reason) pairs of each."""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for suite, folder in folders.items():
            paths = sorted(folder.rglob("model.onnx"))[::step]
            names = [short(str(path.parent.relative_to(folder))) for path in paths]
            found[suite] = dict(zip(names, threads.map(lambda path: launches(program, path), paths)))
    return found


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
    rows = recorded_rows(text)
    # Both recordings of a case share a name.
    wrong = [name for cases in collect(program, folders, CHECKED).values() for name, pairs in cases.items()
             if not pairs <= rows[name]]
    if wrong:
        print(f"error: {PAGE.name} lacks launches of {', '.join(wrong)}; `make docs` writes it", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
