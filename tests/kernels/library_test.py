# SPDX-License-Identifier: MIT
"""The shared library of the CPU's kernels: one exported function, one version, at most 6 MB."""

import ctypes
import os
import pathlib
import subprocess
import sys

MOST_BYTES = 6_000_000
VERSION = 2


class TableStart(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


def problems(library, preset):
    listing = subprocess.check_output(["nm", "-D", "--defined-only", str(library)], text=True)
    found = sorted(line.split()[-1].split("@")[0] for line in listing.splitlines())
    if found != ["lathe_cpu_kernels"]:
        yield f"exports {found}, expected lathe_cpu_kernels"
    size = library.stat().st_size
    if preset == "release" and size > MOST_BYTES:
        yield f"{size} bytes, at most {MOST_BYTES}"
    if preset != "release":
        return  # a library with sanitizers cannot be loaded into this process
    table = ctypes.CDLL(str(library)).lathe_cpu_kernels
    table.restype = ctypes.POINTER(TableStart)
    if not table(VERSION) or table(VERSION).contents.version != VERSION:
        yield f"no table of version {VERSION}"
    if table(VERSION + 1):
        yield f"a table of version {VERSION + 1}, which does not exist"


def main():
    build = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent
    library = build / "lib" / "liblathe_cpu.so"
    if not library.exists():
        print("skipped 1: the kernels are for x86-64\n0 passed, 0 failed, 1 skipped")
        return 77
    found = list(problems(library, os.environ["TEST_PRESET"]))
    for problem in found:
        print(problem)
    print(f"{int(not found)} passed, {int(bool(found))} failed, 0 skipped")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
