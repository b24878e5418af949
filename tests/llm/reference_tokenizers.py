# SPDX-License-Identifier: MIT
"""Compares complete tokenizers of this build with the packages that define them."""

import base64
import json
import os
import subprocess

import sentencepiece
import tiktoken
import tokenizers
from tokenizers.decoders import DecodeStream

CL100K = ("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|"
          "\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s")
CL100K_SPECIALS = {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259,
                   "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}


class Probe:
    """Runs encoding_probe of this build."""

    def __init__(self):
        preset = os.environ.get("TEST_PRESET", "release")
        self.process = subprocess.Popen([f"build/{preset}/tests/encoding_probe"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, op, **question):
        self.process.stdin.write(json.dumps({"op": op, **question}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the probe died of {op} {str(question)[:500]}")
        return json.loads(line)

    def load(self, path, **options):
        reply = self.ask("load", name=str(path), path=str(path), **options)
        if "error" in reply:
            raise AssertionError(f"{path}: {reply}")
        return reply


def fields(encoding):
    """An encoding of the package in the probe's form."""
    return {"ids": encoding.ids, "type_ids": encoding.type_ids, "tokens": encoding.tokens,
            "words": encoding.word_ids, "offsets": [list(pair) for pair in encoding.offsets],
            "special_tokens_mask": encoding.special_tokens_mask,
            "attention_mask": encoding.attention_mask,
            "overflowing": [fields(overflow) for overflow in encoding.overflowing]}


def attempt(function):
    """The result of the package, or None if it fails."""
    try:
        return function()
    except BaseException as error:  # a panic of the package is not an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return None
        raise


def difference(expected, found):
    """The first difference, or None."""
    if expected is None or "error" in found:
        return None if expected is None and "error" in found else f"expected {str(expected)[:80]}: {found}"
    for name, value in expected.items():
        if found.get(name) != value:
            return f"{name}: expected {str(value)[:300]}, found {str(found.get(name))[:300]}"
    return None


class HuggingFace:
    """A tokenizer.json. Compares all fields, the decoded text, and streams."""

    def __init__(self, probe, path):
        self.probe, self.name = probe, str(path)
        self.reference = tokenizers.Tokenizer.from_file(str(path))
        size = probe.load(path)["size"]
        if size != self.reference.get_vocab_size():
            raise AssertionError(f"{path}: {size} tokens, expected {self.reference.get_vocab_size()}")
        self.tokens = [token.content for token in self.reference.get_added_tokens_decoder().values()]

    def compare(self, text, special=True):
        def expected():
            encoding = self.reference.encode(text, add_special_tokens=special)
            return {**fields(encoding), "decoded": self.reference.decode(encoding.ids), "same": True}
        return difference(attempt(expected), self.probe.ask("compare", name=self.name, text=text,
                                                            special=special))

    def compare_pair(self, text, pair, special=True):
        def expected():
            return fields(self.reference.encode(text, pair, add_special_tokens=special))
        return difference(attempt(expected), self.probe.ask("encode", name=self.name, text=text, pair=pair,
                                                            special=special))

    def compare_batch(self, texts):
        expected = attempt(lambda: [fields(e) for e in self.reference.encode_batch(texts)])
        found = self.probe.ask("batch", name=self.name, texts=texts)
        return difference(None if expected is None else {"all": expected},
                          found if "error" in found else {"all": found})

    def compare_stream(self, text):
        """Compares each step until the package's stream fails; the concatenated steps equal the text."""
        encoding = attempt(lambda: self.reference.encode(text))
        if encoding is None:
            return None
        steps = self.probe.ask("stream", name=self.name, ids=encoding.ids)
        stream = DecodeStream(skip_special_tokens=True)
        for place, token in enumerate(encoding.ids):
            try:
                step = stream.step(self.reference, token) or ""
            except Exception:
                return None
            if step != steps[place]:
                return f"step {place}: expected {step!r}, found {steps[place]!r}"
        whole = self.reference.decode(encoding.ids)
        return None if "".join(steps) == whole else f"expected {whole!r}, found {''.join(steps)!r}"


class SentencePiece:
    tokens = ["<s>", "</s>", "<unk>", "\u2581", "<0x41>", "\u2581\u2581", "<sep>", "abab", "AB", "\u2460",
              "\u3000", "\uff21\ufb01"]

    def __init__(self, probe, path):
        self.probe, self.name = probe, str(path)
        self.reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
        probe.load(path)

    def compare(self, text, special=True):
        ids = self.reference.encode(text)
        return difference({"ids": ids, "decoded": self.reference.decode(ids), "same": True},
                          self.probe.ask("compare", name=self.name, text=text))


class Tiktoken:
    def __init__(self, probe, path, pattern=""):
        self.probe, self.name = probe, str(path) + pattern
        ranks = {base64.b64decode(token): int(rank) for token, rank in
                 (line.split() for line in open(path, "rb") if line.strip())}
        specials = CL100K_SPECIALS if len(ranks) == 100256 else {}
        self.tokens = list(specials)
        self.reference = tiktoken.Encoding("test", pat_str=pattern or CL100K, mergeable_ranks=ranks,
                                           special_tokens=specials)
        reply = probe.ask("load", name=self.name, path=str(path), pattern=pattern)
        if "error" in reply:
            raise AssertionError(f"{path}: {reply}")

    def compare(self, text, special=True):
        ids = self.reference.encode(text, allowed_special="all")
        return difference({"ids": ids, "decoded": self.reference.decode(ids), "same": True},
                          self.probe.ask("compare", name=self.name, text=text, skip=False))
