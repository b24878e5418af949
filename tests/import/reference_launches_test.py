# SPDX-License-Identifier: MIT
"""docs/reference-launches.md lists the launches of the reference on `cpu`: every 50th case of the suites."""

import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "make_reference_launches.py"
sys.path.insert(0, str(SCRIPT.parent))
import make_reference_launches as script  # noqa: E402

EXPLAIN = """#!/bin/sh
case $2 in
*/evaluated/*) echo '{"launches": [{"op": "neg", "reason": "none", "kernel": "ref.neg"}]}' ;;
*/refused/*) exit 4 ;;
*) exit 70 ;;
esac
"""


def require(condition, text):
    if not condition:
        sys.exit(f"error: {text}")


def check_script():
    """With a program that evaluates one model, refuses one and fails with the others."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = folder / "explain"
        program.write_text(EXPLAIN)
        program.chmod(0o755)
        for case in ("evaluated", "refused"):
            (folder / "suite" / case).mkdir(parents=True)
            (folder / "suite" / case / "model.onnx").touch()
        suites, launch = {"suite": folder / "suite"}, {("neg", "none")}
        for rows, wrong in (({"evaluated": launch}, []), ({}, ["evaluated"]),
                            ({"evaluated": launch | {("abs", "none")}}, ["evaluated"]),
                            ({"evaluated": launch, "refused": launch, "gone": launch}, ["gone", "refused"])):
            found = script.differing(program, suites, rows, 1)
            require(found == wrong, f"{found} differ from {rows}, expected {wrong}")
        (folder / "suite/failing").mkdir()
        (folder / "suite/failing/model.onnx").touch()
        try:
            script.collect(program, suites)
        except RuntimeError as error:
            require("exits with 70" in str(error), f"'{error}' has no exit code")
        else:
            require(False, "a failing explain passes")


check_script()
if os.environ["TEST_PRESET"] != "release":
    print("skipped 1: the page is compared in the preset release only")
    sys.exit(77)
sys.exit(subprocess.run([sys.executable, SCRIPT, os.environ["TEST_PROGRAM"], "--check"]).returncode)
