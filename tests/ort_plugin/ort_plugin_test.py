# SPDX-License-Identifier: MIT
"""Runs the checks of the execution provider in the environments of its hosts."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PRESET = os.environ.get("TEST_PRESET", "release")
LIBRARY = pathlib.Path(f"build/{PRESET}/lib/liblathe_ort.so").resolve()
CHECKS = [
    ("venv-ort", "sessions_check.py", []),
    ("venv-ort-oldest", "sessions_check.py", []),
    ("venv-ort", "contexts_check.py", []),
    ("venv-ort-oldest", "contexts_check.py", []),
    ("venv-ort", "compiled_files_check.py", []),
    ("venv-ort-oldest", "compiled_files_check.py", []),
    ("venv-ort", "random_check.py", ["60"]),
    ("venv-ort-oldest", "random_check.py", ["60"]),
    ("venv-ort", "bad_inputs_check.py", []),
    ("venv-ort-oldest", "bad_inputs_check.py", []),
    ("venv-ort", "device_memory_check.py", []),
    ("venv-ort-oldest", "device_memory_check.py", []),
    ("venv-ort", "package_check.py", []),
    ("venv-ort", "zoo_check.py", [str(LIBRARY), "amdgpu"]),
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
    return failed | run_examples()


def run_examples():
    """1 if an example fails."""
    environment = {**os.environ, "LATHE_ORT_LIBRARY": str(LIBRARY), "PYTHONPATH": "python"}
    python, numbers = "build/venv-ort/bin/python", "examples/embed/seven.txt"
    [host] = pathlib.Path("build/venv-ort/lib").glob("python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
    [oldest] = pathlib.Path("build/venv-ort-oldest/lib").glob(
        "python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
    classify, digits = f"build/{PRESET}/tests/ort_classify", "examples/digits/digits.onnx"
    model = pathlib.Path(tempfile.mkdtemp())
    for file in pathlib.Path("../shared/models/zoo/llama/fp32").iterdir():
        (model / file.name).symlink_to(file.resolve())
    (model / "chat_template.jinja").write_text("{% for message in messages %}{{ message['content'] }} {% endfor %}")
    failed = 0
    for command, want in [
        ([python, "examples/onnxruntime/classify.py", digits, numbers], "digit 7\n"),
        ([classify, str(host), str(LIBRARY), digits], "digit 7\n"),
        ([classify, str(oldest), str(LIBRARY), digits], "digit 7\n"),
        ([python, "examples/onnxruntime/chat.py", str(model), "hello", "8"], None),
    ]:
        with pathlib.Path(numbers).open() as pixels:
            run = subprocess.run(command, env=environment, stdin=pixels, capture_output=True, text=True)
        if run.returncode != 0 or (run.stdout != want if want else not run.stdout.strip()):
            print(f"{command} printed {run.stdout!r}, expected {want or 'an answer'!r}: {run.stderr}")
            failed = 1
    shutil.rmtree(model)
    return failed


if __name__ == "__main__":
    sys.exit(main())
