# SPDX-License-Identifier: MIT
"""Checks that no file of the CPU's kernels and no unit of a unity build compiles for more than 10 s.

usage: check_compile_time.py [--all] [BUILD]      default: build/release; 77 where no kernel is compiled

Compiles, past the compiler's cache, the files of each kind with the most code, which take the longest
(--all: every file, with a line for each). Counts seconds of one core, so that neighbours do not lengthen them by much;
what takes too long all the same, as they take room in its caches, is compiled twice more by itself, and the
fastest counts. Seconds of a slow processor, which needs more than REFERENCE_SECONDS for REFERENCE just after a file,
count in proportion; those of a fast one count in full.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

MOST_SECONDS = 10
LARGEST = {"kernels": 5, "Unity": 5}
AGAIN = 2
KERNELS = "/src/targets/cpu/kernels/"
REFERENCE_SECONDS = 4
REFERENCE = """
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main(int argc, char** argv) {
  const std::regex words("([a-z]+)([0-9]*)");
  std::map<std::string, std::vector<std::function<int(int)>>> found;
  for (int i = 1; i < argc; ++i) {
    std::smatch match;
    const std::string text = argv[i];
    if (std::regex_search(text, match, words)) found[match[1]].push_back([i](int j) { return i + j; });
  }
  return static_cast<int>(found.size());
}
"""


def commands_of(build):
    """Per object of a kernel file or of a unity build how it is compiled."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = {}
    for entry in commands:
        words = shlex.split(entry["command"])
        target = words[words.index("-o") + 1]
        if target.startswith("CMakeFiles/lathe_") and (KERNELS in entry["file"] or "/Unity/" in target):
            found[build / target] = words
    return found


def name_of(path, build):
    return str(path.relative_to(build / "CMakeFiles")).removesuffix(".o")


def code_bytes(path):
    if not path.exists():
        return 0
    return int(subprocess.check_output(["size", str(path)], text=True).splitlines()[1].split()[0])


def seconds_to_compile(words, build, text=""):
    words = [*words]
    words[words.index("-o") + 1] = "/dev/null"
    process = subprocess.Popen(words, cwd=build, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    with process.stdin:
        process.stdin.write(text.encode())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        raise SystemExit(f"exit status {status} from {' '.join(words)}")
    return usage.ru_utime + usage.ru_stime


def seconds_alone(words, build):
    """Seconds for a file; of a slow processor, those that a fast one would need."""
    taken = seconds_to_compile(words, build)
    reference = [words[0], "-std=c++20", "-O2", "-x", "c++", "-c", "-", "-o", ""]
    return taken / max(1, seconds_to_compile(reference, build, REFERENCE) / REFERENCE_SECONDS)


def compile_times(objects, build):
    """(seconds, name) of each, slowest first."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        times = pool.map(lambda words: seconds_to_compile(words, build), objects.values())
        named = [(taken, name_of(path, build)) for taken, path in zip(times, objects)]
    commands = {name_of(path, build): words for path, words in objects.items()}
    for i, (taken, name) in enumerate(named):
        for _ in range(AGAIN):
            if taken > MOST_SECONDS:
                taken = min(taken, seconds_alone(commands[name], build))
        named[i] = (taken, name)
    return sorted(named, reverse=True)


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    words = [word for word in sys.argv[1:] if word != "--all"]
    every = len(words) + 1 < len(sys.argv)
    build = pathlib.Path(words[0] if words else "build/release").resolve()
    objects = commands_of(build)
    if not objects:
        print(f"no kernels and no unity build in {build.name}")
        return 77
    if not every:
        sizes = sorted(objects, key=code_bytes, reverse=True)
        largest = [path for kind, count in LARGEST.items()
                   for path in [p for p in sizes if ("/Unity/" in str(p)) == (kind == "Unity")][:count]]
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
