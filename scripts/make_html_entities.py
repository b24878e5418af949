#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/llm/template/html_entities.cpp: the named characters of HTML 5, from Python's html.

usage: make_html_entities.py [FILE]
"""

import html.entities
import sys


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "src/llm/template/html_entities.cpp"
    # Each name, a space, its characters in hexadecimal with '+' between them, a comma.
    lines = []
    line = ""
    for name in sorted(html.entities.html5):
        text = html.entities.html5[name]
        entry = f"{name} {'+'.join(f'{ord(c):x}' for c in text)},"
        if len(line) + len(entry) > 93:
            lines.append(line)
            line = ""
        line += entry
    lines.append(line)
    with open(path, "w", encoding="ascii") as file:
        file.write("// SPDX-License-Identifier: MIT\n"
                   "// Made by scripts/make_html_entities.py.\n"
                   "// clang-format off\n"
                   '#include "llm/template/html.h"\n\n'
                   "namespace lathe::templates {\n\n"
                   "const std::string_view html_entities =\n")
        file.write("\n".join(f'    "{line}"' for line in lines))
        file.write(";\n\n}  // namespace lathe::templates\n")


if __name__ == "__main__":
    main()
