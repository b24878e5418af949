# SPDX-License-Identifier: MIT
"""docs/conformance.md has the results of every suite on every target."""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "make_conformance.py"
sys.exit(subprocess.run([sys.executable, SCRIPT, os.environ["TEST_PROGRAM"], "--check"]).returncode)
