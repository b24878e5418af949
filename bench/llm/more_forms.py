# SPDX-License-Identifier: MIT
"""Writes two more forms for formats.py: the float32 Hugging Face folder of a model as bfloat16, and a GGUF file with the
shape of Llama-3.2-1B, random values that llama.cpp quantises as Q4_K_M, and the model's vocabulary.

usage: more_forms.py DIR OUT QUANTIZE

DIR contains hf and gguf/*.gguf, QUANTIZE is llama-quantize. Writes OUT/bf16/hf-bf16 and OUT/llama-1b/gguf/q4_k_m.gguf;
what exists is kept.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys

import gguf
import numpy as np

LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 16, 2048, 8192, 32, 8, 128256


def round_to_bf16(values):
    """Nearest, ties to even; no NaN."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_bf16(source, target):
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, target)
    config = json.loads((target / "config.json").read_text())
    config.pop("torch_dtype", None)
    (target / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}, indent=1))
    data = np.memmap(source / "model.safetensors", np.uint8, "r")
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    header = json.loads(data[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    made, at = {}, 0
    for name, tensor in header.items():
        if tensor["dtype"] != "F32":
            sys.exit(f"error: tensor '{name}' is {tensor['dtype']}, expected F32")
        count = (tensor["data_offsets"][1] - tensor["data_offsets"][0]) // 4
        made[name] = {"dtype": "BF16", "shape": tensor["shape"], "data_offsets": [at, at + 2 * count]}
        at += 2 * count
    text = json.dumps(made).encode()
    text += b" " * (-len(text) % 8)
    with open(target / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in header.values():
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            file.write(round_to_bf16(np.frombuffer(data[begin:end].tobytes(), np.float32)).tobytes())


def write_llama(source, path):
    """All in f16: 2.5 GB."""
    fields = gguf.GGUFReader(source).fields
    tokens = [bytes(fields["tokenizer.ggml.tokens"].parts[i]) for i in fields["tokenizer.ggml.tokens"].data]
    more = VOCABULARY - len(tokens)
    path.parent.mkdir(parents=True)
    file = gguf.GGUFWriter(path, "llama")
    file.add_block_count(LAYERS)
    file.add_context_length(8192)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_rope_freq_base(500000.0)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(VOCABULARY)
    file.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(fields["tokenizer.ggml.pre"].contents())
    file.add_token_list(tokens + [f"<more_{i}>".encode() for i in range(more)])
    file.add_token_types(fields["tokenizer.ggml.token_type"].contents() + [gguf.TokenType.USER_DEFINED] * more)
    file.add_token_merges(fields["tokenizer.ggml.merges"].contents())
    file.add_bos_token_id(fields["tokenizer.ggml.bos_token_id"].contents())
    file.add_eos_token_id(fields["tokenizer.ggml.eos_token_id"].contents())
    file.add_chat_template(fields["tokenizer.chat_template"].contents())
    random = np.random.default_rng(0)

    def add(name, rows, columns):
        values = random.standard_normal((rows, columns), np.float32)
        file.add_tensor(f"{name}.weight", (0.02 * values).astype(np.float16))

    add("token_embd", VOCABULARY, WIDTH)
    file.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            file.add_tensor(f"blk.{i}.{norm}.weight", np.ones(WIDTH, np.float32))
        for name, rows, columns in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH // HEADS * KV_HEADS, WIDTH),
                                    ("attn_v", WIDTH // HEADS * KV_HEADS, WIDTH), ("attn_output", WIDTH, WIDTH),
                                    ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH), ("ffn_down", WIDTH, INNER)):
            add(f"blk.{i}.{name}", rows, columns)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def write_quantised(source, path, quantize):
    whole = path.with_name("f16.gguf")
    write_llama(source, whole)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([quantize, whole, path, "Q4_K_M", "2"], check=True, **quiet)
    whole.unlink()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, out, quantize = (pathlib.Path(path) for path in sys.argv[1:])
    made = {out / "bf16": lambda part: write_bf16(source / "hf", part / "hf-bf16"),
            out / "llama-1b": lambda part: write_quantised(next((source / "gguf").glob("*.gguf")),
                                                           part / "gguf/q4_k_m.gguf", quantize)}
    for folder, write in made.items():
        if folder.exists():
            continue
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        write(part)
        part.rename(folder)


if __name__ == "__main__":
    main()
