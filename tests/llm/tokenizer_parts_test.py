# SPDX-License-Identifier: MIT
"""Compares every part of tokenizers that depends on characters, on every scalar value, with `tokenizers`.

usage: tokenizer_parts_test.py [--full]     without, a part of the scalar values and texts
"""

import base64
import json
import pathlib
import random
import sys
import time
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_parts import SCALARS, Case, Probe  # noqa: E402
from tokenizer_texts import make_texts, mark_runs, precompiled_table  # noqa: E402

FULL = "--full" in sys.argv
EACH_CHARACTER = {"type": "FixedLength", "length": 1}
CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {
    "gpt2": rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
    "cl100k": rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "digits": rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}+"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:{CONTRACTIONS})?"
             rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:{CONTRACTIONS})?|\p{{N}}{{1,3}}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tiktoken gpt2":
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++\z|\s+(?!\S)|\s",
    "tiktoken cl100k":
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++\z|\s*[\r\n]|\s+(?!\S)|\s",
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cjk": r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}",
    "words": r"\w+|[^\w\s]+",
    "hex": r"\h+|\H",
    "boundaries": r"\b|^|$",
    "lines": r"(?m:a.*?$)|^\s+|\R",
    "atomic": r"(?>a+b?|c)(?<=b|c)(?<!bc)|\p{^L}{2,3}?",
    "case": r"(?i:[k-ſ]|straße|ﬀ|[^a-m])(?-i:X)?",
    "posix": r"[[:alpha:][:digit:]_]+|[[:^space:]&&[:punct:]]|[[:cntrl:]]+",
    "binary": r"[\p{Emoji}&&\p{So}]|\p{Alphabetic}+|\p{White_Space}|\p{Upper}",
    "extended": "(?x) \\p{Lu} + # capitals\n | \\p{Greek} | [ \\t]",
    "empty": r"x*",
    "repeats": r"(?:a{2}){1,2}+|b{2}?|c{,3}|d{x",
}
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


# Characters that equal a string if case is ignored.
FOLDS = ["(?i:ss)", "(?i:ß)", "(?i:ffi)", "(?i:ff)i", "(?i:[ßk])", "(?i:[^ß])", "(?i:ŉ)", "(?i:'st)",
         "(?i:st)+", "(?i:i̇)", "(?i:İ)", "(?i:ΐ)", "(?i:sss)", "(?i:s{2})", "(?i:ss?)",
         "(?i)a|ss(?-i)S", r"(?i:\p{Lu})", "(?i:[[:upper:]])", r"(?i:\u00df|k)"]
FOLDED = "sSſßẞfFﬀﬃﬁﬂiİıIkK\u212a\u02bcnNŉtTﬆﬅ\u03b9\u0308\u0301ΐjǰ\u030c ab"


def part(type_, **fields):
    return {"type": type_, **fields}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return part("Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


def normalizer_cases():
    for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"]:
        yield Case(name, part(name), EACH_CHARACTER)
    for bits in (range(16) if FULL else (1, 2, 4, 8, 15)):
        yield Case(f"BertNormalizer {bits}", part(
            "BertNormalizer", clean_text=bool(bits & 1), handle_chinese_chars=bool(bits & 2),
            strip_accents=bool(bits & 4), lowercase=bool(bits & 8)), EACH_CHARACTER)
    yield Case("Strip", part("Strip", strip_left=True, strip_right=True), EACH_CHARACTER)
    for pattern, content in [(r"\s+", " "), (r"\p{M}", ""), (r"(?i:[a-zſ])", "xy"), ("a|b*", "é")]:
        yield Case(f"Replace {pattern}", part("Replace", pattern={"Regex": pattern}, content=content),
                   EACH_CHARACTER)
    yield Case("Replace text", part("Replace", pattern={"String": "a"}, content="\u2581\u2581"),
               EACH_CHARACTER)
    yield Case("Prepend", part("Prepend", prepend="\u2581x"), EACH_CHARACTER)
    yield Case("Precompiled", part("Precompiled", precompiled_charsmap=base64.b64encode(
        precompiled_table()).decode()), EACH_CHARACTER)
    yield Case("clip", part("Sequence", normalizers=[
        part("NFC"), part("Replace", pattern={"Regex": r"\s+"}, content=" "), part("Lowercase")]),
        EACH_CHARACTER)
    yield Case("albert", part("Sequence", normalizers=[
        part("Replace", pattern={"String": "''"}, content='"'), part("NFKD"), part("StripAccents"),
        part("Lowercase"), part("Strip", strip_left=False, strip_right=True)]), EACH_CHARACTER)


def pre_tokenizer_cases():
    def case(name, pre_tokenizer, **more):
        return Case(name, None, pre_tokenizer, **more)

    for prefix in (False, True):
        for regex in (False, True):
            yield case(f"ByteLevel {prefix} {regex}", part(
                "ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=regex))
    for name in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"]:
        yield case(name, part(name))
    for behavior in BEHAVIORS:
        yield case(f"Punctuation {behavior}", part("Punctuation", behavior=behavior))
        for invert in (False, True):
            yield case(f"Split {behavior} {invert}", split(r"\p{N}|\s+|b*", behavior, invert))
        yield case(f"Split text {behavior}", split(" a", behavior, kind="String"))
    for individual in (False, True):
        yield case(f"Digits {individual}", part("Digits", individual_digits=individual))
    for scheme in ("always", "first", "never"):
        for splits in (False, True):
            yield case(f"Metaspace {scheme} {splits}", part(
                "Metaspace", replacement="\u2581", prepend_scheme=scheme, split=splits))
    yield case("CharDelimiterSplit", part("CharDelimiterSplit", delimiter="a"))
    yield case("FixedLength", part("FixedLength", length=3))
    yield case("Sequence", part("Sequence", pretokenizers=[
        part("WhitespaceSplit"), part("Metaspace", replacement="_", prepend_scheme="first"),
        part("Digits", individual_digits=True)]))
    yield case("Sequence of Split and ByteLevel", part("Sequence", pretokenizers=[
        split(PATTERNS["cl100k"]),
        part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)]))


def pattern_cases():
    for name, pattern in PATTERNS.items():
        yield Case(f"pattern {name}", None, split(pattern))
        if name in ("gpt2", "cl100k", "qwen2", "digits", "o200k") or name.startswith("tiktoken"):
            # Another spelling, so that PCRE2 matches it.
            yield Case(f"pattern {name} by PCRE2", None, split(f"(?:{pattern})"))


def property_cases():
    """Each name of a set in patterns."""
    sys.path.insert(0, "scripts")
    from unicode_names import BINARY, CATEGORIES, POSIX, SCRIPTS

    names = [f"[[:{name}:]]" for name in POSIX] + [r"\w", r"\s", r"\d", r"\h"]
    names += [rf"\p{{{short}}}" for short, _ in CATEGORIES] + [
        rf"\p{{{long or short}}}" for short, long in SCRIPTS + BINARY]
    for name in names:
        try:
            yield Case(name, part("Replace", pattern={"Regex": name}, content=""))
        except Exception as error:  # the reference does not have it either
            assert "invalid character property" in str(error), error


def character_texts():
    """Consecutive scalar values, each between letters, each between spaces, and some alone. The texts are
    short because the reference's time with offsets is quadratic."""
    step = 1 if FULL else 131
    chars = [c for i, c in enumerate(SCALARS) if i < 0x250 or i % step == 0]
    for between in ("", "a", " "):
        whole = between.join(chars)
        for start in range(0, len(whole), 8000):
            yield whole[start : start + 8000]
    yield from chars[: 0x600 if FULL else 0]


def decomposition_texts():
    """Every character with a decomposition, the decomposition, and both followed by marks."""
    chars = [c for c in SCALARS if unicodedata.decomposition(c) or 0xAC00 <= ord(c) < 0xD7A4]
    if not FULL:
        chars = chars[::13]
    forms = [f for c in chars for f in (c, unicodedata.normalize("NFD", c),
                                        unicodedata.normalize("NFKD", c), c + "\u0323\u0301")]
    for start in range(0, len(forms), 1000):
        yield " ".join(forms[start : start + 1000])


def run(probe, cases, texts):
    """Returns messages, at most two for each case."""
    for case in cases:
        start, found = time.time(), []
        for i, text in enumerate(texts):
            found += case.problems(probe, text, offsets=not FULL or i % 8 == 0)
            if len(found) >= 2:
                break
        yield from found[:2]
        if FULL:
            print(f"{case.name}: {len(texts)} texts, {time.time() - start:.1f} s", flush=True)


def main():
    probe = Probe()
    rng = random.Random(7)
    characters = list(character_texts())
    texts = make_texts(rng, 2000 if FULL else 60)
    forms = list(decomposition_texts())
    marks = mark_runs(rng, 100_000 if FULL else 1500)
    normalizers, pre_tokenizers = list(normalizer_cases()), list(pre_tokenizer_cases())
    problems = list(run(probe, normalizers + pre_tokenizers + list(pattern_cases()),
                        characters + texts))
    problems += run(probe, normalizers, forms + marks)
    folded = ["".join(rng.choice(FOLDED) for _ in range(12)) for _ in range(2000 if FULL else 60)]
    problems += run(probe, [Case(p, None, split(p)) for p in FOLDS], folded)
    if FULL:
        problems += run(probe, property_cases(), ["".join(SCALARS)])
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
