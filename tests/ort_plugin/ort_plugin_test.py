# SPDX-License-Identifier: MIT
"""Runs the checks of the execution provider in the environments of its hosts."""

import os
import pathlib
import subprocess
import sys

PRESET = os.environ.get("TEST_PRESET", "release")
LIBRARY = pathlib.Path(f"build/{PRESET}/lib/liblathe_ort.so").resolve()
CHECKS = [
    ("venv-ort", "sessions_check.py", []),
    ("venv-ort-oldest", "sessions_check.py", []),
    ("venv-ort", "package_check.py", []),
    ("venv-ort", "zoo_check.py", [str(LIBRARY), "llama", "lfm2", "gemma2", "qwen3", "gpt_oss"]),
]


def main():
    # A Python without sanitizers cannot load a library with them.
    if PRESET != "release":
        return 77
    failed = 0
    for venv, check, arguments in CHECKS:
        python = pathlib.Path("build", venv, "bin/python")
        if not python.exists():
            print(f"{python} is missing: run scripts/venv.sh {venv} (see scripts/test.sh)")
            return 77
        command = [python, f"tests/ort_plugin/{check}", *arguments]
        failed |= subprocess.run(command, env={**os.environ, "LATHE_ORT_LIBRARY": str(LIBRARY)}).returncode
    example = ["examples/onnxruntime/classify.py", "examples/digits/digits.onnx", "examples/embed/seven.txt"]
    environment = {**os.environ, "LATHE_ORT_LIBRARY": str(LIBRARY), "PYTHONPATH": "python"}
    run = subprocess.run(["build/venv-ort/bin/python", *example], env=environment, capture_output=True, text=True)
    if run.stdout != "digit 7\n":
        print(f"{example[0]} printed {run.stdout!r}, expected 'digit 7': {run.stderr}")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
