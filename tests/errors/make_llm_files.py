# SPDX-License-Identifier: MIT
"""Makes wrong tokenizers, chat templates and requests.

usage: make_llm_files.py FOLDER
"""

import json
import pathlib
import struct
import sys

import make_checkpoints

POINTER = b"version https://git-lfs" b".github.com/spec/v1\noid sha256:00\nsize 540000000\n"
VOCABULARY = {"[UNK]": 0, "a": 1, "b": 2, "c": 3}


def tokenizer(**parts):
    """A tokenizer.json of whole words; `vocab` replaces the vocabulary."""
    model = {"type": "WordLevel", "vocab": parts.pop("vocab", VOCABULARY), "unk_token": "[UNK]"}
    return json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "Whitespace"}, **parts})


def replace(text, content):
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def added(token, **more):
    return {"id": 4, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": True, "special": False, **more}


def tokenizers():
    doubled = {"type": "Sequence", "normalizers": [replace("a", "aa")] * 30}
    return {
        "good.json": tokenizer(),
        "cut.json": tokenizer()[:80],
        "comma.json": tokenizer().replace('"a": 1', '\n "a": 1,,'),
        "deep.json": "{\"model\":" * 100,
        "number.json": tokenizer().replace('"c": 3', '"c": 1e999'),
        "list.json": "  {}",
        "version.json": tokenizer(version="2.0"),
        "negative_id.json": tokenizer(vocab={**VOCABULARY, "d": -1}),
        "large_id.json": tokenizer(vocab={**VOCABULARY, "d": 1 << 31}),
        "fraction_id.json": tokenizer(vocab={**VOCABULARY, "d": 1.5}),
        "negative_added_id.json": tokenizer(added_tokens=[added("<x>", id=-1)]),
        "large_added_id.json": tokenizer(added_tokens=[added("<x>", id=1 << 31)]),
        "large_pad_id.json": tokenizer(padding={
            "strategy": "BatchLongest", "direction": "Right", "pad_id": 1 << 31, "pad_type_id": 0,
            "pad_token": "[PAD]", "pad_to_multiple_of": None}),
        "normalizer.json": tokenizer(normalizer={"type": "Upper\x1bcase"}),
        "pattern.json": tokenizer(pre_tokenizer={
            "type": "Split", "pattern": {"Regex": "(a|b"}, "behavior": "Isolated", "invert": False}),
        "doubled.json": tokenizer(normalizer=doubled),
        "doubled_bytes.json": tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}] * 30}),
        "doubled_added.json": tokenizer(normalizer=doubled, added_tokens=[added("a")]),
        "doubled_decoder.json": tokenizer(decoder={
            "type": "Sequence", "decoders": [replace("a", "aa")] * 30}),
        "ranks.tiktoken": "YQ== 0\nYg== 2147483648\n",
        "line.tiktoken": "YQ== 0\nYg== two\n",
        "cut.model": b"\x0a\x0a\x0a\x03<s>\x15\x00\x00\x00\x00\x0a\x7f",
        "empty.model": b"\x12\x00",
        "pointer.model": POINTER,
        "cut.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + b"\x10",
        "text.txt": "a b",
        "invalid.txt": b"a \xff b",
        "ids.txt": "[1, 2, 99]",
        "id_lines.txt": "[1]\n[3, 4]\n",
        "negative_ids.txt": "[-1]",
        "many_a.txt": "[1, 1, 1]",
    }


MERGES = "#version: 0.2\na b\n"


def tokenizer_folders():
    """Files by folder."""
    pair = {"vocab.json": json.dumps({"a": 0, "b": 1, "ab": 2}), "merges.txt": MERGES}
    return {
        "no_merges": {"vocab.json": pair["vocab.json"]},
        "bad_merges": {**pair, "merges.txt": MERGES + "a b c\n"},
        "unknown_merge": {**pair, "merges.txt": MERGES + "a c\n"},
        "bad_vocab": {**pair, "vocab.json": '{"a": 0,\n "b"}'},
        "pointer_merges": {**pair, "merges.txt": POINTER},
        "pointer_tokenizer": {"tokenizer.json": POINTER},
        "bad_config": {"tokenizer.json": tokenizer(), "tokenizer_config.json": '{"bos_token": }'},
        "added_id": {"tokenizer.json": tokenizer(), "tokenizer_config.json": json.dumps(
            {"added_tokens_decoder": {"-1": {"content": "<x>", "special": True}}})},
    }


def templates():
    return {
        "urlize.jinja": "line one\n{{ messages[0].content|urlize }}\n",
        "map_urlize.jinja": "{{ ['a']|map('urlize')|list }}",
        "no_filter.jinja": "{{ 1|no_such_filter }}",
        "open.jinja": "{% for m in messages %}\n{{ m.content }}",
        "steps.jinja": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "output.jinja": "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
        "depth.jinja": "\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "values.jinja": "{% set n = namespace(x='ab') %}\n{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "large.jinja": "x" * ((1 << 19) + 1),
        "invalid.jinja": b"{{ '\xff' }}",
        "undefined.jinja": "a\nb\n{{ nothing.member }}",
        "raise.jinja": "\n{{ raise_exception('Roles must alternate\x1b[31m') }}",
        "plain.jinja": "{% for m in messages %}{{ m.content }}{% endfor %}",
        "pointer.jinja": POINTER,
        "chat.json": '[{"role": "user", "content": "hello"}]',
        "cut_chat.json": '[{"role": "user",\n "content": "hel',
        "number_chat.json": '[{"role": "user", "content": 1e999}]',
        "no_messages.json": "[]",
        "text_message.json": '["hello"]',
    }


def template_folders():
    return {
        "config_template": {"tokenizer_config.json": json.dumps({"chat_template": "\n{{ 1|urlize }}"})},
        "named_template": {"tokenizer_config.json": json.dumps({"chat_template": [
            {"name": "default", "template": "a\nb\n{{ x.y }}"}]})},
        "number_template": {"tokenizer_config.json": json.dumps({"chat_template": 5})},
        "bad_template_config": {"tokenizer_config.json": '{"chat_template": '},
    }


def make(root):
    def write(folder, files):
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    for kind, files, folders in (("tokenizers", tokenizers(), tokenizer_folders()),
                                 ("checkpoints", make_checkpoints.files(), make_checkpoints.folders()),
                                 ("templates", templates(), template_folders())):
        write(root / kind, files)
        for name, content in folders.items():
            write(root / kind / name, content)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
