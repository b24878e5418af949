# SPDX-License-Identifier: MIT
"""Times Lathe's tokenizers against `tokenizers` and `tiktoken`, in alternation, and compares the ids.

usage: compare.py PROGRAM CORPUS [ROUNDS]

PROGRAM is bench_tokenizers, CORPUS the output of make_corpus.py. Uses the tokenizers in LATHE_TEST_DATA
(default: the folder `shared` beside the repository), or else the committed example. Each result is the
best of ROUNDS (3); a ratio is the peer's time over Lathe's. "cold": with an empty word cache.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import tiktoken
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared")) / "models/tokenizers"
CL100K = ("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|"
          "\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s")


class Lathe:
    def __init__(self, program, path, corpus):
        self.process = subprocess.Popen([program, "encode", path, corpus], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, kind, threads):
        self.process.stdin.write(f"{kind} {threads}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def checksum(lists):
    """The checksum of bench_tokenizers."""
    total = 14695981039346656037
    for ids in lists:
        for number in ids:
            total = (total ^ number) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return total


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def best(rounds, *functions):
    """The minimum time of each function, called in alternation, and the last results."""
    times, results = [float("inf")] * len(functions), [None] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            seconds, results[i] = timed(function)
            if isinstance(results[i], dict):
                seconds = results[i]["seconds"]
            times[i] = min(times[i], seconds)
    return times, results


def row(name, size, ours, theirs, ids):
    print(f"{name:<34} {size / ours / 1e6:8.1f} MB/s {size / theirs / 1e6:8.1f} MB/s {theirs / ours:7.2f}x"
          f"   ids {ids}", flush=True)


def compare_tokenizers(program, path, name, corpus, documents, size, rounds):
    reference = tokenizers.Tokenizer.from_file(str(path))
    reference.no_truncation()
    reference.no_padding()
    lathe = Lathe(program, path, corpus)

    def encode(parallel):
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if parallel else "false"
        return reference.encode_batch_fast(documents, add_special_tokens=False)

    (cold, warm, theirs), results = best(rounds, lambda: lathe.run("cold", 1), lambda: lathe.run("warm", 1),
                                         lambda: encode(False))
    same = "equal" if checksum(e.ids for e in results[2]) == results[0]["sum"] else "DIFFER"
    row(f"{name}: 1 thread, cold", size, cold, theirs, same)
    row(f"{name}: 1 thread, warm", size, warm, theirs, same)
    (ours, theirs), _ = best(rounds, lambda: lathe.run("cold", 2), lambda: encode(True))
    row(f"{name}: 2 threads, cold", size, ours, theirs, same)
    return same == "equal"


def compare_tiktoken(program, path, corpus, documents, size, rounds):
    ranks = {base64.b64decode(token): int(rank) for token, rank in
             (line.split() for line in open(path, "rb") if line.strip())}
    reference = tiktoken.Encoding("cl100k", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={})
    lathe = Lathe(program, path, corpus)
    (cold, warm, theirs), results = best(
        rounds, lambda: lathe.run("cold", 1), lambda: lathe.run("warm", 1),
        lambda: [reference.encode_ordinary(text) for text in documents])
    same = "equal" if checksum(results[2]) == results[0]["sum"] else "DIFFER"
    row("tiktoken cl100k: 1 thread, cold", size, cold, theirs, same)
    row("tiktoken cl100k: 1 thread, warm", size, warm, theirs, same)
    (ours, theirs), _ = best(rounds, lambda: lathe.run("cold", 2),
                             lambda: reference.encode_ordinary_batch(documents, num_threads=2))
    row("tiktoken cl100k: 2 threads, cold", size, ours, theirs, same)
    return same == "equal"


def make_large(ranks_path, folder):
    """Writes a tokenizer.json of 128,000 tokens: the cl100k ranks as merges, and added tokens."""
    ranks = {base64.b64decode(token): int(rank) for token, rank in
             (line.split() for line in open(ranks_path, "rb") if line.strip())}
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    character = {c: chr(c) for c in plain}
    character |= {c: chr(256 + i) for i, c in enumerate(c for c in range(256) if c not in character)}

    def spell(token):
        return "".join(character[byte] for byte in token)

    def parts(token, limit):
        pieces = [bytes([byte]) for byte in token]
        while len(pieces) > 2:
            rank, at = min((ranks.get(pieces[i] + pieces[i + 1], 1 << 30), i) for i in range(len(pieces) - 1))
            if rank >= limit:
                break
            pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]
        return pieces

    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            pieces = parts(token, rank)
            if len(pieces) == 2:
                merges.append([spell(piece) for piece in pieces])
    vocab = {spell(token): rank for token, rank in ranks.items()}
    added = [{"id": len(ranks) + i, "content": f"<|extra_{i}|>", "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": i % 2 == 0} for i in range(128000 - len(ranks))]
    split = {"type": "Split", "pattern": {"Regex":
             "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
             "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    path = pathlib.Path(folder) / "tokenizer.json"
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": True, "vocab": vocab, "merges": merges}}, ensure_ascii=False, indent=2))
    return path


def compare_load(program, path, rounds):
    def ours():
        line = subprocess.check_output([program, "load", path, "1"], text=True)
        return json.loads(line)
    (ours_seconds, theirs), _ = best(rounds, ours, lambda: tokenizers.Tokenizer.from_file(str(path)))
    print(f"load of {path.stat().st_size / 1e6:.1f} MB, 128,000 tokens: {ours_seconds * 1e3:.0f} ms, theirs "
          f"{theirs * 1e3:.0f} ms: {ours_seconds / theirs:.2f} of theirs", flush=True)


def compare_one(program, tokenizer, documents, folder):
    """Encodes 1 MB without a space."""
    text = "".join("".join(documents).split()).encode()[:1_000_000].decode("utf-8", "ignore")
    path = pathlib.Path(folder) / "one.txt"
    path.write_text(text, encoding="utf-8")
    line = json.loads(subprocess.check_output([program, "one", tokenizer, path], text=True))
    print(f"1 MB without a space, {tokenizer.parent.name}: {line['seconds']:.2f} s, {line['tokens']} tokens",
          flush=True)


def main():
    program, corpus = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    documents = [text.decode() for text in pathlib.Path(corpus).read_bytes().split(b"\0")[:-1]]
    size = sum(len(text.encode()) for text in documents)
    os.environ["RAYON_NUM_THREADS"] = "2"
    print(f"{size / 1e6:.1f} MB in {len(documents)} documents; best of {rounds}; ours, theirs, ratio")
    paths = {name: DATA / name / "tokenizer.json"
             for name in ("gpt2", "bert-base-uncased", "phi-3-mini", "t5-small", "clip", "whisper-tiny")}
    paths = {name: path for name, path in paths.items() if path.exists()}
    good = True
    with tempfile.TemporaryDirectory() as folder:
        ranks = DATA / "tiktoken-cl100k/cl100k_base.tiktoken"
        if ranks.exists():
            good &= compare_tiktoken(program, ranks, corpus, documents, size, rounds)
            large = make_large(ranks, folder)
            compare_load(program, large, rounds + 2)
            good &= compare_tokenizers(program, large, "128k", corpus, documents, size, rounds)
        for name, path in (paths or {"example": ROOT / "examples/tokenizer/tokenizer.json"}).items():
            good &= compare_tokenizers(program, path, name, corpus, documents, size, rounds)
            compare_one(program, path, documents, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
