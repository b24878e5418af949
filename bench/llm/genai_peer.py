# SPDX-License-Identifier: MIT
"""Worker process of ONNX Runtime GenAI. Usage: genai_peer.py FOLDER THREADS; protocol as in worker.cpp."""

import json
import sys

import numpy as np
import onnxruntime_genai as genai

from peer import serve, timed


class Peer:
    def __init__(self, folder, threads):
        config = genai.Config(folder)
        options = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
        config.overlay(json.dumps(options))
        self.model = genai.Model(config)
        self.generator = None

    def next(self, count):
        tokens = []
        for _ in range(count):
            self.generator.generate_next_token()
            tokens.append(int(self.generator.get_next_tokens()[0]))
        return tokens

    def prompt(self, tokens):
        params = genai.GeneratorParams(self.model)
        params.set_search_options(max_length=len(tokens) + 1024, do_sample=False)
        self.generator = genai.Generator(self.model, params)
        self.generator.append_tokens(np.array(tokens, np.int32))
        return self.next(1)

    def answer(self, line):
        command, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        return timed(lambda: self.prompt(numbers) if command == "prompt" else self.next(numbers[0]))


serve(lambda: Peer(sys.argv[1], int(sys.argv[2])), genai.__version__)
