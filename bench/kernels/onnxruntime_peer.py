# SPDX-License-Identifier: MIT
"""The ONNX Runtime peer; usage: onnxruntime_peer.py THREADS.

Implements the protocol of onednn/worker.cpp. `uniform` generates the operands as in inputs.h.
Operands of matmul_n_bits: activations 0, packed weights 1, scales 2; lstm and gru: recurrent.cpp.
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


def real(operand, *dims):
    """Values of Range::real."""
    whole = (uniform(operand, int(np.prod(dims))) * 256).astype(np.int64) - 128
    return whole.astype(np.float32).reshape(dims) / 128


def aligned(values):
    """A 64-byte aligned copy, as Lathe's tensors are."""
    memory = np.zeros(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start:start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def model_of(node, inputs, outputs, constants):
    def infos(values):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
                for name, dims in values.items()]
    graph = helper.make_graph([node], "case", infos(inputs), infos(outputs),
                              [numpy_helper.from_array(value, name)
                               for name, value in constants.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])


def matmul_n_bits(p):
    m, n, k, bits, block = (p[name] for name in ("m", "n", "k", "bits", "block"))
    blocks = -(-k // block)
    codes = (uniform(1, n * blocks * block * bits // 8) * 256).astype(np.uint8)
    scales = ((uniform(2, n * blocks) + 0.5) / 64).astype(np.float32)
    node = helper.make_node("MatMulNBits", ["a", "b", "scales"], ["y"], domain="com.microsoft",
                            K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
    constants = {"b": codes.reshape(n, blocks, block * bits // 8), "scales": scales}
    return model_of(node, {"a": [m, k]}, {"y": [m, n]}, constants), real(0, m, k), [m, n]


def recurrent(kind, p):
    steps, batch, size, hidden = (p[name] for name in ("steps", "batch", "input", "hidden"))
    gates = 4 if kind == "lstm" else 3
    constants = {"w": real(1, 1, gates * hidden, size) / np.float32(np.sqrt(np.float32(size))),
                 "r": real(2, 1, gates * hidden, hidden) / np.float32(np.sqrt(np.float32(hidden))),
                 "b": real(3, 1, 2 * gates * hidden) / np.float32(2)}
    node = helper.make_node(kind.upper(), ["x", "w", "r", "b"], ["y"], hidden_size=hidden)
    y = [steps, 1, batch, hidden]
    model = model_of(node, {"x": [steps, batch, size]}, {"y": y}, constants)
    return model, real(0, steps, batch, size), y


class Prepared:
    def __init__(self, kind, p, threads):
        model, first, y_dims = matmul_n_bits(p) if kind == "matmul_n_bits" else recurrent(kind, p)
        name = model.graph.input[0].name
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        text = model.SerializeToString()
        self.bindings = []
        for _ in range(p.get("rotations", 1)):
            session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
            binding = session.io_binding()
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(aligned(first)))
            self.y = ort.OrtValue.ortvalue_from_numpy(aligned(np.zeros(y_dims, np.float32)))
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
        return Prepared(words[0], p, threads), "ok " + words[0]
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
        except Exception as error:  # reported to the parent process
            prepared, text = None, "no: " + str(error).replace("\n", " ")
        print(text, flush=True)


if __name__ == "__main__":
    main()
