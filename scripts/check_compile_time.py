# SPDX-License-Identifier: MIT
"""Checks that no file of the CPU's kernels compiles for more than 10 s.

usage: check_compile_time.py [--all] [BUILD]      default: build/release; 77 where no kernel is compiled

Compiles, past the compiler's cache, the files with the most code, which take the longest (--all: every
file, with a line for each). Counts seconds of one core, so that neighbours do not lengthen them by much;
what takes too long all the same, as they take room in its caches, is compiled twice more by itself, and the
fastest counts.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

MOST_SECONDS = 10
LARGEST = 6
AGAIN = 2
KERNELS = "/src/targets/cpu/kernels/"


def commands_of(build):
    """Per object of a kernel file how it is compiled."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = {}
    for entry in commands:
        if KERNELS in entry["file"] and "lathe_cpu_kernels.dir" in entry["command"]:
            words = shlex.split(entry["command"])
            found[build / words[words.index("-o") + 1]] = words
    return found


def code_bytes(path):
    if not path.exists():
        return 0
    return int(subprocess.check_output(["size", str(path)], text=True).splitlines()[1].split()[0])


def seconds_to_compile(words, build):
    words = [*words]
    words[words.index("-o") + 1] = "/dev/null"
    process = subprocess.Popen(words, cwd=build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        raise SystemExit(f"exit status {status} from {' '.join(words)}")
    return usage.ru_utime + usage.ru_stime


def compile_times(objects, build):
    """(seconds, name) of each, slowest first."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        times = pool.map(lambda words: seconds_to_compile(words, build), objects.values())
        named = [(taken, path.name.removesuffix(".o")) for taken, path in zip(times, objects)]
    commands = {path.name.removesuffix(".o"): words for path, words in objects.items()}
    for i, (taken, name) in enumerate(named):
        for _ in range(AGAIN):
            if taken > MOST_SECONDS:
                taken = min(taken, seconds_to_compile(commands[name], build))
        named[i] = (taken, name)
    return sorted(named, reverse=True)


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    words = [word for word in sys.argv[1:] if word != "--all"]
    every = len(words) + 1 < len(sys.argv)
    build = pathlib.Path(words[0] if words else "build/release").resolve()
    objects = commands_of(build)
    if not objects:
        print(f"no kernels in {build.name}")
        return 77
    if not every:
        largest = sorted(objects, key=code_bytes, reverse=True)[:LARGEST]
        objects = {path: objects[path] for path in largest}
    times = compile_times(objects, build)
    for taken, name in times if every else times[:0]:
        print(f"{taken:6.1f} s  {name}")
    slow = [f"{name} compiles for {taken:.1f} s" for taken, name in times if taken > MOST_SECONDS]
    for problem in slow:
        print(problem)
    taken, name = times[0]
    print(f"{name} compiles for {taken:.1f} of {MOST_SECONDS} s")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
