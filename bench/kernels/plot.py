# SPDX-License-Identifier: MIT
"""Plots the ratios of a run; usage: plot.py RESULT.json OUT.svg (RESULT.json from --json)."""
import json
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, ROW, TOP = 1000, 420, 14, 40
MOST = 3.0  # ratio at the right edge
COLOURS = {"f32": "#1b6ca8", "bf16": "#d17b0f", "int8": "#3a7d44"}


def x_of(ratio):
    return LEFT + (WIDTH - LEFT - 20) * min(ratio, MOST) / MOST


def rows_of(result):
    cases = [case for case in result["cases"] if "ratio" in case]
    return sorted(cases, key=lambda case: (case["problem"].split()[1], case["ratio"][0]))


def draw(result):
    rows = rows_of(result)
    height = TOP + ROW * len(rows) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="10">',
           f'<text x="10" y="20" font-size="14">peer time / Lathe time, {result["threads"]} threads, '
           '95 % confidence intervals</text>']
    for tick in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        style = "#000" if tick == 1.0 else "#ccc"
        out.append(f'<line x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{TOP - 8}" '
                   f'y2="{height - 20}" stroke="{style}"/>')
        out.append(f'<text x="{x_of(tick):.1f}" y="{TOP - 10}" text-anchor="middle">{tick}</text>')
    for i, case in enumerate(rows):
        kind = case["problem"].split()[1]
        y = TOP + ROW * i + ROW / 2
        mean, low, high = case["ratio"]
        label = escape(f'{case["source"]} {case["case"]} {kind}')
        out.append(f'<text x="{LEFT - 8}" y="{y + 3:.1f}" text-anchor="end">{label}</text>')
        out.append(f'<line x1="{x_of(low):.1f}" x2="{x_of(high):.1f}" y1="{y}" y2="{y}" '
                   f'stroke="{COLOURS[kind]}"/>')
        out.append(f'<circle cx="{x_of(mean):.1f}" cy="{y}" r="3" fill="{COLOURS[kind]}"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.loads(file.read().strip().splitlines()[-1])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(result))


if __name__ == "__main__":
    main()
