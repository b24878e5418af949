# SPDX-License-Identifier: MIT
"""docs/conformance.md has the results of every suite on every target.

Under sanitizers the suites take minutes: only `make test-suites` (ALL_SUITES=1) runs them there.
"""

import os
import pathlib
import subprocess
import sys

if os.environ["TEST_PRESET"] != "release" and "ALL_SUITES" not in os.environ:
    print("skipped 1: all suites run in the preset release only; `make test-suites` runs them under sanitizers")
    sys.exit(77)
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "make_conformance.py"
sys.exit(subprocess.run([sys.executable, SCRIPT, os.environ["TEST_PROGRAM"], "--check"]).returncode)
