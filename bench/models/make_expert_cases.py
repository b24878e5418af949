# SPDX-License-Identifier: MIT
"""Writes mixture-of-experts layers in int4 with a test set each, for compare_cases.py: a prompt and one token.

usage: make_expert_cases.py FOLDER [NAME=VALUE…]        attributes of QMoE: accuracy_level=4

Shapes of Mixtral 8x7B (1.3 GB) and Qwen3-30B-A3B (0.6 GB). Scales are of blocks of 32 elements; gates and values
of an expert alternate.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
# Hidden size, inner size, experts, experts of a token.
SHAPES = {"mixtral": (4096, 14336, 8, 2), "qwen3_moe": (2048, 768, 128, 8)}
TOKENS = {"prompt": 512, "decode": 1}


def weights(random, experts, outputs, inputs):
    codes = np.frombuffer(random.bytes(experts * outputs * inputs // 2), np.uint8)
    scales = random.uniform(0.5, 1.5, (experts, outputs, inputs // BLOCK)) * 0.25 / np.sqrt(inputs)
    return codes.reshape(experts, outputs, inputs // 2), scales.astype(np.float32)


def write(folder, name, tokens, attributes):
    random = np.random.default_rng(0)
    hidden, inner, experts, chosen = SHAPES[name]
    codes1, scales1 = weights(random, experts, 2 * inner, hidden)
    codes2, scales2 = weights(random, experts, hidden, inner)
    constants = {"fc1": codes1, "fc1_scales": scales1, "fc2": codes2, "fc2_scales": scales2}
    inputs = {"x": random.standard_normal((tokens, hidden)).astype(np.float32),
              "router": random.standard_normal((tokens, experts)).astype(np.float32)}
    node = helper.make_node(
        "QMoE", ["x", "router", "fc1", "fc1_scales", "", "fc2", "fc2_scales"], ["y"], domain="com.microsoft", k=chosen,
        activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.0, activation_beta=0.0, expert_weight_bits=4,
        block_size=BLOCK, **attributes)
    graph = helper.make_graph(
        [node], name, [helper.make_tensor_value_info(at, TensorProto.FLOAT, x.shape) for at, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, inputs["x"].shape)],
        [numpy_helper.from_array(x, at) for at, x in constants.items()])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    for i, (at, x) in enumerate(inputs.items()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x, at).SerializeToString())


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    attributes = {name: int(value) for name, _, value in (text.partition("=") for text in sys.argv[2:])}
    for name in SHAPES:
        for phase, tokens in TOKENS.items():
            write(pathlib.Path(sys.argv[1]) / f"{name}_{phase}", name, tokens, attributes)


if __name__ == "__main__":
    main()
