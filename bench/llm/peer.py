# SPDX-License-Identifier: MIT
"""The protocol of worker.cpp for Python peers: one request per line on standard input, one JSON answer per line."""

import json
import sys
import time


def timed(run):
    wall, work = time.perf_counter(), time.process_time()
    tokens = run()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - work, "tokens": tokens}


def serve(make, version):
    """make() loads the model and returns an object with answer(line)."""
    made = []

    def load():
        made.append(make())
        return []

    print(json.dumps({**timed(load), "version": version}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        print(json.dumps(made[0].answer(line)), flush=True)
