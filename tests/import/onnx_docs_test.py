# SPDX-License-Identifier: MIT
"""docs/onnx.md lists the operators that the program imports."""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "make_onnx_docs.py"
sys.exit(subprocess.run([sys.executable, SCRIPT, os.environ["TEST_PROGRAM"], "--check"]).returncode)
