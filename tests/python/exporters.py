# SPDX-License-Identifier: MIT
"""Models that PyTorch's exporters and ONNX Runtime's tools write, beside their origins. `make
test-python-peers` runs it: PyTorch is not among the packages of the tests."""

import os
import tempfile
import warnings

import package

package.find()

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.transformers.optimizer import optimize_model

import lathe.onnxruntime

FOLDER = tempfile.mkdtemp()


class Network(torch.nn.Module):
    """Convolution, ReLU, max-pooling and a linear layer."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8 * 8 * 8, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.convolution(x)), 2)
        return self.linear(x.flatten(1))


def export(dynamo):
    torch.manual_seed(3)
    network, x = Network().eval(), torch.randn(1, 3, 16, 16)
    path = os.path.join(FOLDER, f"network{int(dynamo)}.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (x,), path, dynamo=dynamo, input_names=["x"])
    return path, x.numpy(), network(x).detach().numpy()


def run(library, path, feed):
    return library.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def test_both_exporters_of_pytorch():
    for dynamo in (False, True):
        path, x, expected = export(dynamo)
        np.testing.assert_allclose(run(lathe.onnxruntime, path, {"x": x}), expected, 1e-4, 1e-5)


def test_dynamically_quantised_models():
    path, x, _ = export(False)
    quantised = os.path.join(FOLDER, "quantised.onnx")
    quantize_dynamic(path, quantised)
    expected = run(onnxruntime, quantised, {"x": x})
    np.testing.assert_allclose(run(lathe.onnxruntime, quantised, {"x": x}), expected, 1e-4, 1e-5)


def test_models_of_the_transformer_optimizer():
    path = package.SHARED / "models/text/vespa-transformers/dummy_transformer_mlm.onnx"
    if not path.exists():
        raise package.Skip(f"{path} is not present")
    optimised = os.path.join(FOLDER, "optimised.onnx")
    optimize_model(str(path), model_type="bert", num_heads=2,
                   hidden_size=16).save_model_to_file(optimised)
    ids = np.random.default_rng(0).integers(0, 1000, (2, 9))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
    expected = run(onnxruntime, optimised, feed)
    np.testing.assert_allclose(run(lathe.onnxruntime, optimised, feed), expected, 1e-4, 1e-5)


package.run(globals())
