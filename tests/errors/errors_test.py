# SPDX-License-Identifier: MIT
"""Runs the cases of tests/errors/*.test. See README.md.

usage: errors_test.py [--update] [--file NAME.test[:LINE]]

A case:

    # A sentence that says what is wrong.
    $ lathe run cut.onnx
    error: …
    exit 3
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import make_files

SECONDS = 20
RESIDENT_BYTES = 300 << 20
HERE = pathlib.Path(__file__).resolve().parent


def read_cases(path):
    """[(line, sentence, command, expected text, exit code)] of a file."""
    cases = []
    sentence, command, text, start = "", None, [], 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if command is None:
            if line.startswith("# "):
                sentence = line[2:]
            elif line.startswith("$ "):
                command, text, start = line[2:], [], number
            elif line:
                sys.exit(f"{path}:{number}: expected a sentence or a command, found: {line}")
        elif match := re.fullmatch(r"exit (\d+)", line):
            cases.append((start, sentence, command, "\n".join(text), int(match.group(1))))
            command = None
        else:
            text.append(line)
    if command is not None:
        sys.exit(f"{path}:{start}: the case has no line 'exit N'")
    return cases


def run(command, folder, program, limit):
    """(standard error, exit code, peak bytes)"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    process = subprocess.Popen(["bash", "-c", f"exec {command}" if "|" not in command else command],
                               cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        text = process.communicate(timeout=limit)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        text = process.communicate()[1] + b"(killed: out of time)"
    text = text.decode(errors="replace").rstrip("\n").replace(os.path.realpath(folder), "$FOLDER")
    text = re.sub(r"[\d.]+ \wiB are available", "N are available", text)
    return re.sub(r"after \d+ launches", "after N launches", text), process.returncode


def write_cases(path, cases):
    out = ["# SPDX-License-Identifier: MIT"]
    for _, sentence, command, text, code in cases:
        out += ["", f"# {sentence}", f"$ {command}"] + ([text] if text else []) + [f"exit {code}"]
    path.write_text("\n".join(out) + "\n")


def main():
    update = "--update" in sys.argv
    only = sys.argv[sys.argv.index("--file") + 1] if "--file" in sys.argv else ""
    program = pathlib.Path(os.environ["TEST_PROGRAM"]).resolve()
    # Sanitizers keep shadow memory and are slower.
    is_plain = os.environ.get("TEST_PRESET", "release") in ("release", "gcc")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        make_files.make(pathlib.Path(folder))
        for path in sorted(HERE.glob("*.test")):
            cases = read_cases(path)
            for i, (line, sentence, command, expected, code) in enumerate(cases):
                if only and only not in (path.name, f"{path.name}:{line}"):
                    continue
                text, found = run(command, folder, program, SECONDS if is_plain else 6 * SECONDS)
                if update:
                    cases[i] = (line, sentence, command, text, found)
                if update or (text, found) == (expected, code):
                    passed += 1
                    continue
                failed += 1
                print(f"{path.name}:{line}: {sentence}\n$ {command}\n--- expected, exit {code}\n{expected}\n"
                      f"--- found, exit {found}\n{text}\n"
                      f"rerun: {sys.argv[0]} --file {path.name}:{line}\n")
            if update:
                write_cases(path, cases)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    if is_plain and peak > RESIDENT_BYTES:
        print(f"a case took {peak >> 20} MB, at most {RESIDENT_BYTES >> 20} are allowed")
        failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    if passed + failed == 0:
        sys.exit(f"no case is called '{only}'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
