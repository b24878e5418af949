# SPDX-License-Identifier: MIT
"""Finds the built package, and runs the test functions of a file."""

import os
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared"))


def find():
    """Puts the package on the path, or ends the test as skipped."""
    folder = os.environ.get("LATHE_PYTHON_PACKAGE")
    folder = pathlib.Path(folder or ROOT / "build" / os.environ.get("TEST_PRESET", "release") / "python")
    if not (folder / "lathe" / "_core.abi3.so").exists():
        print(f"skipped 1: {folder} has no package: it is built where build/venv has nanobind")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    sys.path.insert(0, str(folder))
    return folder


def is_sanitized():
    """True under AddressSanitizer, which keeps freed memory for a while."""
    return "asan" in os.environ.get("LD_PRELOAD", "")


class Skip(Exception):
    """A test that cannot run here; the text is the reason."""


def raises(kinds, call, *fragments):
    """Checks that a call raises one of the classes with a message that contains the fragments."""
    try:
        call()
    except kinds as error:
        for fragment in fragments:
            assert fragment in str(error), f"{fragment!r} not in {error}"
        return error
    raise AssertionError(f"no {kinds} was raised")


def run(names):
    """Runs the functions test_* of a module's names and exits with the verdict."""
    passed = failed = 0
    skipped = []
    for name, function in list(names.items()):
        if not name.startswith("test_"):
            continue
        try:
            function()
            passed += 1
        except Skip as reason:
            skipped.append(str(reason))
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    for reason in sorted(set(skipped)):
        print(f"skipped {skipped.count(reason)}: {reason}")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    sys.exit(1 if failed else 0)
