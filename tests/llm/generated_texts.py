# SPDX-License-Identifier: MIT
"""Generates reproducible random texts: all scripts, emoji, controls, long runs, code, spaces."""

import random
import unicodedata

SCRIPTS = [
    (0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x531, 0x58B),
    (0x590, 0x600), (0x600, 0x700), (0x700, 0x750), (0x780, 0x7C0), (0x900, 0x980), (0x980, 0xA00),
    (0xA00, 0xA80), (0xA80, 0xB00), (0xB00, 0xB80), (0xB80, 0xC00), (0xC00, 0xC80), (0xC80, 0xD00),
    (0xD00, 0xD80), (0xD80, 0xE00), (0xE00, 0xE60), (0xE80, 0xEE0), (0xF00, 0x1000), (0x1000, 0x10A0),
    (0x10A0, 0x1100), (0x1100, 0x1200), (0x1200, 0x1380), (0x13A0, 0x1400), (0x1400, 0x1500),
    (0x1780, 0x17F0), (0x1800, 0x18B0), (0x1E00, 0x1F00), (0x1F00, 0x2000), (0x2C00, 0x2C60),
    (0x3040, 0x30A0), (0x30A0, 0x3100), (0x3100, 0x3130), (0x3400, 0x3500), (0x4E00, 0x9FFF),
    (0xA000, 0xA490), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFB00, 0xFB50), (0xFB50, 0xFE00),
    (0xFE70, 0xFF00), (0xFF00, 0xFFF0), (0x10000, 0x10100), (0x10330, 0x10350), (0x10400, 0x10450),
    (0x1D400, 0x1D800), (0x1E900, 0x1E960), (0x20000, 0x2A6E0),
]
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028",
          "\u200b", "\u1680", "\u202f", "\ufeff", "\u0085", "\x0b", "\x0c", " \n ", "    ", "\t\t"]
EMOJI = ["\U0001F600", "\U0001F44D\U0001F3FD", "\U0001F468\u200D\U0001F469\u200D\U0001F467",
         "\u2764\uFE0F", "\U0001F1E9\U0001F1EA", "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E007F",
         "1\uFE0F\u20E3", "\u2602", "\U0001FAE0", "\u00A9\uFE0F", "\u26A1"]
CONTROLS = ["\0", "\x01", "\x07", "\x1b", "\x7f", "\u0080", "\u00ad", "\u061c", "\u200d", "\u200e",
            "\u202e", "\u2066", "\ufffd", "\uffff", "\U0010ffff", "\ue000", "\U000f0000", "\u0378"]
WORDS = """the of and a to in is it's don't I'll WE'VE you're they'd I'm THE Hello world naive cafe
 token tokenizer unbelievable antidisestablishmentarianism 123 4567 3.14 1,000,000 2024-01-31 x_y
 C++ foo.bar() ftp://a.b/c?d=e&f=g user@mail.tld "quoted" (paren) [x] {y} <tag> -- ... ?!
 __init__ self.value += 1; #include <vector> /* c */ // d std::string&& \\n \\u0041 $x %s @at ~ ` ^""".split()
CODE = ["for (int i = 0; i < n; ++i) {\n    sum += a[i] * b[i];\n}\n",
        "def f(x, *args, **kwargs):\n\treturn {k: v for k, v in x.items()}\n",
        "SELECT * FROM t WHERE id='1' -- comment\n", "<div class=\"a\">&nbsp;</div>\n",
        "{\"a\": [1, 2.5e-3, null], \"b\": \"\\u00e9\"}", "fn main() -> Result<(), E> { Ok(()) }\n"]
MARKS = [chr(c) for c in range(0x300, 0x370)] + ["\u0345", "\u05b0", "\u064b", "\u093c", "\u3099",
                                                    "\u0f39", "\u1dc0", "\u20d0", "\u0e31"]

# Hand-written texts.
EDGES = ["", " ", "  ", "\n", "\t", "a", "\u00e9", "e\u0301", "\U0001F600", "\0", " a", "a ", "a  b", "\u2581", "\u2581\u2581a",
         "a" * 300, "\u65e5" * 200, " " * 150, "\n" * 70, "<unk>", "<s>a</s>", "[CLS]", "<0x41>", "\ufeffa", "a\u0300" * 40,
         "\U0001F468\u200D\U0001F469" * 30, "\u1e9b\u0323", "\ufb01", "\u01c5", "\u0130I\u0131i", "\u03a3\u03c2"]


def character(rng):
    first, last = rng.choice(SCRIPTS)
    return chr(rng.randrange(first, last))


def word(rng):
    first, last = rng.choice(SCRIPTS)
    return "".join(chr(rng.randrange(first, last)) for _ in range(rng.randint(1, 9)))


def any_scalar(rng):
    while True:
        value = rng.randrange(0x110000)
        if not 0xD800 <= value < 0xE000:
            return chr(value)


def piece(rng, tokens):
    kind = rng.randrange(16)
    if kind < 4:
        return rng.choice(WORDS)
    if kind < 6:
        return word(rng)
    if kind == 6:
        return rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 7])
    if kind == 7:
        return rng.choice(EMOJI)
    if kind == 8:
        return rng.choice(CONTROLS)
    if kind == 9:
        return character(rng) * rng.choice([2, 3, 17, 70])
    if kind == 10:
        return rng.choice(CODE)
    if kind == 11:
        return character(rng) + "".join(rng.choices(MARKS, k=rng.randint(1, 4)))
    if kind == 12:
        return "".join(any_scalar(rng) for _ in range(rng.randint(1, 4)))
    if kind == 13:
        return str(rng.randrange(10 ** rng.randint(1, 15)))
    if kind == 14 and tokens:
        return rng.choice(tokens)
    return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), word(rng))


def texts(count, seed, tokens=()):
    """Returns `count` texts; some have added tokens of the list `tokens`."""
    rng = random.Random(seed)
    tokens = list(tokens)
    for _ in range(count):
        parts = []
        for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 13])):
            parts.append(piece(rng, tokens))
            if rng.random() < 0.5:
                parts.append(rng.choice(SPACES))
        text = "".join(parts)
        yield text[:400] if rng.random() < 0.98 else text * 3
