# SPDX-License-Identifier: MIT
"""Writes a corpus of many languages from installed documentation, sources and translations.

usage: make_corpus.py FILE [MEGABYTES]

Writes documents of about 4 KB, each followed by a zero byte, up to MEGABYTES (50), without repeated
paragraphs. Fails if fewer than 8 scripts have 100 KB each.
"""

import collections
import gettext
import gzip
import hashlib
import pathlib
import random
import sys
import unicodedata

SHARES = {"translations": 0.45, "documents": 0.25, "sources": 0.30}
DOCUMENT = 4096


def translations(rng):
    paths = sorted(pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo"))
    rng.shuffle(paths)
    for path in paths:
        try:
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog
        except (OSError, ValueError, UnicodeDecodeError, LookupError):
            continue
        yield from (text for text in catalog.values() if isinstance(text, str) and len(text) > 20)


def files(rng, folders, suffixes):
    paths = sorted(path for folder in folders for path in pathlib.Path(folder).rglob("*")
                   if path.suffix in suffixes and path.is_file())
    rng.shuffle(paths)
    for path in paths:
        try:
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            yield from data.decode("utf-8").replace("\0", " ").split("\n\n")
        except (OSError, UnicodeDecodeError):
            continue


def paragraphs(rng, kind):
    if kind == "translations":
        return translations(rng)
    if kind == "documents":
        return files(rng, ["/usr/share/doc", "/usr/share/perl", "/usr/share/info"],
                     {".gz", ".txt", ".md", ".rst", ".html", ".pod", ""})
    return files(rng, [*sys.path[1:], "/usr/include", "/usr/lib/python3", sys.prefix, sys.base_prefix],
                 {".py", ".h", ".hpp", ".js", ".css", ".pyi"})


def take(rng, kind, budget, seen):
    """Distinct paragraphs of at most `budget` bytes in total."""
    kept = []
    for text in paragraphs(rng, kind):
        data = text.strip("\n").encode()
        digest = hashlib.blake2b(b"".join(data.split()), digest_size=12).digest()
        if len(data) < 24 or len(data) > 20000 or digest in seen:
            continue
        seen.add(digest)
        kept.append(data)
        budget -= len(data) + 2
        if budget <= 0:
            break
    return kept, max(budget, 0)


def scripts(text):
    counts = collections.Counter()
    for character, count in collections.Counter(text).items():
        if character.isalpha():
            name = unicodedata.name(character, "NONE").split()[0].split("-")[0]
            counts[name] += count * len(character.encode())
    return counts


def main():
    target = pathlib.Path(sys.argv[1])
    budget = int(float(sys.argv[2] if len(sys.argv) > 2 else 50) * 1e6)
    rng, seen, kept, missing = random.Random(1), set(), [], 0
    for kind, share in SHARES.items():
        more, missing = take(rng, kind, int(budget * share) + missing, seen)
        kept += more
    rng.shuffle(kept)
    documents, document = [], b""
    for data in kept:
        document += data + b"\n\n"
        if len(document) >= DOCUMENT:
            documents.append(document)
            document = b""
    data = b"\0".join(documents) + b"\0"
    found = {name: size for name, size in scripts(data.decode()).items() if size > 100_000}
    print(f"{len(data) / 1e6:.1f} MB, {len(documents)} documents, {len(kept)} paragraphs; scripts:",
          ", ".join(f"{name} {size / 1e6:.1f}" for name, size in
                    sorted(found.items(), key=lambda item: -item[1])))
    if len(found) < 8 or len(data) < 0.9 * budget:
        sys.exit(f"error: {len(found)} scripts and {len(data)} bytes; expected 8 and {budget}: install "
                 "more documentation and translations")
    target.write_bytes(data)


if __name__ == "__main__":
    main()
