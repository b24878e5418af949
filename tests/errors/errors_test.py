# SPDX-License-Identifier: MIT
"""Runs the cases of tests/errors/*.test. See README.md.

usage: errors_test.py [--update] [--file NAME.test[:LINE]]

A case:

    # A sentence that describes the error.
    $ lathe run cut.onnx
    error: …
    exit 3
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

SECONDS = 20
RESIDENT_BYTES = 300 << 20
BOUNDED_BYTES = 64 << 20  # plus 8 times the input, for cases marked "(bounded)"
LIBRARY_TEXT = re.compile(r"json\.exception|\bAssertion\b|std::|terminate")
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
    """Returns standard error, the exit code and the peak resident bytes."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    process = subprocess.Popen(["bash", "-c", f"exec {command}" if "|" not in command else command],
                               cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    timer = threading.Timer(limit, process.kill)
    timer.start()
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if not timer.is_alive():
        text += b"(killed: out of time)"
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    text = text.decode(errors="replace").rstrip("\n").replace(os.path.realpath(folder), "$FOLDER")
    text = re.sub(r"[\d.]+ \wiB are available", "N are available", text)
    text = re.sub(r"after \d+ launches", "after N launches", text)
    return text, process.returncode, usage.ru_maxrss * 1024


def allowed_bytes(sentence, command, folder):
    """The limit of a case's resident memory."""
    if not sentence.endswith("(bounded)."):
        return RESIDENT_BYTES
    paths = [pathlib.Path(folder) / word for word in command.split()]
    files = [file for path in paths for file in [path, *path.rglob("*")] if file.is_file()]
    return BOUNDED_BYTES + 8 * sum(file.stat().st_size for file in files)


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
        # In its own process: a child inherits the peak memory of its parent.
        subprocess.run([sys.executable, HERE / "make_files.py", folder], check=True)
        for path in sorted(HERE.glob("*.test")):
            cases = read_cases(path)
            for i, (line, sentence, command, expected, code) in enumerate(cases):
                if only and only not in (path.name, f"{path.name}:{line}"):
                    continue
                text, found, peak = run(command, folder, program, SECONDS if is_plain else 6 * SECONDS)
                problem = ""
                if is_plain and peak > allowed_bytes(sentence, command, folder):
                    problem = f"it took {peak >> 20} MB, {allowed_bytes(sentence, command, folder) >> 20} are allowed\n"
                if LIBRARY_TEXT.search(text):
                    problem += "the message has text of a library\n"
                if update:
                    cases[i] = (line, sentence, command, text, found)
                if not problem and (update or (text, found) == (expected, code)):
                    passed += 1
                    continue
                failed += 1
                print(f"{path.name}:{line}: {sentence}\n$ {command}\n{problem}--- expected, exit {code}\n{expected}\n"
                      f"--- found, exit {found}\n{text}\n"
                      f"rerun: {sys.argv[0]} --file {path.name}:{line}\n")
            if update:
                write_cases(path, cases)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    if passed + failed == 0:
        sys.exit(f"no case is called '{only}'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
