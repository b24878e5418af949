# SPDX-License-Identifier: MIT
"""docs/reference-launches.md lists the launches of the reference on `cpu`: every 50th case of the suites."""

import os
import pathlib
import subprocess
import sys

if os.environ["TEST_PRESET"] != "release":
    print("skipped 1: the page is compared in the preset release only")
    sys.exit(77)
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "make_reference_launches.py"
sys.exit(subprocess.run([sys.executable, SCRIPT, os.environ["TEST_PROGRAM"], "--check"]).returncode)
