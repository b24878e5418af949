# SPDX-License-Identifier: MIT
"""Each entry point of the CPU's kernel library is launched by a program of the suites, or named below with the reason.

An entry point, by the objects' symbols, is what src/targets/cpu calls of src/targets/cpu/kernels, what is named `run`
there, and what the objects for AVX-512 export. `launched.cpp` finds those that the suites' programs call. For a release
build on a processor with AVX-512 VNNI and without AMX.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent
LIBRARY = BUILD / "tests" / "liblaunched.so"
SUITES = [("ops_tests", "*"), ("models_tests", "Fingerprints*"), ("targets_tests", "*-*Compiled*:*LargeWeights*:*Tun*")]
KERNELS = "lathe_cpu_*.dir/**/*.o"
UNITS = "lathe_cpu_avx512*.dir/**/*.o"
CALLERS = "lathe_targets.dir/src/targets/cpu/*.o"
# Called otherwise than by the programs above.
OTHERWISE = {
    "PagedBlocks::run": "contexts above 1,000 tokens, as of `lathe perf DIR --prompt-tokens 1500`",
    "attention_int16_avx512": "int8 caches with --compute bf16",
    "build_isa": "builds for one instruction set",
    "pipelined_bf16_avx512_bf16": "convolutions with --compute bf16, as of ResNet-50",
    "unpack_b": "compiled files",
    "unpack_half_panels": "compiled files",
    "unpack_weight_only": "compiled files",
    "weight_only_variant": "what `explain` prints",
}


def symbols(path, *options):
    """Addresses and names of functions in lathe::cpu; members of classes as Class::member."""
    listed = subprocess.run(["nm", "-C", *options, path], capture_output=True, text=True, check=True).stdout
    for match in re.finditer(r"^([0-9a-f]*) +([tTU]) lathe::cpu::([\w:~]+)(?:\[abi:cxx11\])?\(", listed, re.MULTILINE):
        if "~" not in match.group(3):
            yield match.group(1), match.group(3)


def names_of(pattern, option):
    built = (BUILD / "build.ninja").read_text()  # objects of files that are gone stay in the folder
    return {name for path in (BUILD / "CMakeFiles").glob(pattern) if f"build {path.relative_to(BUILD)}:" in built
            for _, name in symbols(path, option)}


def entry_points():
    defined = names_of(KERNELS, "--defined-only")
    forms = {name for name in defined if name.endswith("::run")}
    return defined & names_of(CALLERS, "--undefined-only") | forms | names_of(UNITS, "--defined-only")


def launched(program, tests, entries, folder):
    """The entry points that the program's tests call."""
    path = BUILD / "tests" / program
    places = {int(address, 16): name for address, name in symbols(path, "--defined-only") if name in entries}
    functions, found = folder / f"{program}.functions", folder / f"{program}.launched"
    functions.write_text("".join(f"{address:x}\n" for address in places))
    environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), LAUNCHED_FUNCTIONS=str(functions), LAUNCHED=str(found))
    run = subprocess.run([path, "--gtest_brief=1", f"--gtest_filter={tests}"], env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{program} exits with {run.returncode}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    if "SKIPPED" in run.stdout:
        print(f"skipped: {program} lacks its models")
        sys.exit(77)
    return {places[int(line, 16)] for line in found.read_text().split()}


def main():
    doctor = subprocess.run([os.environ["TEST_PROGRAM"], "doctor"], capture_output=True, text=True, check=True).stdout
    features = re.search(r"^features +(.*)$", doctor, re.MULTILINE).group(1).split()
    limited = os.environ.get("LATHE_CPU_ISA", "auto") != "auto"
    if not LIBRARY.exists() or "avx512vnni" not in features or "avx512bf16" not in features or "amx_tile" in features or limited:
        print("skipped: no release build, or a processor without AVX-512 BF16 or with AMX")
        return 77
    entries = entry_points()
    if len(entries) < 50:
        sys.exit(f"found only {sorted(entries)}")
    with tempfile.TemporaryDirectory() as folder:
        reached = set().union(*(launched(program, tests, entries, pathlib.Path(folder)) for program, tests in SUITES))
    missing = sorted(entries - reached - set(OTHERWISE))
    gone = sorted(set(OTHERWISE) - entries)
    for name in missing:
        print(f"no program of the suites launches {name}")
    for name in gone:
        print(f"{name} is no entry point")
    return 1 if missing or gone else 0


if __name__ == "__main__":
    sys.exit(main())
