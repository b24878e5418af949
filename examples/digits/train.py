# SPDX-License-Identifier: MIT
"""Trains the digit classifier of this folder and writes all its files.

usage: train.py          requires the packages of requirements.txt; takes about ten seconds

Data: scikit-learn's digits, 1,797 scanned 8x8 digits with values 0..16. A fifth is held out.
Net: conv 16, max-pool, conv 48, fully connected; trained with Adam on shifted copies, in
plain numpy.
"""

import os
import pathlib
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # reproducible results

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SCALE = 8  # a sample image has 8x8 pixels for each pixel of the data
EPOCHS, BATCH, RATE = 60, 32, 3e-3
ACCURACY = 0.97


def patches(x):
    """The 3x3 neighbourhoods of x[n,c,h,w] under padding 1, as [n,h,w,c*9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(*x.shape[:1], *x.shape[2:], -1)


class Conv:
    """Convolution with a 3x3 kernel and padding 1, then max(x, 0)."""

    def __init__(self, rng, channels_in, channels_out):
        scale = np.sqrt(2 / (channels_in * 9))
        self.weight = rng.normal(0, scale, (channels_out, channels_in, 3, 3)).astype(np.float32)
        self.bias = np.zeros(channels_out, np.float32)

    def forward(self, x):
        self.columns = patches(x)
        y = self.columns @ self.weight.reshape(len(self.weight), -1).T + self.bias
        self.positive = y > 0
        return (y * self.positive).transpose(0, 3, 1, 2)

    def backward(self, dy):
        dy = dy.transpose(0, 2, 3, 1) * self.positive
        flat = dy.reshape(-1, dy.shape[-1])
        dw = (flat.T @ self.columns.reshape(len(flat), -1)).reshape(self.weight.shape)
        # The gradient of a convolution is the convolution with the mirrored kernel.
        mirrored = self.weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        dx = patches(dy.transpose(0, 3, 1, 2)) @ mirrored.reshape(len(mirrored), -1).T
        return dx.transpose(0, 3, 1, 2), [dw, flat.sum(0)]

    def parameters(self):
        return [self.weight, self.bias]


class Pool:
    """Maximum of each 2x2 square."""

    def forward(self, x):
        n, c, h, w = x.shape
        squares = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = squares.max(axis=(3, 5))
        self.winners = squares == y[:, :, :, None, :, None]
        self.winners = self.winners / self.winners.sum(axis=(3, 5), keepdims=True)
        return y

    def backward(self, dy):
        dx = self.winners * dy[:, :, :, None, :, None]
        n, c, h, _, w, _ = dx.shape
        return dx.reshape(n, c, 2 * h, 2 * w).astype(np.float32), []

    def parameters(self):
        return []


class Linear:
    """Fully connected layer over the flattened input."""

    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(1 / inputs), (outputs, inputs)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.weight.T + self.bias

    def backward(self, dy):
        return (dy @ self.weight).reshape(self.shape), [dy.T @ self.x, dy.sum(0)]

    def parameters(self):
        return [self.weight, self.bias]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return softmax(x)


def shifted(images, rng):
    """Shifts each image with probability 1/2 by up to one pixel in each direction."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, images.shape[2:], axis=(2, 3))
    down, right = np.where(rng.random(len(images)) < 0.5, 1, rng.integers(0, 3, (2, len(images))))
    return windows[np.arange(len(images)), :, down, right]


def train(layers, images, labels, rng):
    parameters = [p for layer in layers for p in layer.parameters()]
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * (1 - epoch / EPOCHS)
        loss = 0.0
        order = rng.permutation(len(images))
        for begin in range(0, len(order), BATCH):
            rows = order[begin:begin + BATCH]
            y = forward(layers, shifted(images[rows], rng))
            loss -= np.log(y[np.arange(len(rows)), labels[rows]] + 1e-9).sum()
            dy = (y - np.eye(10, dtype=np.float32)[labels[rows]]) / len(rows)
            gradients = []
            for layer in reversed(layers):
                dy, found = layer.backward(dy)
                gradients = found + gradients
            step += 1
            for p, g, m, v in zip(parameters, gradients, first, second):  # Adam
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        if epoch % 20 == 19:
            print(f"epoch {epoch + 1}: loss {loss / len(images):.4f}")


def model_of(layers):
    conv1, _, conv2, linear = layers
    constants = {"conv1.weight": conv1.weight, "conv1.bias": conv1.bias,
                 "conv2.weight": conv2.weight, "conv2.bias": conv2.bias,
                 "linear.weight": linear.weight, "linear.bias": linear.bias}
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("Flatten", ["r2"], ["f"], "flatten"),
        node("Gemm", ["f", "linear.weight", "linear.bias"], ["logits"], "linear", transB=1),
        node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, producer_name="lathe examples/digits/train.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def write_samples(images, labels):
    """A PNG of the first held-out image of each digit; returns the pixels of the PNGs."""
    seen = []
    for digit, name in enumerate(NAMES):
        image = images[np.flatnonzero(labels == digit)[0], 0]
        pixels = np.round(image * 255).astype(np.uint8)
        Image.fromarray(pixels.repeat(SCALE, 0).repeat(SCALE, 1)).save(HERE / f"{name}.png")
        seen.append(pixels[None] / np.float32(255))
    return np.stack(seen).astype(np.float32)


def write_expected(model, samples):
    """Outputs by ONNX Runtime, as an archive and as test data of the model."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    outputs = session.run(None, {"image": samples})[0]
    np.savez(HERE / "expected.npz", image=samples, probabilities=outputs)
    folder = HERE / "test_data_set_0"
    folder.mkdir(exist_ok=True)
    for name, value, file in (("image", samples, "input_0.pb"),
                              ("probabilities", outputs, "output_0.pb")):
        (folder / file).write_bytes(numpy_helper.from_array(value, name).SerializeToString())
    return outputs


def main():
    rng = np.random.default_rng(1)
    data = load_digits()
    images = (data.images[:, None] / 16).astype(np.float32)
    order = rng.permutation(len(images))
    held_out, rest = order[:360], order[360:]
    layers = [Conv(rng, 1, 16), Pool(), Conv(rng, 16, 48), Linear(rng, 48 * 4 * 4, 10)]
    train(layers, images[rest], data.target[rest], rng)

    guesses = forward(layers, images[held_out]).argmax(axis=1)
    accuracy = (guesses == data.target[held_out]).mean()
    print(f"accuracy on {len(held_out)} held-out digits: {accuracy:.2%}")
    if accuracy < ACCURACY:
        sys.exit(f"error: accuracy {accuracy:.2%} is below {ACCURACY:.0%}: nothing was written")

    model = model_of(layers)
    onnx.save(model, HERE / "digits.onnx")
    (HERE / "labels.txt").write_text("\n".join(NAMES) + "\n")
    outputs = write_expected(model, write_samples(images[held_out], data.target[held_out]))
    right = (outputs.argmax(axis=1) == np.arange(10)).sum()
    print(f"{right} of the 10 samples are named right, with probability {outputs.max(axis=1).min():.2f} "
          "or more")


if __name__ == "__main__":
    main()
