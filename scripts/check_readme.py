# SPDX-License-Identifier: MIT
"""Checks the form of the README: its sections in order, a status line, and a measured table that names machine,
date, peers and command, with ratios that follow from its times.
"""

import datetime
import pathlib
import re
import sys

README = pathlib.Path(__file__).parent.parent / "README.md"
SECTIONS = ["Quick start", "What works, and what does not yet", "Speed", "Install", "From Python",
            "From C and C++", "How it works", "Links"]
TABLE = re.compile(r"<!-- make bench-readme: begin -->\n(.*?)<!-- make bench-readme: end -->", re.S)
CAPTION = re.compile(r"Machine: .+, \d+ cores, .+\. Date: (\d{4}-\d\d-\d\d)\. ONNX Runtime [\d.]+, OpenVINO [\d.]+\. "
                     r"Command: `make [^`]+`\.")
MIN_ROWS = 4


def problems_of(text):
    sections = re.findall(r"^## (.+)$", text, re.M)
    if sections != SECTIONS:
        yield f"sections are {sections}, expected {SECTIONS}"
    if not re.search(r"^\*\*Status: \d+\.\d+", text, re.M):
        yield "no line that starts with '**Status: VERSION'"
    found = TABLE.search(text)
    if not found:
        yield "no table between the markers of make bench-readme"
        return
    caption = CAPTION.search(found.group(1))
    if not caption:
        yield "the table's caption does not name machine, date, peers and command"
    elif datetime.date.fromisoformat(caption.group(1)) > datetime.date.today() + datetime.timedelta(days=1):
        yield f"the table's date {caption.group(1)} is in the future"
    rows = [line.strip("| ").split(" | ") for line in found.group(1).splitlines() if line.startswith("| ")][1:]
    if len(rows) < MIN_ROWS:
        yield f"the table has {len(rows)} rows, expected at least {MIN_ROWS}"
    for name, *cells in rows:
        ours, onnxruntime, openvino, ratio = map(float, cells)
        if abs(min(onnxruntime, openvino) / ours - ratio) > 0.02 * ratio + 0.01:
            yield f"{name}: the ratio is {ratio}, its times have {min(onnxruntime, openvino) / ours:.2f}"


def main():
    problems = list(problems_of(README.read_text()))
    for problem in problems:
        print(f"README.md: {problem}")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
