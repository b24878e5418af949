# SPDX-License-Identifier: MIT
"""Sums the results in a folder and prints 'N passed, N failed, N skipped'.

usage: count_tests.py FOLDER

FOLDER holds <preset>.xml (what ctest ran), <preset>/<binary>.xml (the cases of each GoogleTest
binary) and *.txt (lines that begin with 'passed' or 'failed'). A ctest entry counts as its cases
where it reports them, in such a file or by a last line 'N passed, N failed, N skipped'; else as
one; lines 'skipped N: REASON' are shown again. A failed entry counts at least one failure.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
SKIPS = re.compile(r"^skipped (\d+): (.*)$", re.M)


def gtest_counts(path, reasons):
    """[passed, failed, skipped] of one GoogleTest binary; counts the reasons of skips in `reasons`."""
    counts = [0, 0, 0]
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            counts[1] += 1
        elif skipped is not None or case.get("status") != "run":
            counts[2] += 1
            message = skipped.get("message", "") if skipped is not None else "disabled"
            reasons[message.strip().splitlines()[-1] if message.strip() else "no reason"] += 1
        else:
            counts[0] += 1
    return counts


def entry_counts(case, folder, reasons):
    """[passed, failed, skipped] of one ctest entry."""
    status = case.get("status")
    output = case.findtext("system-out") or ""
    report = folder / f"{case.get('name')}_tests.xml"
    last = COUNTS.fullmatch((output.strip().splitlines() or [""])[-1].strip())
    if report.exists():
        counts = gtest_counts(report, reasons)
    elif last:
        counts = [int(n) for n in last.groups()]
        for times, reason in SKIPS.findall(output):
            reasons[reason] += int(times)
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
        reasons = collections.Counter()
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            for i, n in enumerate(entry_counts(case, results / report.stem, reasons)):
                counts[i] += n
        print("{}: {} passed, {} failed, {} skipped".format(report.stem, *counts), file=sys.stderr)
        for reason, times in sorted(reasons.items()):
            print(f"  skipped {times}: {reason}", file=sys.stderr)
        total = [a + b for a, b in zip(total, counts)]
    for lines in (path.read_text().splitlines() for path in results.glob("*.txt")):
        total[0] += sum(line.startswith("passed") for line in lines)
        total[1] += sum(line.startswith("failed") for line in lines)
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
