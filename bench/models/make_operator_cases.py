# SPDX-License-Identifier: MIT
"""Writes models of one operator with a test set each, for compare_cases.py: detection, audio, sampling, trees.

usage: make_operator_cases.py FOLDER
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)


def f32(*shape, low=None, high=None):
    values = RANDOM.standard_normal(shape) if low is None else RANDOM.uniform(low, high, shape)
    return values.astype(np.float32)


def boxes(count, size, low, high):
    corner = f32(count, 2, low=0, high=size)
    return np.concatenate([corner, corner + f32(count, 2, low=low, high=high)], 1)


def forest(trees, depth, features):
    """Full binary trees with a leaf vote each, as attributes of TreeEnsembleRegressor."""
    inner, all_nodes = 2 ** depth - 1, 2 ** (depth + 1) - 1
    ids = np.tile(np.arange(all_nodes), trees)
    tree_ids = np.repeat(np.arange(trees), all_nodes)
    is_leaf = ids >= inner
    children = np.where(is_leaf, 0, 2 * ids + 1)
    return {
        "nodes_treeids": tree_ids, "nodes_nodeids": ids, "nodes_values": f32(ids.size),
        "nodes_featureids": RANDOM.integers(features, size=ids.size),
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf],
        "nodes_truenodeids": children, "nodes_falsenodeids": np.where(is_leaf, 0, children + 1),
        "target_treeids": tree_ids[is_leaf], "target_nodeids": ids[is_leaf],
        "target_ids": np.zeros(is_leaf.sum(), np.int64), "target_weights": f32(is_leaf.sum()), "n_targets": 1,
    }


# Name, operator, inputs, constants after them, attributes, type of the output.
def cases():
    limits = [np.array([most], np.int64) for most in (300, 100_000)]
    thresholds = [np.array([0.45], np.float32), np.array([0.25], np.float32)]
    detections = [boxes(25_200, 640, 4, 120)[None], f32(1, 1, 25_200, low=0, high=1)]
    yield "nms_300", "NonMaxSuppression", detections, [limits[0], *thresholds], {}, TensorProto.INT64
    yield "nms_all", "NonMaxSuppression", detections, [limits[1], *thresholds], {}, TensorProto.INT64
    regions = {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.25}
    yield "roi_align", "RoiAlign", [f32(1, 256, 160, 160), boxes(256, 400, 10, 300)], \
        [np.zeros(256, np.int64)], regions, TensorProto.FLOAT
    for length, step in ((400, 160), (512, 128)):  # 10 s at 16 kHz
        yield f"stft_{length}", "STFT", [f32(1, 160_000, 1)], \
            [np.array(step), np.hanning(length).astype(np.float32), np.array(length)], {}, TensorProto.FLOAT
    for channels in (3, 64):
        yield f"grid_sample_{channels}", "GridSample", [f32(1, channels, 512, 512), f32(1, 512, 512, 2, low=-1, high=1)], \
            [], {}, TensorProto.FLOAT
    yield "trees", "TreeEnsembleRegressor", [f32(1000, 20)], [], forest(1000, 6, 20), TensorProto.FLOAT


def write(folder, name, op_type, inputs, constants, attributes, output):
    names = [f"x{i}" for i in range(len(inputs))]
    fixed = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op_type, names + fixed, ["y"], domain="ai.onnx.ml" if op_type.startswith("Tree") else "",
                            **attributes)
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(at, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for at, x in zip(names, inputs)],
        [helper.make_tensor_value_info("y", output, None)],
        [numpy_helper.from_array(x, at) for at, x in zip(fixed, constants)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / name / "model.onnx")
    for i, (at, x) in enumerate(zip(names, inputs)):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x, at).SerializeToString())


def main():
    for case in cases():
        write(pathlib.Path(sys.argv[1]), *case)


if __name__ == "__main__":
    main()
