# SPDX-License-Identifier: MIT
"""A process of its own for ONNX Runtime's MatMulNBits: usage: matmul_n_bits_peer.py THREADS.

The protocol is that of onednn/worker.cpp. Element i of operand number o comes from `uniform`, as in
inputs.h: activations (0), bytes of weights (1), scales (2).
"""
import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def uniform(operand, count):
    with np.errstate(over="ignore"):
        x = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ (
            np.uint64(operand + 1) * np.uint64(0xD1B54A32D192ED03))
        for _ in range(2):
            x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return ((x ^ (x >> np.uint64(32))) >> np.uint64(40)).astype(np.float64) * 2.0**-24


class Prepared:
    def __init__(self, p, threads):
        m, n, k, bits, block = (p[name] for name in ("m", "n", "k", "bits", "block"))
        blocks = -(-k // block)
        codes = (uniform(1, n * blocks * block * bits // 8) * 256).astype(np.uint8)
        scales = ((uniform(2, n * blocks) + 0.5) / 64).astype(np.float32)
        node = helper.make_node("MatMulNBits", ["a", "b", "scales"], ["y"], domain="com.microsoft",
                                K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
        model = helper.make_model(
            helper.make_graph(
                [node], "product",
                [helper.make_tensor_value_info("a", TensorProto.FLOAT, [m, k])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [m, n])],
                [numpy_helper.from_array(codes.reshape(n, blocks, block * bits // 8), "b"),
                 numpy_helper.from_array(scales, "scales")]),
            opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
            ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        text = model.SerializeToString()
        a = ((uniform(0, m * k) * 256).astype(np.int64) - 128).astype(np.float32).reshape(m, k) / 128
        self.bindings = []
        for _ in range(p.get("rotations", 1)):
            session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
            binding = session.io_binding()
            self.y = np.empty((m, n), np.float32)
            binding.bind_ortvalue_input("a", ort.OrtValue.ortvalue_from_numpy(a))
            self.y = ort.OrtValue.ortvalue_from_numpy(np.zeros((m, n), np.float32))
            binding.bind_ortvalue_output("y", self.y)
            self.bindings.append((session, binding))

    def run(self, count):
        begin = time.perf_counter_ns()
        for i in range(count):
            session, binding = self.bindings[i % len(self.bindings)]
            session.run_with_iobinding(binding)
        return time.perf_counter_ns() - begin

    def result(self, path):
        self.run(len(self.bindings))
        self.y.numpy().tofile(path)


def answer(prepared, threads, line):
    command, _, rest = line.partition(" ")
    if command == "prepare":
        words = rest.split()
        p = {name: int(value) for name, value in (word.split("=") for word in words[3:])}
        return Prepared(p, threads), "ok MatMulNBits"
    if command == "run":
        return prepared, str(prepared.run(int(rest)))
    prepared.result(rest)
    return prepared, "ok"


def main():
    threads = int(sys.argv[1])
    print(f"ONNX Runtime {ort.__version__}", flush=True)
    prepared = None
    for line in sys.stdin:
        line = line.strip()
        if line == "quit":
            return
        try:
            prepared, text = answer(prepared, threads, line)
        except Exception as error:  # reported to whoever asks
            prepared, text = None, "no: " + str(error).replace("\n", " ")
        print(text, flush=True)


if __name__ == "__main__":
    main()
