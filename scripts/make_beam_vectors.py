# SPDX-License-Identifier: MIT
"""Writes tests/llm/beam_vectors.json: results of Transformers' beam search over scripted logits.

usage: make_beam_vectors.py          in an environment with torch and transformers
"""

import json
import pathlib

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

VOCABULARY, BATCH, END = 16, 3, 2


def scripted(table, item, length, last, before):
    """As tests/llm/search_probe.cpp."""
    logits = []
    for i in range(VOCABULARY):
        x = table * 7919 + item * 104729 + length * 1299709 + last * 15485863 + before * 32452843 + i * 49979687
        logits.append((x * x % 2147483647 + x) * 48271 % 2147483647 % 1048576 / 131072 - 4)
    logits[END] += 1
    return logits


class Scripted(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.table = self.beams = 0

    def forward(self, input_ids, **_):
        rows = [scripted(self.table, row // self.beams, len(ids), ids[-1], ids[-2])
                for row, ids in enumerate(input_ids.tolist())]
        return CausalLMOutput(logits=torch.tensor(rows, dtype=torch.float32)[:, None, :])


def main():
    model = Scripted(PretrainedConfig(vocab_size=VOCABULARY))
    cases = []
    for table in range(200):
        options = {"num_beams": 2 + table % 3, "length_penalty": (0.5, 1.0, 2.0)[table // 3 % 3],
                   "early_stopping": (True, False, "never")[table // 9 % 3], "max_length": 6 + table % 7}
        options["num_return_sequences"] = 1 + table // 5 % min(4, options["num_beams"])
        model.table, model.beams = table, options["num_beams"]
        prompt = torch.tensor([[3, 4 + item] for item in range(BATCH)])
        with torch.no_grad():
            out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, eos_token_id=END,
                                 pad_token_id=0, use_cache=False, output_scores=True, return_dict_in_generate=True, **options)
        results = []
        for row, ids in enumerate(out.sequences.tolist()):
            new = ids[2:]
            new = new[:new.index(END) + 1] if END in new else new
            results.append({"tokens": new, "score": float(out.sequences_scores[row])})
        count = options["num_return_sequences"]
        cases.append({"table": table, "options": options, "results": [results[i * count:(i + 1) * count] for i in range(BATCH)]})
    lines = ",\n".join(json.dumps(case) for case in cases)
    path = pathlib.Path(__file__).parent.parent / "tests/llm/beam_vectors.json"
    path.write_text(f'{{"vocabulary": {VOCABULARY}, "batch": {BATCH}, "cases": [\n{lines}\n]}}\n')


main()
