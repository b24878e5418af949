# SPDX-License-Identifier: MIT
"""Compares complete tokenizers (committed ones, those of the test data and real ones) with the packages
`tokenizers`, `sentencepiece` and `tiktoken`, and with stored results.

LATHE_TEST_DATA (or the folder `shared` beside the repository) has the test data, LATHE_REAL_MODELS the
output of its tools/real_models.py. LATHE_TOKENIZER_TEXTS: the number of generated texts per tokenizer,
split into LATHE_TOKENIZER_PARTS (default: the processors) that run in parallel.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import unicodedata

import generated_texts
from reference_tokenizers import CL100K, HuggingFace, Probe, SentencePiece, Tiktoken

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "tests/llm/tokenizers").glob("*.json"))
TOKENIZER_JSON = {name: f"models/{path}" for name, path in {
    "gpt2": "tokenizers/gpt2", "bert": "tokenizers/bert-base-uncased", "phi-3": "tokenizers/phi-3-mini",
    "t5": "tokenizers/t5-small", "clip": "tokenizers/clip", "whisper": "tokenizers/whisper-tiny",
    "stories260k": "llm/stories260k-onnx",
    "phi-2": "genai/hf-internal-testing/tiny-random-gpt2-fp32"}.items()}
SENTENCE_PIECE = ["models/tokenizers/sentencepiece/test_model.model",
                  "models/tokenizers/sentencepiece/test_ja_model.model",
                  "models/llm/stories260k/tok512.model", "models/tokenizers/t5-small/spiece.model"]
TIKTOKEN = "models/tokenizers/tiktoken-cl100k/cl100k_base.tiktoken"
GGUF = "models/tokenizers/gguf-vocab/ggml-vocab-{}.gguf"
FULL = "LATHE_TOKENIZER_TEXTS" in os.environ
TEXTS = int(os.environ.get("LATHE_TOKENIZER_TEXTS", 60))
PARTS = int(os.environ.get("LATHE_TOKENIZER_PARTS", os.cpu_count())) if FULL else 1
PART = "LATHE_TOKENIZER_PART"  # set in a process that runs one part


class Results:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, problem, about=""):
        if problem is None:
            self.passed += 1
            return
        self.failed += 1
        if self.failed <= 40:
            print(f"failed {name}: {str(about)[:200]!r}: {problem}")

    def skip(self, reason):
        self.skipped += 1
        print(f"skipped 1: {reason}")


def data_path(relative):
    path = pathlib.Path(os.environ.get("LATHE_TEST_DATA", ROOT.parent / "shared")) / relative
    return path if path.exists() else None


def real_path(relative):
    folder = os.environ.get("LATHE_REAL_MODELS")
    path = pathlib.Path(folder) / relative if folder else None
    return path if path and path.exists() else None


def same(expected, found):
    return None if expected == found else f"expected {str(expected)[:300]}, found {str(found)[:300]}"


def check_generated(results, tokenizer, seed):
    """Compares all texts, and some as pairs, batches and streams if the reference supports these."""
    part = int(os.environ.get(PART, 0))
    texts = list(generated_texts.texts(-(-TEXTS // PARTS), seed + 1000 * part, tokenizer.tokens))
    for i, text in enumerate([*generated_texts.EDGES, *texts]):
        results.check(tokenizer.name, tokenizer.compare(text, special=i % 4 != 0), text)
    if not isinstance(tokenizer, HuggingFace):
        return
    for i in range(0, len(texts), 10):
        pair = texts[i], texts[(i * 7 + 1) % len(texts)]
        results.check(tokenizer.name, tokenizer.compare_pair(*pair, special=i % 20 != 0), pair)
        results.check(tokenizer.name, tokenizer.compare_stream(texts[i]), texts[i])
    for i in range(0, len(texts), 60):
        results.check(tokenizer.name, tokenizer.compare_batch(texts[i:i + 7]), texts[i:i + 7])


def check_golden(results, probe, name, cases):
    for case in cases:
        text = case["text"]
        found = probe.ask("compare", name=name, text=text, special=True)
        ids = case.get("ids_hf", case["ids"])
        results.check(name, same((ids, case.get("decoded")),
                                 (found.get("ids"), found.get("decoded") if "decoded" in case else None)), text)
        if "tokens" in case:
            results.check(name, same(case["tokens"], found.get("tokens")), text)
        if "ids_no_special" in case:
            bare = probe.ask("compare", name=name, text=text, special=False)
            results.check(name, same(case["ids_no_special"], bare.get("ids")), text)


def test_committed(results, probe):
    for seed, path in enumerate(COMMITTED):
        check_generated(results, HuggingFace(probe, path), seed)


def test_tokenizer_json(results, probe):
    paths = {name: data_path(path) for name, path in TOKENIZER_JSON.items()}
    paths["smollm2"] = real_path("smollm2/hf")
    paths["minilm"] = real_path("minilm/hf")
    for seed, (name, folder) in enumerate(paths.items()):
        if folder is None:
            results.skip("a tokenizer of the test data or real models is absent")
            continue
        tokenizer = HuggingFace(probe, folder / "tokenizer.json")
        for golden in ("golden.json", "tokenizer_golden.json"):
            if (folder / golden).exists():
                check_golden(results, probe, tokenizer.name,
                             json.loads((folder / golden).read_text())["cases"])
        check_generated(results, tokenizer, 100 + seed)


def test_committed_others(results, probe):
    for seed, path in enumerate(sorted((ROOT / "tests/llm/tokenizers").glob("*.model"))):
        check_generated(results, SentencePiece(probe, path), 50 + seed)
    ranks = ROOT / "tests/llm/tokenizers/ranks.tiktoken"
    for seed, pattern in enumerate((CL100K, r"\w+|[^\w\s]+|\s", r"\p{N}{1,2}+|[a-z]+$|\s++|\S+?")):
        check_generated(results, Tiktoken(probe, ranks, pattern), 60 + seed)


def test_sentence_piece(results, probe):
    for seed, relative in enumerate(SENTENCE_PIECE):
        path = data_path(relative)
        if path is None:
            results.skip("a SentencePiece model of the test data is absent")
            continue
        tokenizer = SentencePiece(probe, path)
        golden = path.with_name(path.stem + "_model_golden.json")
        if not golden.exists():
            golden = path.with_name(path.name.replace(".model", "_golden.json"))
        if golden.exists():
            check_golden(results, probe, tokenizer.name, json.loads(golden.read_text())["cases"])
        check_generated(results, tokenizer, 200 + seed)


def test_tiktoken(results, probe):
    path = data_path(TIKTOKEN)
    if path is None:
        results.skip("the tiktoken ranks of the test data are absent")
        return
    check_generated(results, Tiktoken(probe, path), 300)
    golden = json.loads(path.with_name("golden.json").read_text())
    tokenizer = Tiktoken(probe, path, golden["pattern"])
    for case in golden["cases"]:
        found = probe.ask("encode", name=tokenizer.name, text=case["text"], special_as_text=True)
        results.check(tokenizer.name, same(case["ids"], found.get("ids")), case["text"])


def test_gguf(results, probe):
    for kind in ("gpt-2", "phi-3", "bert-bge"):
        path = data_path(GGUF.format(kind))
        if path is None:
            results.skip("a GGUF vocabulary of the test data is absent")
            continue
        probe.load(path)
        texts = pathlib.Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        lines = pathlib.Path(f"{path}.out").read_text().splitlines()
        for text, line in zip(texts, lines):
            found = probe.ask("encode", name=str(path), text=text, special=False)
            results.check(path.name, same([int(i) for i in line.split()], found.get("ids")), text)
    path = data_path("models/llm/stories260k-gguf/tinyllm.gguf")
    model = data_path("models/llm/stories260k-onnx/tokenizer.json")
    if path is None or model is None:
        results.skip("a GGUF vocabulary of the test data is absent")
    else:
        compare_two(results, probe, path, model, squeeze=True)  # the model squeezes spaces itself
    path, other = real_path("smollm2/gguf/model.gguf"), real_path("smollm2/hf/tokenizer.json")
    if path is None or other is None:
        results.skip("the GGUF vocabulary of a real model is absent")
    else:
        compare_two(results, probe, path, with_digits(other))


def test_gguf_pre_tokenizers(results, probe):
    """Pre-tokenizers, by their names in GGUF files, decide which merges of a text apply."""
    sys.path.insert(0, str(ROOT / "tests/decoders"))
    import write_gguf
    printable = [b for b in range(256) if 33 <= b <= 126 or (161 <= b and b != 173)]
    letters = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    merges = ["1 2", "12 3", "123 4", "a B", "! a", "a \u00e4"]
    merged = [merge.replace(" ", "") for merge in merges]
    folder = ROOT / "build/gguf-pre-tokenizers"
    folder.mkdir(exist_ok=True)
    for name, kept in {"llama-bpe": ["123", "aB", "!a", "a\u00e4"], "lfm2": ["123", "aB", "!a", "a\u00e4"],
                       "glm4": ["123", "aB", "!a", "a\u00e4"], "qwen35": ["aB", "!a", "a\u00e4"],
                       "gpt-2": ["1234", "aB", "a\u00e4"], "tekken": ["!a", "a\u00e4"],
                       "deepseek-v3": ["123", "aB", "!a"], "hunyuan-dense": ["123", "aB", "!a"]}.items():
        path = folder / f"{name}.gguf"
        write_gguf.write(path, "llama", {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
                                         "tokenizer.ggml.tokens": letters + merged, "tokenizer.ggml.merges": merges}, {})
        probe.load(path)
        ids = probe.ask("encode", name=str(path), text="1234 aB x!a a\u4e2d", special=False).get("ids", [])
        results.check(name, same(kept, [merged[i - 256] for i in ids if i >= 256]))


# The splits of models' tokenizer.json files, and of llama.cpp for "default". CASED: letters, from the source.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
SPLITS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", "CASED", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                     r"\s+$", CJK, None],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, None],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
                    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "seed-coder": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|"
                   r"\s*[\r\n]+|\s+(?!\S)|\s+"],
    "viking": [" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+", None],
    "minerva-7b": [None, GPT2], "mellum": [GPT2]}


def cased_letters():
    source = (ROOT / "src/llm/tokenizer/load_gguf.cpp").read_text()
    literal = re.search(r'kCased =((?:\s+"[^"]*")+);', source)[1]
    return "".join(re.findall('"([^"]*)"', literal)).encode("latin-1").decode("unicode_escape")


def test_gguf_splits(results, probe):
    """Merges that cross every boundary apply where the package's pre-tokenizers, by the same patterns, leave them."""
    sys.path.insert(0, str(ROOT / "tests/decoders"))
    import tokenizers
    import write_gguf
    from tokenizers import Regex, pre_tokenizers
    texts = [*generated_texts.EDGES, *generated_texts.texts(max(TEXTS, 300), 500)]
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=12, show_progress=False))
    trained = json.loads(model.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in trained["merges"]]
    tokens = sorted(trained["vocab"], key=trained["vocab"].get)
    for name, patterns in SPLITS.items():
        steps = [pre_tokenizers.Digits(individual_digits=True) if pattern is None else
                 pre_tokenizers.Split(Regex(cased_letters() if pattern == "CASED" else pattern), "isolated")
                 for pattern in patterns]
        model.pre_tokenizer = pre_tokenizers.Sequence(
            [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        path = ROOT / f"build/gguf-pre-tokenizers/splits-{name}.gguf"
        path.parent.mkdir(exist_ok=True)
        write_gguf.write(path, "llama", {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
                                         "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges}, {})
        probe.load(path)
        for text in texts:
            ids = probe.ask("encode", name=str(path), text=text, special=False).get("ids")
            results.check(name, same(model.encode(text).ids, ids), text)


def test_gguf_first_tokens(results, probe):
    """Whether texts begin with the beginning token follows from the pre-tokenizer where a file does not state it."""
    sys.path.insert(0, str(ROOT / "tests/decoders"))
    import write_gguf
    tokens = ["<s>", *"ab"]
    for name, stated, first in (("llama-bpe", None, True), ("tekken", None, True), ("lfm2", None, True),
                                ("qwen2", None, False), ("smollm", None, False), ("llama-bpe", False, False),
                                ("qwen2", True, True)):
        path = ROOT / f"build/gguf-first-{name}-{stated}.gguf"
        write_gguf.write(path, "llama", {
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name, "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3, 1, 1],
            "tokenizer.ggml.bos_token_id": 0,
            **({} if stated is None else {"tokenizer.ggml.add_bos_token": stated})}, {})
        probe.load(path)
        found = probe.ask("encode", name=str(path), text="ab")
        results.check(f"{name}, add_bos_token {stated}", same([0, 1, 2] if first else [1, 2], found.get("ids")))


def test_gguf_characters(results, probe):
    """Gemma 4's vocabulary in GGUF files: spaces as ▁, characters and bytes, newlines apart from other characters."""
    sys.path.insert(0, str(ROOT / "tests/decoders"))
    import write_gguf
    tokens = ["<unk>", "<bos>", *"ab▁\n", "▁a", "ab", "\n\n", "b\n", *(f"<0x{i:02X}>" for i in range(256))]
    path = ROOT / "build/gguf-gemma4.gguf"
    write_gguf.write(path, "gemma4", {
        "tokenizer.ggml.model": "gemma4", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3] + [1] * 8 + [6] * 256, "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.merges": ["b \n", "▁ a", "a b", "\n \n"]}, {})
    probe.load(path)
    text = "ab ab\n\nb\u00e9"
    wanted = ["<bos>", "ab", "▁a", "b", "\n\n", "b", "<0xC3>", "<0xA9>"]
    found = probe.ask("compare", name=str(path), text=text)
    results.check("gemma4", same(wanted, [tokens[i] for i in found.get("ids", [])]), text)
    results.check("gemma4", same(text, found.get("decoded")), text)


def with_digits(path):
    """The model's tokenizer.json, made from the GGUF file, lacks the step of tokenizer.ggml.pre that splits
    digits; this adds it."""
    description = json.loads(path.read_text())
    description["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, description["pre_tokenizer"]]}
    made = ROOT / "build/smollm2-with-digits.json"
    made.write_text(json.dumps(description))
    return made


def compare_two(results, probe, path, other, squeeze=False):
    """Two files of one vocabulary produce the same ids."""
    probe.load(path)
    probe.load(other)
    for text in generated_texts.texts(max(TEXTS // 10, 60), 400):
        if squeeze:
            text = re.sub(" +", " ", unicodedata.normalize("NFKC", text)).strip(" ")
        ids = [probe.ask("compare", name=str(p), text=text, special=False).get("ids") for p in (path, other)]
        results.check(path.name, same(ids[1], ids[0]), text)


def test_legacy(results, probe):
    """vocab.json with merges.txt, and vocab.txt, written from a tokenizer.json, produce its ids."""
    folder = ROOT / "build/legacy-tokenizers"
    bytes_ = json.loads((ROOT / "tests/llm/tokenizers/bpe_bytes.json").read_text())["model"]
    (folder / "gpt2").mkdir(parents=True, exist_ok=True)
    (folder / "gpt2/vocab.json").write_text(json.dumps(bytes_["vocab"]))
    (folder / "gpt2/merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in bytes_["merges"]))
    (folder / "gpt2/tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "GPT2Tokenizer", "eos_token": {"__type": "AddedToken", "content": "<mask>"}}))
    pieces = json.loads((ROOT / "tests/llm/tokenizers/word_piece.json").read_text())["model"]
    (folder / "bert").mkdir(exist_ok=True)
    words = sorted(pieces["vocab"], key=pieces["vocab"].get)
    (folder / "bert/vocab.txt").write_text("".join(f"{word}\n" for word in words))
    (folder / "bert/special_tokens_map.json").write_text('{"unk_token": "[UNK]"}')
    for kind, name in (("gpt2", "bpe_bytes"), ("bert", "word_piece")):
        full = ROOT / f"tests/llm/tokenizers/{name}.json"
        probe.load(folder / kind)
        probe.load(full)
        for text in generated_texts.texts(60, 500):
            if any(token in text.lower() for token in ("word", "loud", "caf", "two", "<", "[")):
                continue
            ids = [probe.ask("encode", name=str(p), text=text, special=False).get("ids")
                   for p in (folder / kind, full)]
            results.check(kind, same(ids[1][:20], ids[0][:20]), text)
    if data_path("models/tokenizers/bert-base-uncased/vocab.txt"):
        folder = data_path("models/tokenizers/bert-base-uncased")
        compare_two(results, probe, folder / "vocab.txt", folder)


def test_errors(results, probe):
    """Errors of text that is not UTF-8 and of wrong files name the cause."""
    name = str(COMMITTED[0])
    probe.load(name)
    folder = ROOT / "build/broken-tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    good = json.loads((ROOT / "tests/llm/tokenizers/bpe_bytes.json").read_text())

    def broken(label, error, message, **changes):
        path = folder / f"{label}.json"
        path.write_text(json.dumps({**good, **changes}))
        found = probe.ask("load", name=label, path=str(path))
        results.check(label, None if found.get("error") == error and message in found["message"]
                      else f"expected {error}: {message}, found {found}")

    model = good["model"]
    broken("dropout", "Unsupported", "model.dropout is 0.1", model={**model, "dropout": 0.1})
    broken("type", "Unsupported", "model.type is 'Bag'", model={**model, "type": "Bag"})
    broken("id", "InvalidModel", "model.vocab['a'] is -1", model={**model, "vocab": {"a": -1}})
    broken("merge", "InvalidModel", "model.merges[0] needs 'qq'",
           model={**model, "merges": [["qq", "z"]]})
    broken("merges", "InvalidModel", "model.merges[0] is [\"a\"]", model={**model, "merges": [["a"]]})
    broken("missing", "InvalidModel", "has no 'merges'", model={**model, "merges": None})
    broken("decoder", "Unsupported", "decoder.decoders[1].type is 'Nope'", decoder={
        "type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Nope"}]})
    broken("post", "InvalidModel", "post_processor.sep", post_processor={
        "type": "BertProcessing", "sep": ["x"], "cls": ["x", 1]})
    broken("version", "Unsupported", "version is \"2.0\"", version="2.0")
    broken("padding", "InvalidModel", "padding.direction is 'Up'", padding={
        "strategy": "BatchLongest", "direction": "Up", "pad_id": 0, "pad_type_id": 0, "pad_token": ""})
    deep = folder / "deep.json"
    deep.write_text('{"model":' + "[" * 100000)
    found = probe.ask("load", name="deep", path=str(deep))
    results.check("deep", None if found.get("error") == "InvalidModel" else f"found {found}")


GENERATED = (test_committed, test_committed_others, test_tokenizer_json, test_sentence_piece, test_tiktoken)
OTHERS = (test_gguf, test_gguf_pre_tokenizers, test_gguf_splits, test_gguf_first_tokens, test_gguf_characters, test_legacy,
          test_errors)


def run(tests, wanted):
    results = Results()
    random.seed(1)
    for test in tests:
        if not wanted or test.__name__ in wanted:
            test(results, Probe())
    return results


def run_parts(wanted):
    """Runs each part in its own process; returns the total counts."""
    processes = [subprocess.Popen([sys.executable, __file__, *wanted], env={**os.environ, PART: str(part)},
                                  stdout=subprocess.PIPE, text=True) for part in range(PARTS)]
    total = Results()
    for process in processes:
        lines = process.communicate()[0].splitlines()
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1]) if lines else None
        print("\n".join(lines[:-1] if counts else lines))
        if counts is None:
            raise AssertionError(f"a part ended with {process.returncode} and without its counts")
        total.passed += int(counts[1])
        total.failed += int(counts[2])
        total.skipped += int(counts[3])
    return total


def main():
    wanted = sys.argv[1:]
    if FULL and PARTS > 1 and PART not in os.environ:
        results = run_parts(wanted)
    else:
        part = int(os.environ.get(PART, 0))
        results = run(GENERATED + (OTHERS if part == 0 else ()), wanted)
    print(f"{results.passed} passed, {results.failed} failed, {results.skipped} skipped")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
