# SPDX-License-Identifier: MIT
"""Makes tests/llm/tokenizers/* with the packages `tokenizers` and `sentencepiece`: small files, in which
every component and option of the formats occurs.

usage: make_tokenizers.py        in the root of the repository
"""

import base64
import io
import json
import pathlib
import tempfile

import sentencepiece
from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

FOLDER = pathlib.Path("tests/llm/tokenizers")
TEXT = sorted(map(str, pathlib.Path(".").glob("*/README.md"))) + ["README.md"]
EXTRA = ["na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u00df \u0130", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \u4e2d\u6587\u5b57\u7b26",
         "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0441\u043d\u043e\u0432\u0430", "don't I'll we've 123 4567 3.14 1,000", "\ud55c\uad6d\uc5b4 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629"] * 8
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def token(content, **options):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": True, "special": False, **options}


ADDED = [token("<mask>", lstrip=True, special=True, normalized=False),
         token("<end>", rstrip=True, special=True, normalized=False),
         token("word", single_word=True), token("LOUD"), token("</s>", special=True, normalized=False),
         token("<s>", special=True, normalized=False), token(" two words ", lstrip=True, rstrip=True),
         token("caf\u00e9")]


def trained(model, trainer, pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    lines = [line for path in TEXT for line in pathlib.Path(path).read_text().splitlines()] + EXTRA
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def make_models():
    bytes_ = trained(models.BPE(), trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        pre_tokenizers.ByteLevel(add_prefix_space=True))
    plain = trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>"], limit_alphabet=80),
        pre_tokenizers.Whitespace())
    suffix = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>"], limit_alphabet=60,
        end_of_word_suffix="</w>"), pre_tokenizers.Whitespace())
    prefix = trained(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>"], limit_alphabet=60,
        continuing_subword_prefix="##"), pre_tokenizers.Whitespace())
    spaced = trained(models.BPE(unk_token="<unk>", byte_fallback=True), trainers.BpeTrainer(
        vocab_size=560, show_progress=False, special_tokens=["<unk>", *BYTES], limit_alphabet=70),
        pre_tokenizers.Metaspace())
    unigram = trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>", "</s>"], unk_token="<unk>"),
        pre_tokenizers.Metaspace(), normalizers.NFKC())
    pieces = trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
        vocab_size=320, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        limit_alphabet=90), pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer())
    words = trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(
        vocab_size=200, show_progress=False, special_tokens=["<unk>"]), pre_tokenizers.Whitespace())
    return bytes_, plain, suffix, prefix, spaced, unigram, pieces, words


def part(type_, **fields):
    return {"type": type_, **fields}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def byte_level(**fields):
    return part("ByteLevel", **{"add_prefix_space": False, "trim_offsets": True, "use_regex": True, **fields})


def split(pattern, behavior, invert=False, kind="Regex"):
    return part("Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


def template(vocab, first, last):
    def special(name, kind):
        return {"SpecialToken": {"id": name, "type_id": kind}}

    def text(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    return part("TemplateProcessing",
                single=[special(first, 0), text("A", 0), special(last, 0)],
                pair=[special(first, 0), text("A", 0), special(last, 0), text("B", 1), special(last, 1)],
                special_tokens={name: {"id": name, "ids": [vocab[name]], "tokens": [name]}
                                for name in {first, last}})


def make_tokenizers():
    bytes_, plain, suffix, prefix, spaced, unigram, pieces, words = make_models()
    gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
    llama3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
              " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
    metaspace = {"replacement": "\u2581", "prepend_scheme": "always", "split": True}
    bert = {"sep": ["[SEP]", pieces["vocab"]["[SEP]"]], "cls": ["[CLS]", pieces["vocab"]["[CLS]"]]}
    out = {}

    def add(name, model, normalizer=None, pre=None, post=None, decoder=None, added=ADDED,
            truncation=None, padding=None):
        out[name] = {"version": "1.0", "truncation": truncation, "padding": padding,
                     "added_tokens": [{"id": 0, **t} for t in added], "normalizer": normalizer,
                     "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}

    def cut(strategy, length, stride=0, direction="Right"):
        return {"direction": direction, "max_length": length, "strategy": strategy, "stride": stride}

    def fill(strategy, direction="Right", multiple=None):
        return {"strategy": strategy, "direction": direction, "pad_to_multiple_of": multiple, "pad_id": 3,
                "pad_type_id": 1, "pad_token": "<pad>"}

    add("bpe_bytes", bytes_, None, byte_level(), byte_level(), byte_level())
    add("bpe_bytes_prefix_space", bytes_, None, byte_level(add_prefix_space=True),
        byte_level(add_prefix_space=True), byte_level(), truncation=cut("LongestFirst", 12, 3),
        padding=fill({"Fixed": 14}))
    add("bpe_bytes_split", {**bytes_, "ignore_merges": True}, part("NFC"),
        sequence("pretokenizers", split(llama3, "Isolated"), byte_level(use_regex=False)),
        sequence("processors", byte_level(trim_offsets=False)), byte_level(),
        truncation=cut("LongestFirst", 9, 2, "Left"), padding=fill("BatchLongest", "Left", 8))
    add("bpe_bytes_digits", bytes_, sequence("normalizers", part("NFD"), part("StripAccents")),
        sequence("pretokenizers", part("Digits", individual_digits=True), byte_level(),
                 ), byte_level(add_prefix_space=True), byte_level())
    add("bpe_bytes_normalizer", bytes_, part("ByteLevel"), split(gpt2, "Isolated"), None, byte_level())
    add("bpe_bytes_first", bytes_, None, sequence("pretokenizers", byte_level(), part("Digits",
        individual_digits=False)), None, byte_level())
    add("bpe_missing_bytes", {**bytes_, "vocab": {t: i for t, i in bytes_["vocab"].items() if t not in "z\u0120q"},
        "merges": [m for m in bytes_["merges"] if not set("".join(m)) & set("z\u0120q")],
        "unk_token": "e"}, None, byte_level(), None, byte_level())
    add("bpe_roberta", bytes_, None, byte_level(add_prefix_space=True),
        part("RobertaProcessing", sep=["a", bytes_["vocab"]["a"]], cls=["b", bytes_["vocab"]["b"]],
             trim_offsets=True, add_prefix_space=True), byte_level(), truncation=cut("OnlyFirst", 16, 2))
    add("bpe_unknown", plain, part("Lowercase"), part("Whitespace"), None, None)
    add("bpe_unknown_fused", {**plain, "fuse_unk": True}, None, part("WhitespaceSplit"), None,
        part("Fuse"))
    add("bpe_no_unknown", {**plain, "unk_token": None}, part("NFKD"), part("Punctuation",
        behavior="Isolated"), None, part("CTC", pad_token="<s>", word_delimiter_token="|", cleanup=True))
    add("bpe_string_merges", {**{k: v for k, v in plain.items() if k != "type"},
        "merges": [" ".join(m) for m in plain["merges"]], "ignore_merges": True}, None,
        part("Punctuation", behavior="Contiguous"), None,
        part("CTC", pad_token="e", word_delimiter_token="|", cleanup=False))
    add("bpe_suffix", suffix, sequence("normalizers", part("NFC"), part("Replace",
        pattern={"Regex": "\\s+"}, content=" "), part("Lowercase")),
        sequence("pretokenizers", split("[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", "Removed", True)),
        None, part("BPEDecoder", suffix="</w>"))
    add("bpe_prefix", prefix, part("Nmt"), part("UnicodeScripts"), None,
        part("WordPiece", prefix="##", cleanup=False))
    add("bpe_byte_fallback", {**spaced, "fuse_unk": True}, sequence("normalizers",
        part("Prepend", prepend="\u2581"), part("Replace", pattern={"String": " "}, content="\u2581")), None,
        template({"<s>": 1, "</s>": 2}, "<s>", "</s>"),
        sequence("decoders", part("Replace", pattern={"String": "\u2581"}, content=" "), part("ByteFallback"),
                 part("Fuse"), part("Strip", content=" ", start=1, stop=0)))
    add("bpe_some_bytes", {**spaced, "vocab": {t: i for t, i in spaced["vocab"].items() if t != "<0xE6>"}},
        None, part("Metaspace", **{**metaspace, "prepend_scheme": "first"}), None,
        sequence("decoders", part("ByteFallback"), part("Metaspace", **metaspace)))
    add("bpe_never", spaced, part("Strip", strip_left=True, strip_right=False),
        part("Metaspace", **{**metaspace, "prepend_scheme": "never", "split": False}), None,
        part("Metaspace", **{**metaspace, "prepend_scheme": "never"}))
    add("unigram", unigram, part("NFKC"), part("Metaspace", **metaspace),
        template({"</s>": 1, "<unk>": 0}, "<unk>", "</s>"), part("Metaspace", **metaspace),
        truncation=cut("OnlySecond", 20, 1), padding=fill("BatchLongest"))
    add("unigram_old", {k: v for k, v in unigram.items() if k not in ("type", "byte_fallback")},
        part("NFKC"), sequence("pretokenizers", part("WhitespaceSplit"), part("Metaspace", **metaspace)),
        None, part("Strip", content="\u2581", start=0, stop=1))
    add("unigram_bytes", {**unigram, "byte_fallback": True, "vocab": unigram["vocab"] +
        [[b, -12.5 - i / 7] for i, b in enumerate(BYTES)]}, None, part("CharDelimiterSplit", delimiter=" "),
        None, sequence("decoders", part("ByteFallback"), part("Fuse")))
    add("word_piece", pieces, part("BertNormalizer", clean_text=True, handle_chinese_chars=True,
        strip_accents=None, lowercase=True), part("BertPreTokenizer"), part("BertProcessing", **bert),
        part("WordPiece", prefix="##", cleanup=True), truncation=cut("LongestFirst", 24, 4))
    add("word_piece_cased", {**pieces, "max_input_chars_per_word": 9}, part("BertNormalizer",
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
        sequence("pretokenizers", part("BertPreTokenizer")),
        template(pieces["vocab"], "[CLS]", "[SEP]"), part("WordPiece", prefix="##", cleanup=True),
        truncation=cut("LongestFirst", 7, 1), padding=fill("BatchLongest", "Left"))
    add("word_level", words, part("Strip", strip_left=True, strip_right=True), part("Whitespace"), None,
        None)
    add("word_level_split", {k: v for k, v in words.items() if k != "type"},
        part("Replace", pattern={"Regex": "[aeiou]{2}"}, content="_"), split("e", "MergedWithNext",
        kind="String"), None, part("Replace", pattern={"Regex": "[aeiou]"}, content=""), added=[])
    add("word_level_merged", words, part("Replace", pattern={"String": "."}, content=" . "),
        split("\\s", "MergedWithPrevious"), None, part("Replace", pattern={"String": "e"}, content="E"))
    add("word_level_contiguous", words, None, split("[a-m]", "Contiguous", True), None, part("Fuse"))
    return out


def make_sentence_pieces():
    lines = [line for path in TEXT for line in pathlib.Path(path).read_text().splitlines()] + EXTRA
    common = {"normalization_rule_name": "identity", "hard_vocab_limit": False, "num_threads": 1,
              "minloglevel": 2}
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("41 42\t61\nFF21\t41\n3000\t20\n301\t\nFB01\t66 69\n2460\t31 20 6F\n")
        models = {
            "pieces_unigram": {"model_type": "unigram", "vocab_size": 250,
                               "user_defined_symbols": ["<sep>", "ab", "\u2581\u2581"]},
            "pieces_unigram_suffix": {"model_type": "unigram", "vocab_size": 220,
                                      "treat_whitespace_as_suffix": True, "unk_surface": "<?>",
                                      "normalization_rule_tsv": str(rules)},
            "pieces_bpe": {"model_type": "bpe", "vocab_size": 500, "byte_fallback": True,
                           "remove_extra_whitespaces": False, "split_digits": True,
                           "user_defined_symbols": ["<sep>", "the"], "pad_id": 3},
            "pieces_bpe_plain": {"model_type": "bpe", "vocab_size": 250, "add_dummy_prefix": False,
                                 "allow_whitespace_only_pieces": True, "split_by_whitespace": False,
                                 "normalization_rule_tsv": str(rules)}}
        for name, options in models.items():
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model,
                                                     **{**common, **options})
            (FOLDER / f"{name}.model").write_bytes(model.getvalue())


def make_ranks():
    """Writes a byte-level BPE in tiktoken's format: a token's rank is its id, single bytes first."""
    characters = pre_tokenizers.ByteLevel.alphabet()
    model = json.loads((FOLDER / "bpe_bytes.json").read_text())["model"]
    plain = [c for c in range(256) if chr(c) in characters]
    byte_of = {chr(c): c for c in plain}
    byte_of |= {chr(256 + i): c for i, c in enumerate(c for c in range(256) if c not in plain)}
    tokens = sorted(model["vocab"], key=lambda token: (len(token) > 1, model["vocab"][token]))
    lines = [base64.b64encode(bytes(byte_of[c] for c in token)).decode() + f" {rank}\n"
             for rank, token in enumerate(tokens)]
    (FOLDER / "ranks.tiktoken").write_text("".join(lines))


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, description in make_tokenizers().items():
        text = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
        Tokenizer.from_str(text)  # checks that it loads
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    make_sentence_pieces()
    make_ranks()
    print(f"{len(list(FOLDER.iterdir())) - 1} tokenizers")


if __name__ == "__main__":
    main()
