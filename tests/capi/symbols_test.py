# SPDX-License-Identifier: MIT
"""The shared library exports what cmake/liblathe.symbols lists and nothing else, and is at most 14 MB."""

import os
import pathlib
import subprocess
import sys

MAX_BYTES = 14_000_000


def main():
    build = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent
    library = build / "lib" / "liblathe.so"
    listing = subprocess.check_output(["nm", "-D", "--defined-only", str(library)], text=True)
    found = sorted(line.split()[-1].split("@")[0] for line in listing.splitlines())
    listed = pathlib.Path("cmake/liblathe.symbols").read_text().splitlines()
    listed = sorted(line for line in listed if line and not line.startswith("#"))
    for name in sorted(set(found) ^ set(listed)):
        print(f"{name}: " + ("exported, not listed" if name in found else "listed, not exported"))
    failed = int(found != listed)
    size = library.stat().st_size
    if os.environ["TEST_PRESET"] == "release" and size > MAX_BYTES:
        print(f"{size} bytes, at most {MAX_BYTES}")
        failed = 1
    print(f"{1 - failed} passed, {failed} failed, 0 skipped")
    return failed


if __name__ == "__main__":
    sys.exit(main())
