# SPDX-License-Identifier: MIT
"""Counts the lines of each op with its test, and keeps the largest small: an elementwise op (a
formula) takes at most 25 lines, a composite (an expansion) at most 50. Includes do not count.

usage: op_sizes.py [OP…]     of these ops, the lines of each and their median
"""

import pathlib
import re
import statistics
import sys

LIMITS = {"elementwise": 25, "composite": 50}
MEANINGS = {"formula": "elementwise", "expand": "composite", "eval": "other", "combine": "other", "structural": "other"}
MEANING = re.compile(r"^\s*\.(formula|expand|eval|combine|structural)\s*=", re.M)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    sources = sorted((root / "src/ops").glob("*.cpp"))
    sizes = {kind: [] for kind in MEANINGS.values()}
    for source in sources:
        text = source.read_text()
        meaning = MEANING.search(text)
        if not meaning or "Register " not in text:
            continue
        test = root / "tests/ops" / f"{source.stem}.test"
        lines = sum(not line.startswith("#include") for line in text.splitlines())
        if test.exists():
            lines += len(test.read_text().splitlines())
        # An op with a body means its body.
        kind = "other" if ".bodies = " in text else MEANINGS[meaning.group(1)]
        sizes[kind].append((lines, source.stem))
    if names := set(sys.argv[1:]):
        rows = sorted(row for all_rows in sizes.values() for row in all_rows if row[1] in names)
        print(*(f"{lines} {name}" for lines, name in rows), sep="\n")
        print(f"median of {len(rows)} ops: {statistics.median(lines for lines, _ in rows):.1f} lines")
        return 0 if len(rows) == len(names) else 1
    failed = False
    for kind, limit in LIMITS.items():
        for lines, name in sorted(sizes[kind], reverse=True):
            if lines > limit:
                print(f"{name}: {lines} lines with its test, {kind} ops take at most {limit}")
                failed = True
    if sources and not any(sizes.values()):
        print(f"no op was recognised in {len(sources)} files of src/ops")
        failed = True
    print("; ".join(
        f"{len(rows)} {kind}" + (f", median {statistics.median(lines for lines, _ in rows):.0f} lines"
                                 ", largest {1} ({0})".format(*max(rows)) if rows else "")
        for kind, rows in sizes.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
