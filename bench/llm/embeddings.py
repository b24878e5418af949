# SPDX-License-Identifier: MIT
"""usage: embeddings.py LATHE MODEL_DIR [--threads 2] [--rounds 3] [--texts 256]

Texts of 6 to 256 tokens by `lathe embed` (f32, bf16) and by ONNX Runtime in batches of 32 sorted by length, in turns.
MODEL_DIR has hf/, a folder of Sentence Transformers whose tokens are words, and onnx/model.onnx with input_ids,
attention_mask and token_type_ids. Needs numpy, onnxruntime and tokenizers. Times of Lathe are those of a process less
those of one with one short text; those of ONNX Runtime exclude the tokenizer and the load. Prints texts per second,
ratios, and the least cosine between both."""

import argparse
import pathlib
import random
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime
import tokenizers

BATCH = 32


def texts_of(tokenizer, count):
    """Words of one token each; lengths uniform, with both special tokens."""
    draw = random.Random(1)
    words = sorted(w for w in tokenizer.get_vocab() if w.isalpha() and w.isascii() and len(w) > 2)
    return [" ".join(draw.choices(words, k=draw.randint(6, 256) - 2)) for _ in range(count)]


def pool(states, mask):
    rows = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Peer:
    def __init__(self, folder, tokenizer, texts, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx", options)
        ids = [e.ids for e in tokenizer.encode_batch(texts)]
        self.order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        self.batches = []
        for begin in range(0, len(ids), BATCH):
            part = [ids[i] for i in self.order[begin:begin + BATCH]]
            inputs = np.zeros((3, len(part), max(map(len, part))), np.int64)
            for row, own in enumerate(part):
                inputs[0, row, :len(own)] = own
                inputs[1, row, :len(own)] = 1
            self.batches.append(dict(zip(("input_ids", "attention_mask", "token_type_ids"), inputs)))

    def run(self):
        begin = time.perf_counter()
        rows = [pool(self.session.run(["last_hidden_state"], inputs)[0], inputs["attention_mask"])
                for inputs in self.batches]
        seconds = time.perf_counter() - begin
        return seconds, np.concatenate(rows)[np.argsort(self.order)]


def lathe(program, folder, texts, threads, compute):
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "rows.npy"
        begin = time.perf_counter()
        subprocess.run([program, "embed", folder / "hf", "--threads", str(threads), "--compute", compute, "-o", out],
                       input="".join(t + "\n" for t in texts), text=True, check=True)
        return time.perf_counter() - begin, np.load(out)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0][7:])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=256)
    own = parser.parse_args()
    tokenizer = tokenizers.Tokenizer.from_file(str(own.folder / "hf" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = texts_of(tokenizer, own.texts)
    peer = Peer(own.folder, tokenizer, texts, own.threads)
    expected = peer.run()[1]
    ratios = {"f32": [], "bf16": []}
    for _ in range(own.rounds):
        other = peer.run()[0]
        for compute, of in ratios.items():
            start = lathe(own.program, own.folder, texts[:1], own.threads, compute)[0]
            seconds, rows = lathe(own.program, own.folder, texts, own.threads, compute)
            seconds -= start
            cosine = (rows * expected).sum(1).min()
            of.append(other / seconds)
            print(f"{compute}: {len(texts) / seconds:.0f} texts/s, ONNX Runtime f32 {len(texts) / other:.0f}, "
                  f"ratio {other / seconds:.2f}, least cosine {cosine:.6f}", flush=True)
    for compute, of in ratios.items():
        print(f"{compute}: median ratio {np.median(of):.2f}")


if __name__ == "__main__":
    main()
