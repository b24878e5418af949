# SPDX-License-Identifier: MIT
"""A process of its own for llama.cpp: usage: llama_peer.py FILE.gguf THREADS; the protocol is that of worker.cpp.
Needs the package llama-cpp-python, which has to be compiled; the comparison goes on without it."""

import json
import sys
import time

import llama_cpp


def timed(run):
    wall, work = time.perf_counter(), time.process_time()
    tokens = run()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - work, "tokens": tokens}


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


def main():
    peer = None

    def load():
        nonlocal peer
        peer = Peer(sys.argv[1], int(sys.argv[2]))
        return []

    print(json.dumps({**timed(load), "version": llama_cpp.__version__}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        print(json.dumps(peer.answer(line)), flush=True)


main()
