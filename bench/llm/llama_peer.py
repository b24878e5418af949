# SPDX-License-Identifier: MIT
"""Worker process for llama.cpp. Usage: llama_peer.py FILE.gguf THREADS; worker.cpp describes the protocol.
Requires the package llama-cpp-python; without it compare.py skips llama.cpp."""

import sys

import llama_cpp

from peer import serve, timed


class Peer:
    def __init__(self, path, threads):
        self.model = llama_cpp.Llama(path, n_ctx=2048, n_batch=512, n_threads=threads, n_threads_batch=threads,
                                     verbose=False)
        self.token = 0

    def run(self, tokens):
        self.model.eval(tokens)
        self.token = self.model.sample(temp=0)
        return [self.token]

    def answer(self, line):
        command, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if command == "prompt":
            self.model.reset()
            return timed(lambda: self.run(numbers))
        return timed(lambda: [self.run([self.token])[0] for _ in range(numbers[0])])


serve(lambda: Peer(sys.argv[1], int(sys.argv[2])), llama_cpp.__version__)
