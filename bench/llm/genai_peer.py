# SPDX-License-Identifier: MIT
"""A process of its own for ONNX Runtime GenAI: usage: genai_peer.py FOLDER THREADS; the protocol is that of
worker.cpp."""

import json
import sys
import time

import numpy as np
import onnxruntime_genai as genai


def timed(run):
    wall, work = time.perf_counter(), time.process_time()
    tokens = run()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - work, "tokens": tokens}


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


def main():
    peer = None

    def load():
        nonlocal peer
        peer = Peer(sys.argv[1], int(sys.argv[2]))
        return []

    print(json.dumps({**timed(load), "version": genai.__version__}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        print(json.dumps(peer.answer(line)), flush=True)


main()
