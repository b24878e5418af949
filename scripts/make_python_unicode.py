#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/llm/template/unicode_flags.cpp and unicode_cases.cpp: what Python's str methods know
of each character.

usage: make_python_unicode.py [FOLDER]        (Python 3.11: Unicode 14)
"""

import sys
import unicodedata

FLAGS = [
    ("space", str.isspace),
    ("alphabetic", str.isalpha),
    ("decimal", str.isdecimal),
    ("digit", str.isdigit),
    ("numeric", str.isnumeric),
    ("printable", str.isprintable),
    ("lower", str.islower),
    ("upper", lambda c: c.isupper()),
    ("title", lambda c: unicodedata.category(c) == "Lt"),
    ("identifier_start", str.isidentifier),
    ("identifier_part", lambda c: ("a" + c).isidentifier()),
    # A final sigma shows that a cased or case-ignorable character precedes it.
    ("case_ignorable", lambda c: ("A" + c + "\u03a3").lower()[-1] == "\u03c2" and not is_cased(c)),
    ("cased", lambda c: is_cased(c)),
]
MAPPINGS = [("lower", str.lower), ("upper", str.upper), ("title", str.title),
            ("fold", str.casefold)]


def is_cased(c):
    return (" " + c + "\u03a3").lower()[-1] == "\u03c2"


def flag_ranges():
    ranges = []
    last = None
    for code in range(0x110000):
        c = chr(code)
        bits = sum(1 << i for i, (_, test) in enumerate(FLAGS) if test(c))
        if bits != last:
            ranges.append((code, bits))
            last = bits
    return ranges


def mapping_runs(function):
    """(first, last, stride, delta) of single characters, and (code, text) of longer results."""
    runs = []
    specials = []
    for code in range(0x110000):
        c = chr(code)
        to = function(c)
        if to == c:
            continue
        if len(to) > 1:
            specials.append((code, to))
            continue
        delta = ord(to) - code
        if runs:
            first, last, stride, run_delta = runs[-1]
            step = code - last
            if run_delta == delta and (step == stride or (first == last and step <= 2)):
                runs[-1] = (first, code, step, delta)
                continue
        runs.append((code, code, 1, delta))
    return runs, specials


def rows(items):
    lines = []
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 98:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


HEAD = f"""// SPDX-License-Identifier: MIT
// Made by scripts/make_python_unicode.py from Python's str, Unicode {unicodedata.unidata_version}.
// clang-format off
#include "llm/template/unicode_tables.h"

namespace lathe::templates {{
namespace {{
"""


def flags_file():
    ranges = flag_ranges()
    digits = [code for code in range(0x110000) if chr(code).isdecimal()
              and unicodedata.decimal(chr(code)) == 0]
    return [HEAD, "constexpr FlagRange kFlagRanges[] = {",
            rows(f"{{0x{code:x},0x{bits:x}}}" for code, bits in ranges), "};",
            "", "constexpr char32_t kZeros[] = {", rows(f"0x{code:x}" for code in digits), "};",
            "", "}  // namespace", "",
            "const std::span<const FlagRange> flag_ranges = kFlagRanges;",
            "const std::span<const char32_t> decimal_zeros = kZeros;"]


def cases_file():
    out = [HEAD]
    for name, function in MAPPINGS:
        runs, specials = mapping_runs(function)
        out += ["", f"constexpr CaseRun k{name.capitalize()}Runs[] = {{",
                rows(f"{{0x{a:x},0x{b:x},{s},{d}}}" for a, b, s, d in runs), "};"]
        cells = []
        for code, to in specials:
            codes = [f"0x{ord(x):x}" for x in to] + ["0"] * (3 - len(to))
            cells.append(f"{{0x{code:x},{{{','.join(codes)}}}}}")
        out += ["", f"constexpr CaseSpecial k{name.capitalize()}Specials[] = {{", rows(cells), "};"]
    out += ["", "}  // namespace", ""]
    for name, _ in MAPPINGS:
        capital = name.capitalize()
        out.append(f"const CaseTable {name}_table{{k{capital}Runs, k{capital}Specials}};")
    return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "src/llm/template"
    for name, lines in [("flags", flags_file()), ("cases", cases_file())]:
        with open(f"{folder}/unicode_{name}.cpp", "w", encoding="ascii") as file:
            file.write("\n".join(lines + ["", "}  // namespace lathe::templates", ""]))


if __name__ == "__main__":
    main()
