# SPDX-License-Identifier: MIT
"""What the tests of the CPU's kernels call, the target calls, too: a kernel that no program reaches is deleted."""

import pathlib
import re
import sys

FOLDER = "src/targets/cpu/kernels/"
WORD = re.compile(r"\w+")
INCLUDE = re.compile(r'^#include "(?:src/)?(targets/cpu/kernels/[^"]+)"', re.MULTILINE)
CLASS = re.compile(r"^class (\w+)[^;]*\{$", re.MULTILINE)
FUNCTION = re.compile(r"^(?:inline |constexpr )*[A-Za-z_][\w:<>,&* ]*?[ &*](\w+)\(", re.MULTILINE)
# Only for tests and benchmarks: an error bound, variants to compare, another instruction set.
QUESTIONS = {"winograd_error", "matmul_variants", "limit_isa"}


def texts(*patterns):
    return {str(path): path.read_text() for pattern in patterns for path in sorted(pathlib.Path().glob(pattern))}


def unreached_in(header, sources, files_with):
    """Names that only the header and its own source have; a function may be called by its own source."""
    own = {header, header.removesuffix(".h") + ".cpp"}
    source = sources.get(header.removesuffix(".h") + ".cpp", "")
    for pattern in (CLASS, FUNCTION):
        for name in {match.group(1) for match in pattern.finditer(sources[header])} - QUESTIONS:
            called = pattern is FUNCTION and len(re.findall(rf"\b{name}\b", source)) > 1
            if files_with[name] <= own and not called:
                yield f"{header}: nothing else in src uses '{name}'"


def main():
    sources = texts("src/**/*.h", "src/**/*.cpp")
    files_with = {}
    for file, text in sources.items():
        for word in set(WORD.findall(text)):
            files_with.setdefault(word, set()).add(file)
    tested = {"src/" + match.group(1) for text in texts("tests/kernels/*.cpp").values() for match in INCLUDE.finditer(text)}
    if len(tested) < 10:
        sys.exit(f"found only {sorted(tested)}")
    unreached = [line for header in sorted(tested) for line in unreached_in(header, sources, files_with)]
    print("\n".join(unreached))
    return 1 if unreached else 0


if __name__ == "__main__":
    sys.exit(main())
