# SPDX-License-Identifier: MIT
"""Checks that sources compare ops by handle (`ops::transpose`), not by name.

Importers have names of operators; tests and the text form have names of ops.
"""

import pathlib
import re
import subprocess
import sys

EXEMPT = ("src/import/",)
# Counted, not refused yet.
PENDING = ("src/plan/", "src/runtime/")
COMMENTS = re.compile(r"//[^\n]*")
OP_NAME = r"\bop\(\)(?:\.|->)name\b"
FORMS = [
    ("compares an op's name", re.compile(rf"{OP_NAME}\s*[=!]=|[=!]=\s*[\w.>()*&-]*{OP_NAME}")),
    ("searches an op's name", re.compile(
        rf"{OP_NAME}\.(?!data|size)\w+\(|\bfind\w*\([^;]*?{OP_NAME}(?!\.)")),
    ("returns an op's name", re.compile(rf"\breturn [^;{{}}\"]*{OP_NAME};")),
    ("compares an op with a name", re.compile(r'\b(?:op|op_of\([^()]*\)) *[=!]= *"')),
    ("has an op by its name", re.compile(
        r'\bget_op\(\s*"|(?:\bb|\bbuilder|\(\*this\))(?:\.add)?\(\s*"\w+", *\{')),
]
KEPT = re.compile(rf"(\w+) = [^;{{}}\"]*{OP_NAME};")


def find_forms(code):
    """Positions and descriptions of what compares a name."""
    for what, form in FORMS:
        for match in form.finditer(code):
            yield match.start(), what
    for match in KEPT.finditer(code):
        if re.search(rf'\b{match.group(1)}(?: *[=!]= *"|\.\w+_with\()', code):
            yield match.start(), "keeps an op's name and compares it"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.check_output(["git", "ls-files", "src"], cwd=root, text=True).split()
    files = [f for f in listed if f.endswith((".cpp", ".h")) and not f.startswith(EXEMPT)]
    problems, pending = [], 0
    for name in files:
        path = root / name
        if not path.exists():
            continue
        code = COMMENTS.sub("", path.read_text())
        found = [(code.count("\n", 0, at) + 1, what) for at, what in find_forms(code)]
        if name.startswith(PENDING):
            pending += len(found)
        else:
            problems += [f"{name}:{line}: {what}" for line, what in sorted(found)]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} ops by name; {pending} in {', '.join(PENDING)}")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
