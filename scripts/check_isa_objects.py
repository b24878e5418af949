# SPDX-License-Identifier: MIT
"""Checks the contents of objects compiled for one instruction set:

no weak symbols, since the linker keeps one of several weak definitions, and a common function compiled for
a better processor would replace all others;
no instruction beyond the set, which would crash on a processor that has only the set;
the instructions that the object exists for, in the encoding of its set, even if this machine cannot run
them.

usage: check_isa_objects.py [BUILD]      default: build/release; exits with 77 without such objects
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

UNIT = re.compile(r"_(avx2|avx2_vnni|avx512|avx512_vnni|avx512_bf16|amx)\.cpp\.o$")
WEAK = set("VvWwu")
INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t(.*)$")

# Instructions beyond AVX2 and AVX-512 F, BW, CD, DQ, VL, by the set that brings them.
EXTENSIONS = {
    "vnni": re.compile(r"vpdp(bu|ws)"),
    "bf16": re.compile(r"vdpbf16ps|vcvtne2?ps2?bf16"),
    "vbmi": re.compile(r"vperm(b|i2b|t2b)\b|vpmultishiftqb"),
    "amx": re.compile(r"tdp|tile|ldtilecfg|sttilecfg"),
    "other": re.compile(r"vp(compress|expand)[bw]\b|vpsh[lr]d|vpopcnt|vpshufbitqmb|v.*(ph|sh)\b(?<!ps2ph)"
                        r"|vp(madd52|clmul)|vgf2p8|vaes|vp2intersect"),
}
ALLOWED = {
    "avx2": set(),
    "avx2_vnni": {"vnni"},
    "avx512": {"evex"},
    "avx512_vnni": {"evex", "vnni"},
    "avx512_bf16": {"evex", "vnni", "bf16"},
    "amx": {"evex", "vnni", "bf16", "vbmi", "amx"},
}
# Required instructions of a unit: patterns over "{encoding} mnemonic operands".
EXPECTED = {
    "brgemm_f32_avx2": [r"vfmadd\w+ps .*%ymm"],
    "brgemm_f32_avx512": [r"vfmadd\w+ps .*%zmm"],
    "brgemm_bf16_avx2": [r"vfmadd\w+ps .*%ymm"],
    "brgemm_bf16_avx512": [r"vfmadd\w+ps .*%zmm"],
    "brgemm_bf16_avx512_bf16": [r"vdpbf16ps .*%zmm"],
    "brgemm_s8s8_avx2": [r"vpmaddwd .*%ymm"],
    "brgemm_s8s8_avx2_vnni": [r"\{vex\} vpdpbusd .*%ymm"],
    "brgemm_s8s8_avx512": [r"vpmaddwd .*%zmm"],
    "brgemm_s8s8_avx512_vnni": [r"^vpdpbusd .*%zmm"],
    "brgemm_u8s8_avx2": [r"vpmaddwd .*%ymm"],
    "brgemm_u8s8_avx2_vnni": [r"\{vex\} vpdpbusd .*%ymm"],
    "brgemm_u8s8_avx512": [r"vpmaddwd .*%zmm"],
    "brgemm_u8s8_avx512_vnni": [r"^vpdpbusd .*%zmm"],
    "brgemm_amx": [r"tdpbf16ps", r"tdpbssd", r"tdpbusd"],
    "weight_only_avx2_vnni": [r"\{vex\} vpdpbusd .*%ymm"],
    "weight_only_avx512_vnni": [r"^vpdpbusd .*%zmm"],
    "weight_only_amx": [r"tdpbssd"],
    "attention_bf16_avx512_bf16": [r"vdpbf16ps .*%zmm"],
    "attention_int16_avx512_vnni": [r"^vpdpbusd .*%zmm"],
    "attention_bf16_amx": [r"tdpbf16ps"],
}


def weak_symbols(path):
    lines = subprocess.check_output(["nm", "--demangle", str(path)], text=True).splitlines()
    for line in lines:
        kind, name = line[17:18], line[19:]
        if kind in WEAK:
            yield f"{path.name}: weak symbol '{name}'"


def instructions(path):
    """Bytes and text of each instruction."""
    command = ["objdump", "--disassemble", "--wide", str(path)]
    text = subprocess.check_output(command, text=True)
    return [found.groups() for found in map(INSTRUCTION.match, text.splitlines()) if found]


def extension(code, text):
    """The extension of AVX2 that an instruction belongs to; None for AVX2 itself."""
    mnemonic = text.removeprefix("{vex} ").split(" ", 1)[0]
    for name, pattern in EXTENSIONS.items():
        if pattern.match(mnemonic):
            return name
    if code.startswith("62 "):  # the first byte of EVEX
        return "evex"
    return None


def wrong_instructions(path):
    unit = path.name.removesuffix(".cpp.o")
    isa = UNIT.search(path.name).group(1)
    allowed = ALLOWED[isa]
    seen = set()
    missing = set(EXPECTED.get(unit, []))
    for code, text in instructions(path):
        for pattern in [p for p in missing if re.search(p, text)]:
            missing.remove(pattern)
        needs = extension(code, text)
        is_evex = code.startswith("62 ") and "evex" not in allowed
        if (needs is not None and needs not in allowed) or is_evex:
            beyond = "evex" if is_evex else needs
            if beyond not in seen:
                yield f"{path.name}: '{text}' ({beyond}) is beyond {isa}"
            seen.add(beyond)
    for pattern in sorted(missing):
        yield f"{path.name}: no instruction '{pattern}'"


def problems_of(path):
    return [*weak_symbols(path), *wrong_instructions(path)]


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    units = sorted(p for p in build.rglob("*.cpp.o") if UNIT.search(p.name))
    if not units:
        print(f"no objects of one instruction set in {build}")
        return 77 if os.uname().machine == "x86_64" else 0
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for found in pool.map(problems_of, units) for problem in found]
    there = {path.name.removesuffix(".cpp.o") for path in units}
    problems += [f"no object of {unit}" for unit in sorted(set(EXPECTED) - there)]
    for problem in problems:
        print(problem)
    print(f"{len(units)} objects, {len(problems)} weak symbols or wrong instructions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
