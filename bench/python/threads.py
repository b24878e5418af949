# SPDX-License-Identifier: MIT
"""Compares the runs per second of 8 Python threads on one session of one thread with those of one
process per core, each with a session of its own.

usage: threads.py      needs the packages lathe, onnx; two cores

Both alternate in blocks of a second; the median of the ratios counts.
"""

import multiprocessing
import os
import statistics
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lathe.onnxruntime

BAR, ROUNDS, SECONDS, THREADS = 0.95, 9, 1.0, 8


def matrices(width, layers):
    """Layers of 16 rows: a run of `layers * 32 * width**2` operations."""
    random = np.random.default_rng(width)
    weights = [numpy_helper.from_array(
        (random.standard_normal((width, width)) / width).astype(np.float32), f"w{i}")
        for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(layers)]
    graph = helper.make_graph(
        nodes, "matrices", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [16, width])],
        [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, [16, width])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(), {"h0": np.ones((16, width), np.float32)}


def open_session(model):
    options = lathe.onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return lathe.onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def count_runs(session, feed, stop_at):
    runs = 0
    while time.perf_counter() < stop_at:
        session.run(None, feed)
        runs += 1
    return runs


def serve(pipe, width, layers):
    """A process: runs for a second whenever the parent sends the time at which to stop."""
    model, feed = matrices(width, layers)
    session = open_session(model)
    session.run(None, feed)
    pipe.send(0)
    while (seconds := pipe.recv()) is not None:
        pipe.send(count_runs(session, feed, time.perf_counter() + seconds))


def count_in_threads(session, feed):
    counts = [0] * THREADS
    stop_at = time.perf_counter() + SECONDS

    def work(index):
        counts[index] = count_runs(session, feed, stop_at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def measure(width, layers):
    """Runs per second of the threads and of the processes, and the median ratio."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(min(2, os.cpu_count()))]
    processes = [context.Process(target=serve, args=(there, width, layers)) for _, there in pipes]
    for process in processes:
        process.start()
    model, feed = matrices(width, layers)
    session = open_session(model)
    session.run(None, feed)
    for here, _ in pipes:
        here.recv()
    rows = []
    for _ in range(ROUNDS):
        for here, _ in pipes:
            here.send(SECONDS)
        separate = sum(here.recv() for here, _ in pipes)
        rows.append((count_in_threads(session, feed), separate))
    for here, _ in pipes:
        here.send(None)
    for process in processes:
        process.join()
    ours, theirs = (max(row[i] for row in rows) / SECONDS for i in (0, 1))
    return ours, theirs, statistics.median(a / b for a, b in rows)


def main():
    for width, layers in ((256, 4), (512, 16)):
        ours, theirs, ratio = measure(width, layers)
        print(f"{THREADS} threads, {layers} matrices of {width}: {ours:.0f} runs per second, "
              f"2 processes {theirs:.0f}  ratio {ratio:.2f} (bar {BAR})")


if __name__ == "__main__":
    main()
