# SPDX-License-Identifier: MIT
"""Checks every tracked file: length, folder READMEs, licence line, one op per file with its test, no
macros in ops, no evaluations in kernels, no path or host of one machine.
"""

import os
import pathlib
import re
import subprocess
import sys

WARN_LINES, MAX_LINES, README_LINES = 400, 800, 15
FOLDER_LINES = {pathlib.Path("src/import/checkpoint/architectures"): 120}
SOURCES = {".cpp", ".h", ".py", ".sh", ".cmake"}
NAMED_SOURCES = {"CMakeLists.txt", "Makefile"}
BINARY = {".onnx", ".png", ".jpg", ".npz", ".npy", ".pb", ".gz", ".zst", ".lathe"}
REGISTRATION = re.compile(r"^static const Register \w+\s*[{(]", re.M)
OP_NAME = re.compile(r'\.name\s*=\s*"([^"]+)"')
MACHINE_PATH = re.compile(r"""(?:^|[\s"'`=(:,])/(work|home|root|farm|tmp/wt)/""", re.M)
URL_HOST = re.compile(r"https?://([\w.-]+)")
KNOWN_HOSTS = {"www.w3.org", "git-lfs", "localhost", "127.0.0.1"}
# Pages may link to the homes of formats, papers, peers and models.
LINKED_HOSTS = {"onnx.ai", "arxiv.org", "github.com", "huggingface.co"}


def check_lengths(path, lines):
    most = FOLDER_LINES.get(path.parent, MAX_LINES)
    if len(lines) > most:
        yield f"{path}: {len(lines)} lines, at most {most} are allowed: split it"
    elif len(lines) > WARN_LINES:
        print(f"warning: {path}: {len(lines)} lines")


def check_licence(path, lines):
    first = next((line for line in lines if not line.startswith("#!")), "")
    if "SPDX-License-Identifier: MIT" not in first:
        yield f"{path}: does not begin with its SPDX line"


def check_op(path, text):
    """An op file registers one op of the same name, with a test of that name."""
    if re.search(r"^\s*#\s*define\b", text, re.M):
        yield f"{path}: defines a macro"
    if path.suffix != ".cpp" or not (count := len(REGISTRATION.findall(text))):
        return
    if count > 1:
        yield f"{path}: registers {count} ops, one file holds one op"
    name = OP_NAME.search(text)
    if name and name.group(1).replace(".", "_") != path.stem:
        yield f"{path}: registers '{name.group(1)}', the file should bear that name"
    test = pathlib.Path("tests/ops", path.stem + ".test")
    if not test.exists():
        yield f"{path}: has no {test}"


def check_kernel(path, text):
    """Kernels read attributes when they are made: a launch sees no instruction."""
    for match in re.finditer(r"\w*Evaluation\b", text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: names {match.group()}, which is for the reference alone"


def check_machine(path, text):
    for match in MACHINE_PATH.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        yield f"{path}:{line}: a path of one machine: /{match.group(1)}/"
    for host in URL_HOST.findall(text):
        if host not in KNOWN_HOSTS and not (path.suffix == ".md" and host in LINKED_HOSTS):
            yield f"{path}: names the host {host}"


def check_folder(folder):
    readme = folder / "README.md"
    if not readme.exists():
        yield f"{folder}: has no README.md"
    elif (lines := len(readme.read_text().splitlines())) > README_LINES:
        yield f"{readme}: {lines} lines, at most {README_LINES} are allowed"


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    listed = subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0")
    files = [p for p in map(pathlib.Path, listed) if p.is_file()]
    problems = []
    for path in files:
        if path.suffix in BINARY or path.parts[0] == "third_party":
            continue
        text = path.read_text(errors="replace")
        problems += check_machine(path, text)
        if path.suffix in SOURCES or path.name in NAMED_SOURCES:
            problems += check_lengths(path, text.splitlines())
            problems += check_licence(path, text.splitlines())
        if path.parts[:2] == ("src", "ops"):
            problems += check_op(path, text)
        if path.parts[:3] == ("src", "targets", "cpu"):
            problems += check_kernel(path, text)
    folders = {p.parent for p in files if not str(p.parent).startswith(".")}
    for folder in sorted(folders):
        problems += check_folder(folder)
    for problem in problems:
        print(problem)
    print(f"{len(files)} files in {len(folders)} folders, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
