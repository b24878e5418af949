# SPDX-License-Identifier: MIT
"""Checks that objects compiled for one instruction set hold no weak symbols: the linker keeps one of
several weak definitions, and must not hand a common function compiled for a better processor to all.

usage: check_isa_objects.py [BUILD]      default: build/release; 77 where there are no such objects
"""

import os
import pathlib
import re
import subprocess
import sys

UNIT = re.compile(r"_(avx2|avx2_vnni|avx512|avx512_vnni|amx)\.cpp\.o$")
WEAK = set("VvWwu")


def weak_symbols(path):
    lines = subprocess.check_output(["nm", "--demangle", str(path)], text=True).splitlines()
    for line in lines:
        kind, name = line[17:18], line[19:]
        if kind in WEAK:
            yield f"{path.name}: weak symbol '{name}'"


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    units = [p for p in build.rglob("*.cpp.o") if UNIT.search(p.name)]
    if not units:
        print(f"no objects of one instruction set in {build}")
        return 77 if os.uname().machine == "x86_64" else 0
    problems = [problem for path in sorted(units) for problem in weak_symbols(path)]
    for problem in problems:
        print(problem)
    print(f"{len(units)} objects, {len(problems)} weak symbols")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
