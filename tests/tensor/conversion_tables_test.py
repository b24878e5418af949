# SPDX-License-Identifier: MIT
"""The committed conversion tables equal the output of their script."""

import pathlib
import subprocess
import sys

script = pathlib.Path(__file__).with_name("make_conversion_tables.py")
sys.exit(subprocess.run([sys.executable, script, "--check"]).returncode)
