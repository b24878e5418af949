# SPDX-License-Identifier: MIT
"""Trains the byte-level BPE tokenizer of this folder on Lathe's README files.

usage: train.py        in the root of the repository; requires the package tokenizers
"""

import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train(sorted(map(str, pathlib.Path(".").glob("*/README.md"))) + ["README.md"], trainer)
    tokenizer.save("examples/tokenizer/tokenizer.json", pretty=False)


if __name__ == "__main__":
    main()
