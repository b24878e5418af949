# SPDX-License-Identifier: MIT
"""Runs a test program built with a folder's files over the tree; the tree stays unchanged.

usage: try_change.py FOLDER PROGRAM [ARGUMENT...]

FOLDER has changed and new sources under their paths (FOLDER/src/ops/cube.cpp). They are compiled as
build/release compiles them or their neighbours, but warnings are no errors, and linked with its other
objects; a header in FOLDER reaches only the sources in FOLDER and those compiled together with them.
PROGRAM, a test program such as ops_tests, or lathe itself, runs in the tree's root.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"


def without_root(file):
    return file.read_text().replace(f'"{ROOT}/', '"')


def sources_of(file):
    """What a compiled file holds: itself, or the sources that a file of a unity build includes."""
    if file.parent.name == "Unity":
        return re.findall(r'^#include "(.*)"$', without_root(file), re.MULTILINE)
    return [str(file.relative_to(ROOT))] if file.is_relative_to(ROOT) else []


def compile_source(folder, source, entries):
    """The object in the build that it replaces, if any, and the new object."""
    own = entries.get(str(source))
    model = own or next((e for file, e in entries.items()
                         if pathlib.Path(file).parent == source.parent), None)
    if model is None:
        sys.exit(f"error: {source}: no source beside it is built, so its flags are not known")
    target = folder / "objects" / source.with_suffix(".o")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.split(model["command"])
    at = command.index("-o") + 1
    replaced = (BUILD / command[at]).relative_to(BUILD) if own else None
    command[at] = str(target)
    if own is None or ROOT / source == pathlib.Path(own["file"]):
        command[command.index("-c") + 1] = str(folder / source)
    else:
        unity = target.with_suffix(".cxx")
        unity.write_text(without_root(pathlib.Path(own["file"])))
        command[command.index("-c") + 1] = str(unity)
    command[1:1] = [f"-I{folder / 'src'}", f"-I{folder}"]
    command.append("-Wno-error")
    if subprocess.run(command, cwd=BUILD).returncode != 0:
        sys.exit(f"error: {source} does not compile")
    return str(replaced), str(target)


def target_of(program):
    return "bin/lathe" if program == "lathe" else f"tests/{program}"


def link(folder, program, objects):
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target_of(program)], text=True,
                            stdout=subprocess.PIPE, check=True).stdout
    command = shlex.split(listed.strip().splitlines()[-1])
    command = [dict(objects).get(word, word) for word in command if word not in (":", "&&")]
    at = command.index("-o")
    command[at + 1] = str(folder / program)
    command[at:at] = [new for old, new in objects if old == "None"]
    if subprocess.run(command, cwd=BUILD).returncode != 0:
        sys.exit(f"error: {program} does not link")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    built = subprocess.run(["ninja", "-C", BUILD, target_of(program)], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if built.returncode != 0:
        sys.exit(f"{built.stdout}error: build/release has no {program}: run scripts/build.sh release")
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entries = {source: e for e in entries for source in sources_of(pathlib.Path(e["file"]))}
    sources = sorted(p.relative_to(folder) for p in folder.rglob("*.cpp"))
    link(folder, program, [compile_source(folder, source, entries) for source in sources])
    sys.exit(subprocess.run([folder / program, *sys.argv[3:]], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
