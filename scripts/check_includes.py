# SPDX-License-Identifier: MIT
"""Checks that folders of src/ include only themselves and earlier ones, that system calls occur only
in src/base/os_*.cpp, and that every header compiles alone.

usage: check_includes.py [--headers]     with --headers, only the last
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Each row may include itself (its folder only) and the rows before it.
ORDER = [
    ["base"],
    ["tensor"],
    ["ir"],
    ["ops"],
    ["import", "passes"],
    ["codegen"],
    ["plan"],
    ["targets"],
    ["runtime"],
    ["llm"],
    ["capi"],
    ["cli", "ort_plugin"],
]
# Folders that may include less than their row allows.
NARROW = {
    "src/targets/cpu/kernels": ["base", "tensor"],
    "src/llm/config": ["base", "llm"],
    "src/llm/search": ["base", "llm"],
    "src/llm/template": ["base", "llm"],
    "src/llm/tokenizer": ["base", "llm", "import"],
    "src/import/checkpoint/files": ["base"],
}
# Folders inside these: each row may include itself and the rows before it. The enclosing folder is "."; without a
# row it comes first.
INNER = {
    "targets/cpu/kernels": [
        ["simd"],
        ["common"],
        ["elementwise"],
        ["gemm"],
        ["depthwise", "conv"],
        ["weight_only"],
        ["attention"],
        ["recurrent"],
        ["pool"],
    ],
    "passes": [["analysis"], ["."], ["decoder"]],
}
# Vector code compiles only with the flags of its instruction set.
KERNELS = "src/targets/cpu/kernels/"
KERNEL_FLAGS = "-mavx2 -mfma -mf16c -mbmi -mbmi2".split()
AVX512_FLAGS = "-mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl".split()
AMX_FLAGS = "-mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16".split()
RANK = {folder: rank for rank, row in enumerate(ORDER) for folder in row}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
SYSTEM_HEADERS = re.compile(
    r"sys/.+|net/.+|netinet/.+|arpa/.+|linux/.+|asm/.+|unistd\.h|fcntl\.h|signal\.h|csignal|poll\.h"
    r"|dlfcn\.h|pthread\.h|sched\.h|termios\.h|dirent\.h|spawn\.h|pwd\.h|aio\.h"
)
# System calls that compile without a system header of their own. Ambiguous names count only if qualified.
SYSTEM_CALLS = re.compile(
    r"(?:(?<![\w.>:])(?:::)?(mmap|munmap|mremap|madvise|msync|isatty|ioctl|execve|execvp|popen"
    r"|sigaction|dlopen|dlsym|fsync|ftruncate|fstat|getpid|sysconf|getrusage|setenv|unsetenv|mkstemp)"
    r"|(?<!\w)(?:std)?::(system|signal|raise|kill|fork|rename|tmpfile|open|close|read|write|pipe))"
    r"\s*\("
)


# Written by the build (cmake/op_handles.cmake).
GENERATED = {"ir/ops.h", "cli/explain_page.inc", "targets/gpu/kernels.inc"}
COMMON_FLAGS = ["-std=c++20", "-w", "-Isrc", "-Iinclude", "-isystem", "third_party/onnxruntime",
                '-DLATHE_VERSION=""']
# Standard headers that declare a name; the first is the one to include.
STANDARD = {
    "abs": "cmath cstdlib",
    "add_pointer_t": "type_traits",
    "align_val_t": "new",
    "array": "array",
    "atomic": "atomic",
    "bad_alloc": "new",
    "bit_cast": "bit",
    "byte": "cstddef",
    "call_once": "mutex",
    "chrono": "chrono",
    "clamp": "algorithm",
    "complex": "complex",
    "condition_variable": "condition_variable",
    "conditional_t": "type_traits",
    "construct_at": "memory",
    "copy": "algorithm",
    "cout": "iostream",
    "current_exception": "exception",
    "deque": "deque",
    "enable_shared_from_this": "memory",
    "erase_if": "string vector map",
    "exception": "exception",
    "exception_ptr": "exception",
    "exchange": "utility",
    "fill": "algorithm",
    "find": "algorithm",
    "forward": "utility",
    "function": "functional",
    "future": "future",
    "gcd": "numeric",
    "get": "variant tuple utility array",
    "get_if": "variant",
    "holds_alternative": "variant",
    "in_place": "utility optional variant",
    "index_sequence": "utility",
    "initializer_list": "initializer_list vector",
    "integer_sequence": "utility",
    "integral_constant": "type_traits",
    "invocable": "concepts",
    "is_floating_point_v": "type_traits",
    "is_integral_v": "type_traits",
    "is_same_v": "type_traits",
    "is_signed_v": "type_traits",
    "is_trivially_destructible_v": "type_traits",
    "less": "functional",
    "list": "list",
    "make_index_sequence": "utility",
    "make_integer_sequence": "utility",
    "make_shared": "memory",
    "make_unique": "memory",
    "map": "map",
    "max": "algorithm",
    "memcpy": "cstring",
    "memory_order_acq_rel": "atomic",
    "memory_order_acquire": "atomic",
    "memory_order_relaxed": "atomic",
    "memset": "cstring",
    "min": "algorithm",
    "monostate": "variant",
    "move": "utility",
    "mt19937_64": "random",
    "mutex": "mutex",
    "nullopt": "optional",
    "numeric_limits": "limits",
    "ofstream": "fstream",
    "once_flag": "mutex",
    "optional": "optional",
    "pair": "utility map unordered_map",
    "ptrdiff_t": "cstddef",
    "ranges": "algorithm ranges",
    "remove_const_t": "type_traits",
    "remove_pointer_t": "type_traits",
    "rethrow_exception": "exception",
    "same_as": "concepts",
    "set": "set",
    "shared_ptr": "memory",
    "snprintf": "cstdio",
    "source_location": "source_location",
    "span": "span",
    "ssize": "iterator array deque map set span string string_view vector",
    "string": "string",
    "string_view": "string_view string",
    "swap": "utility",
    "terminate": "exception",
    "thread": "thread",
    "to_string": "string",
    "u32string": "string",
    "u32string_view": "string_view string",
    "unique_lock": "mutex",
    "unique_ptr": "memory",
    "unordered_map": "unordered_map",
    "unordered_multimap": "unordered_map",
    "unordered_set": "unordered_set",
    "variant": "variant",
    "vector": "vector",
    "weak_ptr": "memory",
}
LIBRARIES = ["fmt/format.h", "nlohmann/json.hpp"]


def relation(folder, other):
    if other not in RANK:
        return f"'{other}' is not a folder of src"
    if folder == other or RANK[other] < RANK[folder]:
        return None
    return f"'{folder}' may include only itself and what comes before it"


def narrow_problem(path, name, first):
    for place, allowed in NARROW.items():
        if place in map(str, path.parents) and first not in allowed:
            if place not in map(str, pathlib.Path("src", name).parents):
                return f"'{place}' may include only itself and {', '.join(allowed)}"
    return None


def inner_problem(path, name):
    """Why a file may not include a later folder of the same parent."""
    for place, rows in INNER.items():
        if not (path.is_relative_to(pathlib.Path("src", place)) and name.startswith(place + "/")):
            continue
        rank = {folder: number for number, row in enumerate(rows) for folder in row}
        own = path.relative_to(pathlib.Path("src", place)).parts[0]
        other = name.removeprefix(place + "/").split("/")[0]
        if own.endswith((".h", ".cpp")):
            own = "."
        if other in rank and (own in rank or own == ".") and rank[other] > rank.get(own, -1):
            return f"'{place}/{own}' comes before '{other}'"
    return None


def header_flags(path):
    """Compiler flags beyond the common ones; None if the header is not for this machine."""
    if not str(path).startswith(KERNELS):
        return []
    if os.uname().machine != "x86_64":
        return None
    flags = KERNEL_FLAGS
    if re.search(r"avx512|amx", path.name):
        flags = flags + AVX512_FLAGS
    return flags + AMX_FLAGS if "amx" in path.name else flags


def check_file(path, text):
    problems = []

    def report(position, message):
        problems.append(f"{path}:{text.count(chr(10), 0, position) + 1}: {message}")

    folder = path.parts[1] if path.parts[0] == "src" else "include"
    owns_system_calls = path.match("src/base/os_*.cpp")
    for match in INCLUDE.finditer(text):
        quote, name = match.groups()
        first = name.split("/")[0]
        if quote == "<":
            if not owns_system_calls and SYSTEM_HEADERS.fullmatch(name):
                report(match.start(), f"<{name}> belongs in src/base/os_*.cpp")
        elif first == "lathe":
            if folder not in ("cli", "capi", "include"):
                report(match.start(), f"'{folder}' includes the public header '{name}'")
        elif folder == "include":
            report(match.start(), f"a public header includes '{name}'")
        elif name not in GENERATED and not pathlib.Path("src", name).exists():
            report(match.start(), f"'{name}' is not relative to src")
        elif name in GENERATED and path.suffix == ".h":
            report(match.start(), f"a header includes '{name}', which changes with every op")
        elif problem := narrow_problem(path, name, first):
            report(match.start(), f"includes '{name}': {problem}")
        elif problem := inner_problem(path, name) or relation(folder, first):
            report(match.start(), f"includes '{name}': {problem}")
    if not owns_system_calls:
        code = COMMENTS_AND_STRINGS.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        for match in SYSTEM_CALLS.finditer(code):
            report(match.start(), f"system call '{match.group(1) or match.group(2)}' belongs in src/base/os_*.cpp")
    if path.suffix == ".h" and "#pragma once" not in text:
        report(0, "header without '#pragma once'")
    return problems


def included(path, seen):
    """System headers that a header includes, directly or through the project's headers."""
    if path in seen:
        return set()
    seen.add(path)
    names = set()
    for quote, name in INCLUDE.findall(path.read_text()):
        own = [folder / name for folder in (pathlib.Path("src"), pathlib.Path("include"))]
        own = [file for file in own if quote != "<" and file.exists()]
        names |= included(own[0], seen) if own else {name}
    return names


def check_names(path):
    """Standard names without their header; a precompiled header would hide the omission."""
    text = path.read_text()
    code = COMMENTS_AND_STRINGS.sub("", text)
    names = included(path, set())
    problems = []
    for name in sorted(set(re.findall(r"\bstd::(\w+)", code))):
        if name not in STANDARD:
            problems.append(f"{path}: std::{name}: which header has it? add it to STANDARD")
        elif not names.intersection(STANDARD[name].split()):
            problems.append(f"{path}: std::{name} without <{STANDARD[name].split()[0]}>")
    if re.search(r"\bfmt::", code) and not any(name.startswith("fmt/") for name in names):
        problems.append(f"{path}: fmt:: without <fmt/format.h>")
    if re.search(r"\bnlohmann::", code) and not any("nlohmann/" in name for name in names):
        problems.append(f"{path}: nlohmann:: without its header")
    return problems


def compile_header(path, precompiled):
    """Compiles one header; PRECOMPILED holds library headers, which take most of the time."""
    flags = header_flags(path)
    if flags is None:
        return []
    if not flags:
        flags = ["-include-pch", precompiled]
    command = ["clang++-19", *flags, *COMMON_FLAGS, "-fsyntax-only", "-x", "c++", str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    problems = check_names(path)
    if run.returncode != 0:
        problems.append(f"{path} does not compile alone:\n{run.stderr[:2000]}")
    return problems


def compile_headers(files):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "libraries.h")
        source.write_text("".join(f"#include <{name}>\n" for name in LIBRARIES))
        precompiled = str(source) + ".pch"
        subprocess.run(["clang++-19", *COMMON_FLAGS, "-fpch-instantiate-templates",
                        "-x", "c++-header", source, "-o", precompiled],
                       check=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda path: compile_header(path, precompiled), files):
                problems += found
    return problems


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    listed = subprocess.check_output(["git", "ls-files", "src", "include"], text=True).split()
    files = [p for p in map(pathlib.Path, listed) if p.suffix in (".h", ".cpp") and p.exists()]
    problems = []
    if "--headers" in sys.argv:
        files = [p for p in files if p.suffix == ".h"]
        problems = compile_headers(files)
    else:
        for path in files:
            problems += check_file(path, path.read_text())
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
