# SPDX-License-Identifier: MIT
"""Writes python/lathe/_core.pyi, the types of the extension module, by nanobind's stub generator.

usage: make_python_stubs.py [--check]      needs lathe and nanobind on the path of Python
"""

import pathlib
import re
import subprocess
import sys
import tempfile

STUB = pathlib.Path(__file__).resolve().parent.parent / "python/lathe/_core.pyi"
# The generator knows containers and objects; their items are any.
TYPES = [(r"\bobject\b", "Any"), (r"\blist\b(?!\[)", "list[Any]"), (r"\btuple\b(?!\[)", "tuple[Any, ...]"),
         (r"\bdict\b(?!\[)", "dict[str, Any]"), (r"Any \| None", "Any"),
         (r"(def run\(self, output_names.*) -> Any", r"\1 -> list[Any]")]


def generate():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "core.pyi")
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-m", "lathe._core", "-o",
                        str(path)], check=True)
        text = path.read_text()
    for pattern, replacement in TYPES:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return ("# SPDX-License-Identifier: MIT\n"
            "# scripts/make_python_stubs.py writes this file.\n"
            "from typing import Any\n" + text + "\n")


def main():
    text = generate()
    if "--check" in sys.argv:
        if text != STUB.read_text():
            print(f"error: {STUB.name} is out of date: run scripts/make_python_stubs.py")
            return 1
    else:
        STUB.write_text(text)
    return 0


sys.exit(main())
