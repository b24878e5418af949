# SPDX-License-Identifier: MIT
"""What a call on a machine returns, of which little may come back: the last characters that it prints, and few files.

Lines are printed as they come, what libraries print beside them goes into a file; at the end a summary, one line for each
row of a table. All numbers, logs and lines are in one archive, written again after each part."""

import json
import os
import pathlib
import sys
import tarfile
import tempfile

MOST = 8000  # characters of the summary
LONGEST = 240  # of a line
# Long, or shown by other values.
LEFT_OUT = {"instructions", "ops", "inputs", "on_device", "shares", "prompt_shares", "decode_shares", "kernels", "products",
            "ids", "kinds", "made_s", "weight_bytes", "threads", "iterations", "peak_memory_bytes",
            "session_memory_bytes", "overhead_ms", "runs_per_second", "target", "p90", "p99", "mean", "load_ms", "products_per_token", "cache_bytes_per_token", "prompt_tokens_per_second", "perf_s", "cpu_s"}


def text_of(value):
    """A value on one line, without what is left out."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {{{text_of(own)}}}" if isinstance(own, dict) else f"{key} {text_of(own)}"
                         for key, own in value.items() if key not in LEFT_OUT and own not in ({}, [], None, ""))
    if isinstance(value, (list, tuple)):
        return "/".join(f"({text_of(own)})" if isinstance(own, dict) else text_of(own) for own in value)
    text = " ".join(str(value).split())
    return text.rsplit("/", 1)[-1] if text.startswith("/") else text


def rows_of(results):
    """Rows of all parts, each (name, text)."""
    for part, value in results.items():
        if part == "target":
            continue
        if isinstance(value, list):
            yield from ((part, text_of(own)) for own in value)
        elif isinstance(value, dict) and any(isinstance(own, (dict, list)) for own in value.values()):
            # Values of the part itself, then a row of each table's.
            own = {key: inner for key, inner in value.items() if not isinstance(inner, (dict, list))}
            if text_of(own):
                yield part, text_of(own)
            for key, inner in value.items():
                if key in LEFT_OUT or not isinstance(inner, (dict, list)) or not inner:
                    continue
                each = inner if isinstance(inner, list) and isinstance(inner[0], dict) else [inner]
                yield from ((f"{part}, {key}", text_of(entry)) for entry in each)
        else:
            yield part, text_of(value)


def summary(results):
    """Lines of MOST characters together; where there are too many, each is cut."""
    rows = [f"{name}: {text}" for name, text in rows_of(results)]
    longest = LONGEST
    while longest > 20 and sum(min(len(row), longest) + 1 for row in rows) > MOST:
        longest -= 10
    lines = [row if len(row) <= longest else row[: longest - 1] + "…" for row in rows]
    left = MOST
    for i, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return lines[: max(i - 1, 0)] + [f"… {len(lines) - i + 1} more in the archive"]
    return lines


class Report:
    """`archive`: a file .tar.gz, or None."""

    def __init__(self, archive):
        self.archive = pathlib.Path(archive) if archive else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lathe-gpu-"))
        self.lines = None

    def redirect(self):
        """From now on only what this program prints itself is shown."""
        shown = os.fdopen(os.dup(1), "w", buffering=1)
        self.lines = open(self.folder / "lines.txt", "w", buffering=1)
        chatter = os.open(self.folder / "libraries.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(chatter, 1)
        os.dup2(chatter, 2)
        sys.stdout = Both(shown, self.lines)

    def keep(self, name, out, err):
        (self.folder / f"{name}.log").write_text((out + err)[-12_000_000:])

    def write(self, results):
        (self.folder / "results.json").write_text(json.dumps(results, indent=1))
        if self.archive is None:
            return
        part = self.archive.with_name(self.archive.name + ".part")
        with tarfile.open(part, "w:gz", compresslevel=6) as file:
            file.add(self.folder, arcname="results")
        part.replace(self.archive)

    def end(self, results):
        self.write(results)
        print("\n== summary")
        for line in summary(results):
            print(line)
        sys.stdout.flush()


class Both:
    """Text that is shown and kept."""

    def __init__(self, *files):
        self.files = files

    def write(self, text):
        for file in self.files:
            file.write(text)
        return len(text)

    def flush(self):
        for file in self.files:
            file.flush()

    def isatty(self):
        return False

    def fileno(self):
        return 1
