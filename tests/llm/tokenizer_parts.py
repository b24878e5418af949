# SPDX-License-Identifier: MIT
"""Compares parts of tokenizers with those of the package `tokenizers`."""

import json
import os
import struct
import subprocess

from tokenizers import Tokenizer

SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


class Probe:
    """Runs tokenizer_probe of this build."""

    def __init__(self):
        preset = os.environ.get("TEST_PRESET", "release")
        self.process = subprocess.Popen(
            [f"build/{preset}/tests/tokenizer_probe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, config, text):
        for frame in (json.dumps(config).encode(), text.encode()):
            self.process.stdin.write(struct.pack("<I", len(frame)) + frame)
        self.process.stdin.flush()
        size = struct.unpack("<I", self.process.stdout.read(4))[0]
        return self.process.stdout.read(size).decode(errors="surrogateescape")


def reference(normalizer=None, pre_tokenizer=None):
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}))


class Case:
    """A normalizer and a pre-tokenizer. Compares the normalised text, and its pieces with their offsets in
    the original."""

    def __init__(self, name, normalizer=None, pre_tokenizer=None, leave_bytes=False):
        self.name, self.normalizer, self.pre_tokenizer = name, normalizer, pre_tokenizer
        self.tokenizer = reference(normalizer, pre_tokenizer)
        self.config = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
        if leave_bytes:
            self.config["leave_bytes"] = True

    def expected_text(self, text):
        return self.tokenizer.normalizer.normalize_str(text)

    def expected_pieces(self, text):
        if self.normalizer is None:
            pieces = self.tokenizer.pre_tokenizer.pre_tokenize_str(text)
            return "".join(f"{start} {end} {piece}\n" for piece, (start, end) in pieces)
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        normal = self.tokenizer.normalizer.normalize_str(text)
        pieces = self.tokenizer.pre_tokenizer.pre_tokenize_str(normal)
        assert len(offsets) == len(pieces), (self.name, text)
        return "".join(f"{start} {end} {piece}\n"
                       for (start, end), (piece, _) in zip(offsets, pieces))

    def problems(self, probe, text, offsets=True):
        """Returns messages about differences. Without `offsets`, for which the reference is slow, compares
        only the text of a normalizer."""
        checks = []
        if self.normalizer is not None and self.config.get("leave_bytes") is None:
            checks.append(({"normalizer": self.normalizer, "offsets": False}, self.expected_text(text)))
        if self.pre_tokenizer is not None and (offsets or self.normalizer is None):
            expected = self.expected_pieces(text)
            checks.append((self.config, expected))
        for config, expected in checks:
            found = probe.ask(config, text)
            if found != expected:
                yield f"{self.name}: {difference(expected, found, text)}"


def difference(expected, found, text):
    at = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b),
              min(len(expected), len(found)))
    part = slice(max(at - 40, 0), at + 40)
    short = ascii(text) if len(text) < 200 else f"a text of {len(text)} characters"
    return (f"of {short}\n  expected …{ascii(expected[part])}…\n  found    …{ascii(found[part])}…"
            f"\n  from character {at} of {len(expected)}")
