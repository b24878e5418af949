#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/llm/tokenizer/unicode/*.inc: properties of characters as `tokenizers` has them, found by
running it on each of the 1,112,064 scalar values.

Its parts (Oniguruma, Rust's standard library and `regex`, crates for categories, normalisation and
grapheme clusters) follow different versions of Unicode, so each table comes from a component that
uses that version. Needs the packages of requirements-test.txt. Usage: make_unicode_tables.py [--check]

Numbers are written in base 45 with the symbols below, least digit first; a digit that more follow
uses the upper half of the symbols.
"""

import pathlib
import struct
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

from unicode_names import BINARY, CATEGORIES, POSIX, SCRIPTS

OUTPUT = pathlib.Path(__file__).parent.parent / "src/llm/tokenizer/unicode"
SYMBOLS = [chr(c) for c in range(35, 127) if chr(c) not in "\\?"]
CHARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(CHARS)


def number(value):
    text = ""
    while value >= 45:
        text += SYMBOLS[45 + value % 45]
        value //= 45
    return text + SYMBOLS[value]


def signed(value):
    return number(2 * value if value >= 0 else -2 * value - 1)


def literal(text, indent="    "):
    lines = [text[i : i + 90] for i in range(0, len(text), 90)] or [""]
    return "\n".join(f'{indent}"{line}"' for line in lines)


def inversion_list(members):
    """Encoded gap and length of each run of a set of code points."""
    text, end, points = "", 0, sorted(members)
    i = 0
    while i < len(points):
        j = i
        while j + 1 < len(points) and points[j + 1] == points[j] + 1:
            j += 1
        text += number(points[i] - end) + number(points[j] + 1 - points[i])
        end = points[j] + 1
        i = j + 1
    return text


def runs(values):
    """Encoded gap, length and value of each run of equal values of a dict by code point."""
    text, end, points = "", 0, sorted(values)
    i = 0
    while i < len(points):
        j = i
        while j + 1 < len(points) and points[j + 1] == points[j] + 1 and (
            values[points[j + 1]] == values[points[i]]
        ):
            j += 1
        text += number(points[i] - end) + number(points[j] + 1 - points[i])
        text += number(values[points[i]])
        end = points[j] + 1
        i = j + 1
    return text


def per_char(normalizer, chars=CHARS, separator="\ua000"):
    """A normalizer's result for each character, separated by starters that never combine."""
    result = normalizer.normalize_str(separator.join(chars)).split(separator)
    if len(result) != len(chars):  # the separator itself is among them
        i = chars.index(separator)
        result[i : i + 2] = [separator]
    assert len(result) == len(chars)
    return result


def matched(pattern):
    """Code points that a pattern of Oniguruma matches; None if it does not know the pattern."""
    try:
        rest = normalizers.Replace(Regex(pattern), "").normalize_str(ALL)
    except Exception as error:
        assert "invalid character property" in str(error), error
        return None
    return set(map(ord, ALL)).difference(map(ord, rest))


def gaps(pre_tokenizer):
    """Code points outside all pieces."""
    rest, end = set(), 0
    for _, (start, stop) in pre_tokenizer.pre_tokenize_str(ALL):
        rest.update(range(end, start))
        end = stop
    rest.update(range(end, len(CHARS)))
    return {ord(CHARS[i]) for i in rest}


def make_properties():
    """Character sets by their names in Oniguruma patterns."""
    lines, seen = [], {}
    names = [(pattern, None) for pattern in POSIX]
    names += [(short, long) for short, long in CATEGORIES + SCRIPTS + BINARY]
    for short, long in names:
        known = []
        for name in filter(None, (short, long)):
            members = matched(rf"[[:{name}:]]" if long is None else rf"\p{{{name}}}")
            if members is not None:
                known.append((name, members))
        for name, members in known:
            key = ("[" if long is None else "") + "".join(
                c for c in name.lower() if c not in " _-")
            text = inversion_list(members)
            if text in seen:
                lines.append(f'{{"{key}", "={seen[text]}"}},')
            else:
                seen[text] = key
                lines.append(f'{{"{key}",\n{literal(text)}}},')
    # Oniguruma's \\w within brackets differs from the one outside.
    for before, escape, after in [(b, e, a) for e in "wsdh" for b, a in (("", ""), ("[", "]"))]:
        text = inversion_list(matched(f"{before}\\{escape}{after}"))
        key = f"{before}\\\\{escape}"
        lines.append(f'{{"{key}", "={seen[text]}"}},' if text in seen else
                     f'{{"{key}",\n{literal(text)}}},')
        seen.setdefault(text, key)
    return lines


def make_folding():
    """Groups of characters that equal each other where case is ignored, and folds to several."""
    cased = [c for c in CHARS if any(
        f != c for f in (c.lower(), c.upper(), c.casefold(), c.title(), c.swapcase()))]
    lower = per_char(normalizers.Lowercase())
    cased = sorted(set(cased) | {c for c, low in zip(CHARS, lower) if low != c}
                   | {low for c, low in zip(CHARS, lower) if low != c and len(low) == 1})
    text = " ".join(cased)  # apart, since several together may equal one
    groups = set()
    for c in cased:
        rest = normalizers.Replace(Regex(f"(?i:{c})"), "").normalize_str(text)
        groups.add(tuple(sorted(map(ord, set(cased) - set(rest)))))
    code, previous = "", 0
    for group in sorted(group for group in groups if len(group) > 1):
        code += number(len(group)) + signed(group[0] - previous)
        code += "".join(number(b - a) for a, b in zip(group, group[1:]))
        previous = group[0]
    several = ""
    for c in cased:
        folded = c.casefold()
        if len(folded) > 1 and not normalizers.Replace(Regex(f"(?i:{folded})"), "").normalize_str(c):
            several += number(ord(c)) + number(len(folded)) + "".join(number(ord(f)) for f in folded)
    return [f'{{"fold",\n{literal(code)}}},', f'{{"fold_several",\n{literal(several)}}},']


def make_lowercase():
    text, several, end = "", "", 0
    pairs = [(ord(c), low) for c, low in zip(CHARS, per_char(normalizers.Lowercase())) if low != c]
    several = "".join(number(c) + number(len(low)) + "".join(number(ord(x)) for x in low)
                      for c, low in pairs if len(low) > 1)
    pairs = [(c, ord(low) - c) for c, low in pairs if len(low) == 1]
    i = 0
    while i < len(pairs):  # gap, count, step, difference
        j, step = i, 1
        if i + 1 < len(pairs) and pairs[i + 1][0] - pairs[i][0] == 2:
            step = 2
        while j + 1 < len(pairs) and pairs[j + 1] == (pairs[j][0] + step, pairs[i][1]):
            j += 1
        text += number(pairs[i][0] - end) + number(j - i + 1) + number(step) + signed(pairs[i][1])
        end = pairs[j][0] + 1
        i = j + 1
    return [f'{{"lower",\n{literal(text)}}},', f'{{"lower_several",\n{literal(several)}}},']


def make_sets():
    """Character sets of single components."""
    white = gaps(pre_tokenizers.WhitespaceSplit())
    digits = pre_tokenizers.Digits(True).pre_tokenize_str("a" + "a".join(CHARS) + "a")
    numeric = {ord(CHARS[start // 2]) for _, (start, end) in digits
               if end - start == 1 and start % 2 == 1}
    words = pre_tokenizers.Whitespace().pre_tokenize_str("a" + "a".join(CHARS) + "a")
    joined = set(range(len(CHARS)))  # characters within a piece of several characters
    alone = {start // 2 for _, (start, end) in words if end - start == 1 and start % 2 == 1}
    space = gaps(pre_tokenizers.Whitespace())
    word = {ord(CHARS[i]) for i in joined - alone} - space
    clean = normalizers.BertNormalizer(True, False, False, False)
    cleaned = list(zip(CHARS, per_char(clean)))
    accents = normalizers.BertNormalizer(False, False, True, False)
    chinese = normalizers.BertNormalizer(False, True, False, False)
    return {
        "white_space": white,
        "numeric": numeric,
        "word": word,
        "space": space,
        "punctuation": gaps(pre_tokenizers.Punctuation("removed")),
        "bert_removed": {ord(c) for c, result in cleaned if not result},
        "bert_space": {ord(c) for c, result in cleaned if result == " "},
        "bert_chinese": {ord(c) for c, r in zip(CHARS, per_char(chinese, separator="a"))
                         if r != c},
        "nonspacing": {ord(c) for c, r in zip(CHARS, per_char(accents)) if not r},
        "combining": {ord(c) for c, r in zip(CHARS, per_char(normalizers.StripAccents())) if not r},
    }


def make_scripts():
    """Classes of UnicodeScripts: characters of one class stay together; class 0 goes with any."""
    split = pre_tokenizers.UnicodeScripts().pre_tokenize_str

    def with_any(probe):
        pieces = split(probe + probe.join(CHARS) + probe)
        starts = {start for _, (start, _) in pieces}
        return {c for i, c in enumerate(CHARS) if 2 * i + 1 not in starts}

    anywhere = with_any("a") & with_any("\u4eac")
    rest = "".join(c for c in CHARS if c not in anywhere)
    classes, values = [], {}
    for _, (start, end) in split(rest):
        for i, probe in enumerate(classes):
            if len(split(probe + rest[start])) == 1:
                break
        else:
            i = len(classes)
            classes.append(rest[start])
        for c in rest[start:end]:
            values[ord(c)] = i + 1
    return [f'{{"scripts",\n{literal(runs(values))}}},']


def combining_classes():
    """Classes from the order in which NFD puts two marks."""
    nfd = normalizers.NFD().normalize_str

    def swapped(pairs):
        return [r == b + a for r, (a, b) in zip(
            nfd("\ua000".join(a + b for a, b in pairs)).split("\ua000"), pairs)]

    chars = [c for c in CHARS if c != "\ua000" and nfd(c) == c]
    low, high = "\u0334", "\u0345"  # classes 1 and 240
    after = swapped([(high, c) for c in chars])  # 0 < class < 240
    before = swapped([(c, low) for c in chars])  # class > 1
    marks = [c for c, a, b in zip(chars, after, before) if a or b]
    probes = {}
    for c in marks:  # marks that Python knows too; its classes of these are the same
        if unicodedata.combining(c):
            probes.setdefault(unicodedata.combining(c), c)
    values = {}
    for c in marks:
        order = [(k, swapped([(p, c)])[0], swapped([(c, p)])[0]) for k, p in sorted(probes.items())]
        equal = [k for k, over, under in order if over == under]
        assert len(equal) == 1, (hex(ord(c)), equal)
        values[ord(c)] = equal[0]
    return values


def make_normalisation():
    nfd, nfkd = per_char(normalizers.NFD()), per_char(normalizers.NFKD())
    nfc = normalizers.NFC().normalize_str
    canonical, compatible, pairs = "", "", ""
    last = [0, 0, 0]

    def entry(kind, c, chars):
        code = number(c - last[kind]) + number(len(chars)) + "".join(number(ord(x)) for x in chars)
        last[kind] = c
        return code

    for c, d, k in zip(CHARS, nfd, nfkd):
        if 0xAC00 <= ord(c) <= 0xD7A3:
            continue  # Hangul is arithmetic
        if d != c:
            canonical += entry(0, ord(c), d)
            first = nfc(d[:-1])
            if len(d) > 1 and len(first) == 1 and nfc(d) == c:
                pairs += number(ord(c) - last[2]) + number(ord(first)) + number(ord(d[-1]))
                last[2] = ord(c)
        if k != d:
            compatible += entry(1, ord(c), k)
    return [
        f'{{"canonical",\n{literal(canonical)}}},',
        f'{{"compatible",\n{literal(compatible)}}},',
        f'{{"pairs",\n{literal(pairs)}}},',
        f'{{"classes",\n{literal(runs(combining_classes()))}}},',
    ]


def grapheme_counter():
    """A function from a string to its number of grapheme clusters. A Precompiled normalizer maps every
    byte but a newline to X; a cluster of at most 5 bytes counts as one, the characters of a longer one
    count one each."""
    units = [0] * 768
    units[0] = 256 << 10
    for byte in range(1, 256):
        if byte != 10:
            units[256 + byte] = 768 << 10 | 1 << 8 | byte
            units[512 + byte] = 1 << 31
    table = struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + b"X\0"
    normalize = normalizers.Precompiled(table).normalize_str

    def count(strings):
        lines = normalize("\n".join(strings)).split("\n")
        assert len(lines) == len(strings)
        return [line.count("X") for line in lines]

    return count


def make_graphemes():
    """What decides where one cluster ends and the next begins, seen through clusters of 5 bytes."""
    count = grapheme_counter()
    chars = [c for c in CHARS if c not in "\r\n\0"]

    def where(test, expected):
        """Characters for which the string that test() makes counts as expected."""
        counts = count([test(c) for c in chars])
        return {c for c, n in zip(chars, counts) if n == (
            expected(c) if callable(expected) else expected)}

    def wide(c):
        return len(c.encode()) == 4

    # U+0301 extends anything; two of them are cut off together from what they do not extend.
    joined = where(lambda c: "a" + c, 1)
    extend = joined & where(lambda c: "\xa9" + c + "\u200d\u231a\u0301", 5)
    sets = {
        "control": where(lambda c: c + ("\u0301\u0301" if wide(c) else "\u0301"), 2) | set("\r\n\0"),
        "extend": extend - {"\u200d"},
        "spacing": joined - extend - {"\u200d"},
        "prepend": where(lambda c: c + "a", 1),
        "pictographic": where(lambda c: "\xa9\u200d" + c, 3) - joined,
    }
    lead, vowel, tail, ka, linker = "\u1100", "\u1161", "\u11a8", "\u0915", "\u094d"
    plain = {c for c in chars if c not in joined and c not in sets["control"]}
    before_lead = where(lambda c: c + lead + "\u0301", 3) & plain - sets["prepend"]
    before_vowel = where(lambda c: c + vowel + "\u0301", 3) & plain - sets["prepend"]
    before_tail = where(lambda c: c + tail + "\u0301", 3) & plain - sets["prepend"]
    after_vowel = where(lambda c: vowel + c + "\u0301", 3) & plain
    sets |= {
        "hangul_l": before_lead,
        "hangul_v": before_vowel & before_tail & (after_vowel | {c for c in plain if wide(c)}),
        "hangul_t": before_tail - before_vowel & after_vowel,
        "hangul_lv": before_vowel & before_tail - after_vowel - {c for c in plain if wide(c)},
        "hangul_lvt": before_tail - before_vowel - after_vowel,
        "consonant": where(lambda c: c + linker + ka + "\u0301", 4) & plain - sets["prepend"],
        "linker": where(lambda c: ka + c + ka + "\u0301", 4) & joined,
        "conjunct": where(lambda c: ka + c + linker + ka + "\u0301", 5) & joined,
    }
    for name, members in sets.items():
        print(name, len(members))
    return [f'{{"{name}",\n{literal(inversion_list(map(ord, members)))}}},'
            for name, members in sets.items()]


def write(name, lines):
    head = "// SPDX-License-Identifier: MIT\n// Written by scripts/make_unicode_tables.py.\n"
    text = head + "\n".join(lines) + "\n"
    path = OUTPUT / name
    if "--check" in sys.argv:
        if path.read_text() != text:
            sys.exit(f"{path} is not what `tokenizers` says")
    else:
        path.write_text(text)
        print(f"{path}: {len(text)} bytes")


def main():
    sets = [f'{{"{name}",\n{literal(inversion_list(members))}}},'
            for name, members in make_sets().items()]
    write("sets.inc", sets + make_scripts() + make_lowercase())
    write("graphemes.inc", make_graphemes())
    write("normalisation.inc", make_normalisation())
    write("properties.inc", make_properties() + make_folding())


if __name__ == "__main__":
    main()
