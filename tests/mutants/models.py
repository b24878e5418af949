# SPDX-License-Identifier: MIT
"""Small models that reach what the faults of verified.py change; sizes leave tails of vectors and panels."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


class Graph:
    def __init__(self):
        self.nodes, self.inputs, self.constants = [], [], []

    def input(self, name, *dims, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def constant(self, value, kind=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def random(self, *dims):
        return self.constant(RNG.normal(size=dims) / max(1, dims[0]) ** 0.5)

    def add(self, op, *operands, count=1, domain="", **attributes):
        results = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, operands, results, name=f"{op}_{len(self.nodes)}", domain=domain, **attributes))
        return results[0] if count == 1 else results

    def save(self, path, *results):
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, outputs, self.constants)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)


def dense(path):
    """Products: a tail of columns, an epilogue that subtracts from a bias, a split of K."""
    g = Graph()
    y = g.add("MatMul", g.input("x", "n", 100), g.random(100, 40))
    y = g.add("Relu", g.add("Sub", g.random(40), y))
    deep = g.add("MatMul", g.input("z", "n", 4096), g.random(4096, 24))
    g.save(path, y, deep)


def tiles(path):
    """A product that several instructions read, and a residual."""
    g = Graph()
    y = g.add("MatMul", g.input("x", 5, 50), g.random(50, 200))
    y = g.add("Where", g.add("Greater", y, g.constant(0.0)), y, g.add("Mul", y, g.random(200)))
    g.save(path, g.add("Add", y, g.input("r", 5, 200)))


def rows(path):
    g = Graph()
    x = g.input("x", "n", 37)
    normal = g.add("LayerNormalization", x, g.random(37), g.random(37), axis=-1)
    g.save(path, normal, g.add("Softmax", g.add("Sub", x, g.constant(40.0)), axis=-1), g.add("ReduceMean", x, axes=[-1], keepdims=0))


def image(path):
    """Convolutions: a norm and a scale to fold, depthwise, grouped, pointwise; pools in both layouts."""
    g = Graph()
    x = g.input("x", 1, 3, 20, 28)
    y = g.add("Conv", x, g.random(32, 3, 3, 3), pads=[1, 1, 1, 1])
    y = g.add("BatchNormalization", y, g.random(32), g.random(32), g.random(32), g.constant(np.abs(RNG.normal(size=32)) + 0.5))
    y = g.add("Relu", y)
    y = g.add("Conv", y, g.random(32, 1, 3, 3), group=32, pads=[1, 1, 1, 1])
    y = g.add("Conv", y, g.random(48, 16, 1, 1), g.random(48), group=2)
    y = g.add("Mul", y, g.random(1, 48, 1, 1))
    y = g.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = g.add("Conv", y, g.random(48, 48, 1, 1))
    mean = g.add("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    g.save(path, y, mean)


def winograd(path):
    """The 3x3 convolution is between two others, so that its channels are last in memory."""
    g = Graph()
    y = g.add("Conv", g.input("x", 1, 3, 56, 56), g.random(64, 3, 1, 1))
    y = g.add("Relu", g.add("Conv", y, g.random(64, 64, 3, 3), pads=[1, 1, 1, 1]))
    g.save(path, g.add("Conv", y, g.random(8, 64, 1, 1)))


def heads(path):
    """Attention as exporters write it, from three products of one value."""
    g = Graph()
    x = g.input("x", 1, "s", 48)
    mask = g.input("mask", 1, 1, "s", "s")

    def split(weights, columns):
        y = g.add("Add", g.add("MatMul", x, weights), g.random(columns))
        return g.add("Transpose", g.add("Reshape", y, g.constant([1, -1, 4, columns // 4], np.int64)), perm=[0, 2, 1, 3])

    q, k, v = (split(g.random(48, columns), columns) for columns in (32, 32, 64))
    scores = g.add("Div", g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2])), g.constant(8 ** 0.5))
    y = g.add("MatMul", g.add("Softmax", g.add("Add", scores, mask), axis=-1), v)
    g.save(path, g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 1, 3]), g.constant([1, -1, 64], np.int64)))


def formulas(path):
    """Elementwise regions, for which code is generated."""
    g = Graph()
    x, z = g.input("x", "n", 157), g.input("z", "n", 157)
    y = g.add("Add", g.add("Mul", x, g.constant(1.7034)), z)
    y = g.add("Where", g.add("Greater", x, g.constant(0.3)), y, g.add("Sub", z, x))
    g.save(path, g.add("HardSigmoid", y, alpha=0.3))


def movement(path):
    g = Graph()
    x = g.input("x", 6, 6, 6)  # a wrong order keeps the shape
    turned = g.add("Transpose", g.add("Transpose", x, perm=[1, 2, 0]), perm=[0, 2, 1])
    g.save(path, turned, g.add("Gather", x, g.constant(-2, np.int64), axis=1))


def bytes8(path):
    g = Graph()
    x = g.input("x", "n", 70)
    quantised = g.add("QuantizeLinear", x, g.constant(0.004), g.constant(0, np.int8))
    values, scale, zero = g.add("DynamicQuantizeLinear", x, count=3)
    weights = g.constant(RNG.integers(-127, 127, size=(70, 72)), np.int8)
    product = g.add("MatMulInteger", values, weights, zero)
    g.save(path, quantised, scale, g.add("Cast", product, to=TensorProto.FLOAT))


def residual8(path):
    """A quantised convolution, some of whose values saturate, and whose sum with an input is quantised again."""
    g = Graph()

    def quantised(x, scale):
        q = g.add("QuantizeLinear", x, g.constant(scale), g.constant(120, np.uint8))
        return g.add("DequantizeLinear", q, g.constant(scale), g.constant(120, np.uint8))

    x = quantised(g.input("x", 1, 24, 9, 9), 0.02)
    codes = g.constant(RNG.integers(-127, 127, size=(24, 24, 1, 1)), np.int8)
    weights = g.add("DequantizeLinear", codes, g.constant(0.002), g.constant(0, np.int8))
    y = quantised(g.add("Conv", x, weights), 0.006)
    g.save(path, quantised(g.add("Add", x, y), 0.025))


def bits4(path):
    g = Graph()
    codes = g.constant(RNG.integers(0, 255, size=(48, 2, 16)), np.uint8)
    scales = g.constant(RNG.uniform(0.01, 0.02, size=96))
    g.save(path, g.add("MatMulNBits", g.input("x", "n", 64), codes, scales, domain="com.microsoft", K=64, N=48, bits=4, block_size=32))


MODELS = (dense, tiles, rows, image, winograd, heads, formulas, movement, bytes8, residual8, bits4)


def save_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        make(folder / f"{make.__name__}.onnx")
