# SPDX-License-Identifier: MIT
"""Runs the code blocks of the documents.

usage: run_docs.py [FILE...]         default: README.md, docs/*.md and the examples' READMEs

Every block fenced as ```sh runs in bash -e, from the root of the repository, with the release program on
PATH. A block fails if a command fails. Other fences (text, cpp) are not run.
"""

import os
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
SECONDS = 300


def run_block(path, line, script):
    environment = dict(os.environ, PATH=f"{os.getcwd()}/build/release/bin:{os.environ['PATH']}")
    command = ["bash", "-euo", "pipefail", "-c", script]
    try:
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"{path}:{line}: not done after {SECONDS} s:\n{script}"
    if run.returncode != 0:
        return f"{path}:{line}: exit code {run.returncode} from\n{script}{run.stdout[-2000:]}"
    return None


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    root = pathlib.Path()
    files = [pathlib.Path(a) for a in sys.argv[1:]]
    files = files or [root / "README.md", *sorted(root.glob("docs/*.md")),
                      *sorted(root.glob("examples/*/README.md"))]
    blocks = failures = 0
    for path in files:
        text = path.read_text()
        for match in BLOCK.finditer(text):
            blocks += 1
            line = text.count("\n", 0, match.start()) + 2
            if problem := run_block(path, line, match.group(1)):
                print(problem)
                failures += 1
    print(f"{blocks} blocks in {len(files)} files, {failures} failed")
    return 1 if failures or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
