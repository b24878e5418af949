# SPDX-License-Identifier: MIT
"""Sums the results in a folder and prints 'N passed, N failed, N skipped'.

usage: count_tests.py FOLDER

FOLDER holds <preset>.xml (what ctest ran), <preset>/<binary>.json (the cases of each GoogleTest
binary) and *.txt (lines that begin with 'passed' or 'failed'). A ctest entry counts as its cases
where it reports them, in such a JSON file or by a last line 'N passed, N failed, N skipped'; else as
one. A failed entry counts at least one failure.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def gtest_counts(path):
    passed = failed = skipped = 0
    for suite in json.loads(path.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed += 1
            elif case["result"] == "SKIPPED":
                skipped += 1
            else:
                passed += 1
    return [passed, failed, skipped]


def entry_counts(case, folder):
    """[passed, failed, skipped] of one ctest entry."""
    status = case.get("status")
    output = case.findtext("system-out") or ""
    report = folder / f"{case.get('name')}_tests.json"
    last = COUNTS.fullmatch((output.strip().splitlines() or [""])[-1].strip())
    if report.exists():
        counts = gtest_counts(report)
    elif last:
        counts = [int(n) for n in last.groups()]
    else:
        counts = [int(status == "run"), 0, int(status in ("notrun", "disabled"))]
    if status == "fail" and counts[1] == 0:
        counts[1] = 1
    return counts


def main():
    results = pathlib.Path(sys.argv[1])
    total = [0, 0, 0]
    for report in sorted(results.glob("*.xml")):
        counts = [0, 0, 0]
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            for i, n in enumerate(entry_counts(case, results / report.stem)):
                counts[i] += n
        print("{}: {} passed, {} failed, {} skipped".format(report.stem, *counts), file=sys.stderr)
        total = [a + b for a, b in zip(total, counts)]
    for lines in (path.read_text().splitlines() for path in results.glob("*.txt")):
        total[0] += sum(line.startswith("passed") for line in lines)
        total[1] += sum(line.startswith("failed") for line in lines)
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
