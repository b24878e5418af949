# SPDX-License-Identifier: MIT
"""Generates difficult texts for tokenizers from a seed."""

import struct

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " \t\n\r", "\n\r",
    "'.,;:!?-_/\\()[]{}<>@#$%^&*+=|~`\"", "àéîõüçñßøæœÅÄÖ", "абвгдеёжзАБВ", "αβγδεΑΒΓςσ",
    "אבגדה", "ابتثجح", "कखगघङािी्", "กขคงจฉชา้", "中文字符漢字", "ひらがなカタカナー", "한국어글자",
    "\u1100\u1161\u11a8", "😀👍🎉❤️👩\u200d👩\u200d👧🇩🇪", "\u0301\u0323\u0308\u0327\u0345\u0334", "\u200b\u200d\ufeff\u00ad",
    "\u00a0\u2003\u3000\u2028\u0085", "\u0000\u0001\u001b\u007f\u009f", "ﬁﬂﬀ①②㎏㍿Ⅷ½", "ſKÅİıŉǰΐ",
    "𝔾𝕠𐐀𞤀𠀀𝟘", "\ufffd\ue000\U0010ffff\u0378", "\u2581\u0120",
]
PHRASES = ["'s", "'S", "'ſ", "'ll", "'LL", "'Ve", "'re", "don't", "  ", " \n ", "\r\n", "straße", "STRASSE",
           "ftp://localhost/?q=1", "x = [1, 2.50];", "//", "\n/", "  \n\n  ", "ab'", "1234567", "ABCdef", "aʼn"]


def make_text(rng, length):
    parts = []
    while length > 0:
        kind = rng.random()
        if kind < 0.2:
            parts.append(rng.choice(PHRASES))
        elif kind < 0.25:
            code = rng.randrange(0x110000 - 0x800)
            parts.append(chr(code if code < 0xD800 else code + 0x800))
        elif kind < 0.3:
            parts.append(rng.choice(rng.choice(ALPHABETS)) * rng.randrange(1, 40))
        else:
            alphabet = rng.choice(ALPHABETS)
            parts.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 9))))
        length -= len(parts[-1])
    return "".join(parts)


def make_texts(rng, count):
    return ["", " ", "\n", "a"] + [make_text(rng, rng.randrange(1, 120)) for _ in range(count)]


def mark_runs(rng, count):
    """Returns texts of letters with 2 to 6 combining marks each."""
    marks = [chr(c) for c in (*range(0x300, 0x370), *range(0x591, 0x5BE), *range(0x64B, 0x660),
                              0x93C, 0x94D, 0x9BE, 0x9D7, 0xE38, 0xE48, 0xF39, 0xF71, 0xF72, 0x1037,
                              0x3099, 0x309A, 0x20D0, 0x20D2, 0x1AB0, 0x1DC0, 0x302A, 0xFB1E,
                              0x1D165, 0x1D16D, 0x10A0D, 0x1161, 0x11A8)]
    letters = "aeoAEOuσабआதကกㄱᄀ가각ְ\u09c7\u0bc6\u0cc6\u0dd9\u1025\u1b05\U00011131㎏ﬁ①"
    runs = [rng.choice(letters) + "".join(rng.choice(marks) for _ in range(rng.randrange(2, 7)))
            for _ in range(count)]
    return ["".join(runs[i : i + 500]) for i in range(0, count, 500)]


def precompiled_table():
    """Returns a Precompiled normalizer with every kind of entry: shorter, longer, empty, and a prefix of
    another; a double-array trie and its strings."""
    entries = {"a": "A", "b": "", "é": "e", "\u0301": "", "ab": "never", "\r": "\n", "\n": " ",
               "Ａ": "aBc", "ｂ": "B", "㎏": "kg", "①": "(1)", "中": "", "क": "ka", "🎉": "!!!",
               "\u200d": " ", "ﬀ": "ff", "가": "ga"}
    strings, places = b"", {}
    for key, value in entries.items():
        places[key.encode()] = len(strings)
        strings += value.encode() + b"\0"
    units, used = {0: 0}, {0}

    def place(position, prefix):
        """Stores the successors of `prefix` at the first free offset."""
        labels = sorted({key[len(prefix)] for key in places
                         if key.startswith(prefix) and len(key) > len(prefix)})
        leaf = prefix in places
        wanted = labels + ([0] if leaf else [])
        if not wanted:
            return
        base = next(b for b in range(1, 1 << 20) if all(b ^ w not in used for w in wanted)
                    and (b ^ position) < 1 << 21)
        units[position] |= (base ^ position) << 10 | (1 << 8 if leaf else 0)
        used.update(base ^ w for w in wanted)
        if leaf:
            units[base] = 1 << 31 | places[prefix]
        for label in labels:
            units[base ^ label] = label
        for label in labels:
            place(base ^ label, prefix + bytes([label]))

    place(0, b"")
    size = max(units) + 256
    packed = struct.pack(f"<{size}I", *(units.get(i, 0) for i in range(size)))
    return struct.pack("<I", len(packed)) + packed + strings
