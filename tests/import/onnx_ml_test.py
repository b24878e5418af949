# SPDX-License-Identifier: MIT
"""Operators of ai.onnx.ml against ONNX Runtime: one model per row, random inputs and parameters."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path("build/onnx-ml").resolve()
BROKEN = pathlib.Path("build/onnx-ml-broken").resolve()
RANDOM = np.random.default_rng(11)
ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def floats(count, low=-1.0, high=1.0):
    return [float(value) for value in RANDOM.uniform(low, high, count).astype(np.float32)]


def strings(*values):
    return np.array(values, object)


def split(trees, tree, next_id, depth, modes):
    """Appends a node of a random tree with its subtrees; returns its id and the next free one."""
    own, at = next_id, len(trees["nodes_nodeids"])
    is_leaf = depth == 0 or RANDOM.random() < 0.2
    row = {"nodes_treeids": tree, "nodes_nodeids": own, "nodes_featureids": int(RANDOM.integers(4)),
           "nodes_modes": "LEAF" if is_leaf else str(RANDOM.choice(modes)),
           "nodes_values": float(np.float32(RANDOM.integers(-3, 4) / 2)), "nodes_truenodeids": 0,
           "nodes_falsenodeids": 0, "nodes_missing_value_tracks_true": int(RANDOM.integers(2))}
    for name, value in row.items():
        trees[name].append(value)
    next_id += 1
    if not is_leaf:
        for name in ("nodes_truenodeids", "nodes_falsenodeids"):
            trees[name][at], next_id = split(trees, tree, next_id, depth - 1, modes)
    return own, next_id


NODE_LISTS = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values",
              "nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true")


def forest(vote, targets, count=5, modes=MODES[:1], low=0.0, only=None):
    """Random trees over four features; each leaf votes for all targets, or for one alone."""
    trees = {name: [] for name in NODE_LISTS}
    for tree in range(count):
        split(trees, tree, 0, 4, modes)
    votes = {f"{vote}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, node, mode in zip(trees["nodes_treeids"], trees["nodes_nodeids"], trees["nodes_modes"]):
        for target in range(targets) if only is None else (only,):
            if mode == "LEAF":
                for name, value in zip(votes, (tree, node, target, floats(1, low, 0.3)[0])):
                    votes[name].append(value)
    return {**trees, **votes}


def features(kind=np.float32):
    x = (RANDOM.integers(-4, 5, (24, 4)) / 2).astype(kind)
    if kind != np.int64:
        x[3, 1] = x[7, :] = np.nan
    return x


def tree_rows():
    for transform in TRANSFORMS:
        for low in (0.0, -0.5):
            for only in (0, 1):
                yield f"trees_binary_{transform}_{low}_{only}", "TreeEnsembleClassifier", [features()], \
                    dict(**forest("class", 2, low=low, only=only), post_transform=transform, classlabels_int64s=[5, 7]), \
                    1 if transform == "PROBIT" and only == 0 else 2  # ONNX Runtime leaves the second column unset
        yield f"trees_three_{transform}", "TreeEnsembleClassifier", [features()], \
            dict(**forest("class", 3, modes=MODES), post_transform=transform, classlabels_strings=["a", "b", "c"]), 2
        yield f"trees_targets_{transform}", "TreeEnsembleRegressor", [features()], \
            dict(**forest("target", 3), n_targets=3, post_transform=transform, base_values=[0.1, 0.2, 0.3]), 1
        yield f"trees_target_{transform}", "TreeEnsembleRegressor", [features()], \
            dict(**forest("target", 1), n_targets=1, post_transform=transform), 1
    for function in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets in (1, 2):
            yield f"trees_{function}_{targets}", "TreeEnsembleRegressor", [features()], \
                dict(**forest("target", targets, low=-1.0, modes=MODES[:4]), n_targets=targets, aggregate_function=function), 1
    for mode in MODES:
        yield f"trees_{mode}", "TreeEnsembleRegressor", [features()], \
            dict(**forest("target", 1, modes=(mode,)), n_targets=1, base_values=[0.5]), 1
    yield "trees_f64", "TreeEnsembleClassifier", [features(np.float64)], \
        dict(**forest("class", 3), classlabels_int64s=[3, 1, 2], base_values=[0.3, 0.0, -0.4]), 2
    yield "trees_i64", "TreeEnsembleClassifier", [features(np.int64)], dict(**forest("class", 3), classlabels_int64s=[3, 1, 2]), 2
    doubles = forest("target", 1)
    for name in ("nodes_values", "target_weights"):
        doubles[name + "_as_tensor"] = numpy_helper.from_array(np.array(doubles.pop(name)), name)
    yield "trees_doubles", "TreeEnsembleRegressor", [features(np.float64)], dict(**doubles, n_targets=1), 1
    for function in range(4):
        for kind in (np.float32, np.float64):
            yield f"trees_5_{function}_{kind.__name__}", "TreeEnsemble", [np.trunc(features(kind))], indexed_trees(function, kind), 1


def indexed_trees(function, kind):
    """Version 5, with a test of membership: children by index, leaves apart."""
    def tensor(values, of):
        return numpy_helper.from_array(np.array(values, of))
    return dict(aggregate_function=function, n_targets=2, tree_roots=[0, 3],
                nodes_featureids=[0, 1, 2, 3], nodes_modes=tensor([0, 4, 6, 3], np.uint8),
                nodes_splits=tensor([0.5, 1.0, 0.0, -0.5], kind), nodes_truenodeids=[1, 0, 2, 1],
                nodes_trueleafs=[0, 1, 1, 1], nodes_falsenodeids=[2, 1, 3, 3], nodes_falseleafs=[0, 1, 1, 1],
                membership_values=tensor([1.0, -2.0, 0.0, np.nan], kind),
                leaf_targetids=[0, 1, 0, 1], leaf_weights=tensor([1.5, -2.5, 3.25, 0.75], kind))


def linear_rows():
    for transform in TRANSFORMS:
        yield f"linear_binary_{transform}", "LinearClassifier", [f32(5, 3)], \
            dict(coefficients=floats(3, 0.0), intercepts=[0.1], classlabels_ints=[4, 2], post_transform=transform), \
            1 if transform == "PROBIT" else 2
        yield f"linear_three_{transform}", "LinearClassifier", [f32(5, 3)], \
            dict(coefficients=floats(9), intercepts=floats(3), classlabels_strings=["a", "b", "c"], post_transform=transform), 2
        for targets in (1, 2):
            yield f"linear_regressor_{targets}_{transform}", "LinearRegressor", [f32(5, 3)], \
                dict(coefficients=floats(3 * targets), intercepts=floats(targets), targets=targets, post_transform=transform), 1
    for kind in (np.int64, np.int32, np.float64):
        yield f"linear_{kind.__name__}", "LinearClassifier", [(f32(5, 3) * 4).astype(kind)], \
            dict(coefficients=floats(6), intercepts=floats(2), classlabels_ints=[4, 2]), 2
    yield "linear_vector", "LinearRegressor", [f32(3)], dict(coefficients=floats(3)), 1


def svm_rows():
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        yield f"svm_regressor_{kernel}", "SVMRegressor", [f32(5, 3)], \
            dict(kernel_type=kernel, kernel_params=[0.4, 0.3, 3.0], n_supports=4, support_vectors=floats(12),
                 coefficients=floats(4), rho=[0.2], one_class=int(kernel == "POLY")), 1
        for classes, probabilities in ((2, False), (2, True), (3, False), (4, True)):
            for transform in TRANSFORMS if kernel == "RBF" else TRANSFORMS[:1]:
                pairs, vectors = classes * (classes - 1) // 2, list(range(1, classes + 1))
                attributes = dict(
                    kernel_type=kernel, kernel_params=[0.4, 0.3, 2.0], vectors_per_class=vectors,
                    support_vectors=floats(3 * sum(vectors)), coefficients=floats((classes - 1) * sum(vectors)),
                    rho=floats(pairs), classlabels_ints=[9, 7, 5, 3][:classes], post_transform=transform)
                if probabilities:
                    attributes.update(prob_a=floats(pairs, -1.0, 0.0), prob_b=floats(pairs))
                # ONNX Runtime leaves the second class's probit unset.
                unset = transform == "PROBIT" and classes == 2 and not probabilities
                yield f"svm_{kernel}_{classes}_{probabilities}_{transform}", "SVMClassifier", [f32(6, 3)], attributes, \
                    1 if unset else 2
    yield "svm_regressor_linear", "SVMRegressor", [f32(5, 3)], dict(kernel_params=[0.0] * 3, coefficients=floats(3), rho=[0.2]), 1
    for classes in (2, 3):
        for low, high in ((0.0, 0.6), (-1.0, 1.0)):
            yield f"svm_linear_{classes}_{low}", "SVMClassifier", [f32(8, 3)], \
                dict(kernel_params=[0.0] * 3, coefficients=floats(3 * classes, low, high), rho=[0.1],
                     classlabels_strings=["a", "b", "c"][:classes]), 2


def feature_rows():
    x = f32(4, 3)
    indices = np.array([[2, 0, 2]], np.int64)
    for name, data in (("f32", x), ("i64", (x * 9).astype(np.int64)), ("vector", x[0]), ("string", strings("a", "b", "c"))):
        yield f"extract_{name}", "ArrayFeatureExtractor", [data, indices], {}, 1
    yield "binarizer", "Binarizer", [x], {"threshold": 0.25}, 1
    yield "feature_vectorizer", "FeatureVectorizer", [x, f32(4, 2), f32(4, 5)], {"inputdimensions": [3, 4, 2]}, 1
    yield "feature_vectorizer_i64", "FeatureVectorizer", [np.arange(3), np.arange(2)], {"inputdimensions": [3, 2]}, 1
    holes = np.array([[1, np.nan, 3], [np.nan, 0, 3]], np.float32)
    yield "imputer_nan", "Imputer", [holes], {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")}, 1
    yield "imputer_one", "Imputer", [holes], {"imputed_value_floats": [7.0], "replaced_value_float": 3.0}, 1
    yield "imputer_i64", "Imputer", [np.array([[1, -1], [2, 2]])], {"imputed_value_int64s": [7, 8], "replaced_value_int64": 2}, 1
    for norm in ("MAX", "L1", "L2"):
        yield f"normalizer_{norm}", "Normalizer", [np.vstack([x, np.zeros((1, 3), np.float32)])], {"norm": norm}, 1
        yield f"normalizer_i64_{norm}", "Normalizer", [(x[0] * 9).astype(np.int64)], {"norm": norm}, 1
    yield "one_hot_i64", "OneHotEncoder", [np.array([[1, 3], [2, 9]])], {"cats_int64s": [3, 1, 2]}, 1
    yield "one_hot_f32", "OneHotEncoder", [np.array([1.5, 3.0, -2.0], np.float32)], {"cats_int64s": [3, 1, 2]}, 1
    yield "one_hot_string", "OneHotEncoder", [strings("b", "a")], {"cats_strings": ["a", "b"], "zeros": 0}, 1
    for kind in (np.float32, np.float64, np.int64):
        yield f"scaler_{kind.__name__}", "Scaler", [(x * 8).astype(kind)], {"offset": floats(3), "scale": floats(3)}, 1
    yield "scaler_one", "Scaler", [x], {"offset": [0.5], "scale": [2.0]}, 1


def label_rows():
    yield "category_mapper", "CategoryMapper", [strings("a", "c", "x")], {"cats_int64s": [5, 6, 7], "cats_strings": ["a", "b", "c"]}, 1
    yield "category_mapper_i64", "CategoryMapper", [np.array([[7, 1]])], \
        {"cats_int64s": [5, 6, 7], "cats_strings": ["a", "b", "c"], "default_string": "none"}, 1
    yield "labels_1", "LabelEncoder", [strings("b", "z")], {"classes_strings": ["a", "b"], "version": 1}, 1
    yield "labels_1_i64", "LabelEncoder", [np.array([1, 5])], {"classes_strings": ["a", "b"], "version": 1}, 1
    keys = {"int64s": [3, 1, 3], "floats": [0.5, 1.5, -0.5], "strings": ["a", "b", "c"]}
    data = {"int64s": np.array([[1, 3], [0, 3]]), "floats": np.array([0.5, -0.5, 2.0], np.float32), "strings": strings("c", "q")}
    for version in (2, 4):
        for of in keys:
            for to in keys:
                # Version 4 differs from ONNX Runtime in repeated keys.
                own = keys[of][1:] if version == 4 and of == "int64s" else keys[of]
                yield f"labels_{version}_{of}_{to}", "LabelEncoder", [data[of]], \
                    {f"keys_{of}": own, f"values_{to}": keys[to][:len(own)], "version": version}, 1
    yield "labels_4_tensors", "LabelEncoder", [np.array([1.5, np.nan, 4.0])], \
        {"keys_tensor": numpy_helper.from_array(np.array([np.nan, 1.5])), "version": 4,
         "values_tensor": numpy_helper.from_array(np.array([7.5, 8.5])), "default_tensor": numpy_helper.from_array(np.array([-3.5]))}, 1


def map_rows():
    yield "zip_map", "ZipMap", [f32(2, 3)], {"classlabels_int64s": [7, 3, 5]}, 1
    yield "zip_map_string", "ZipMap", [f32(3)], {"classlabels_strings": ["b", "a", "c"]}, 1
    numbers = {4: 2.5, 1: -1.0}
    for to in ("TO_FLOAT", "TO_INT64"):  # TO_STRING prints other digits than ONNX Runtime's
        yield f"cast_map_{to}", "CastMap", [numbers], {"cast_to": to}, 1
        yield f"cast_map_sparse_{to}", "CastMap", [numbers], {"cast_to": to, "map_form": "SPARSE", "max_map": 6}, 1
    yield "dict_vectorizer", "DictVectorizer", [{"a": 4.0, "c": 8.0}], {"string_vocabulary": ["a", "c", "b", "z"]}, 1
    yield "dict_vectorizer_i64", "DictVectorizer", [numbers], {"int64_vocabulary": [1, 2, 4]}, 1


def value_info(name, value):
    if isinstance(value, dict):
        (key, item), *_ = value.items()
        types = {int: TensorProto.INT64, float: TensorProto.FLOAT, str: TensorProto.STRING}
        item_type = helper.make_tensor_type_proto(types[type(item)], [])
        return helper.make_value_info(name, helper.make_map_type_proto(types[type(key)], item_type))
    kind = TensorProto.STRING if value.dtype == object else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


def make_model(name, operator, inputs, attributes, outputs):
    attributes = dict(attributes)
    version = attributes.pop("version", 5 if operator == "TreeEnsemble" else 3)
    given = {f"x{i}": value for i, value in enumerate(inputs)}
    node = helper.make_node(operator, list(given), [f"y{i}" for i in range(outputs)], domain=ML, **attributes)
    if operator.endswith("Classifier") and outputs == 1:
        node.output.append("unused")
    graph = helper.make_graph([node], name, [value_info(*item) for item in given.items()],
                              [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)])
    if operator == "ZipMap":
        key = TensorProto.INT64 if "classlabels_int64s" in attributes else TensorProto.STRING
        item = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        graph.output[0].CopyFrom(helper.make_value_info("y0", helper.make_sequence_type_proto(item)))
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(ML, version)])
    return model, given


def map_message(value, name):
    keys, items = sorted(value), [value[key] for key in sorted(value)]
    kind = object if isinstance(items[0], str) else np.float32
    out = onnx.MapProto(name=name, key_type=TensorProto.STRING if isinstance(keys[0], str) else TensorProto.INT64)
    out.values.elem_type = onnx.SequenceProto.TENSOR
    out.values.tensor_values.extend(numpy_helper.from_array(np.array(item, kind)) for item in items)
    if isinstance(keys[0], str):
        out.string_keys.extend(key.encode() for key in keys)
    else:
        out.keys.extend(keys)
    return out


def message(value, name):
    if isinstance(value, list):
        return onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.MAP, map_values=[map_message(item, "") for item in value])
    return map_message(value, name) if isinstance(value, dict) else numpy_helper.from_array(np.asarray(value), name)


def write_case(name, operator, inputs, attributes, outputs):
    model, given = make_model(name, operator, inputs, attributes, outputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    computed = session.run(None, given)
    data = FOLDER / name / "test_data_set_0"
    data.mkdir(parents=True)
    (FOLDER / name / "model.onnx").write_bytes(model.SerializeToString())
    for word, values in (("input", given.items()), ("output", [(f"y{i}", value) for i, value in enumerate(computed)])):
        for i, (key, value) in enumerate(values):
            (data / f"{word}_{i}.pb").write_bytes(message(value, key).SerializeToString())


def write_recorded():
    """Models of XGBoost with recorded outputs, from a public archive; the number of models that are missing."""
    names = ("xgboost_regressor_tree", "xgboost_classifier_tree")
    archive = pathlib.Path(os.environ.get("LATHE_TEST_DATA", "../shared")) / "models/tract-onnx.tar.zst"
    if not archive.exists():
        print(f"skipped {len(names)}: {archive} is not there")
        return len(names)
    packed = tarfile.open(fileobj=io.BytesIO(subprocess.run(["zstd", "-dqc", archive], check=True, stdout=subprocess.PIPE).stdout))
    for name in names:
        data = FOLDER / name / "test_data_set_0"
        data.mkdir(parents=True)
        model = packed.extractfile(f"tract-onnx/{name}/model.onnx").read()
        (FOLDER / name / "model.onnx").write_bytes(model)
        values = np.load(io.BytesIO(packed.extractfile(f"tract-onnx/{name}/io.npz").read()))
        (data / "input_0.pb").write_bytes(message(values["input"], "input").SerializeToString())
        for i, output in enumerate(onnx.load_from_string(model).graph.output):
            if output.name in values:
                shape = (1, -1) if output.name == "variable" else values[output.name].shape
                (data / f"output_{i}.pb").write_bytes(message(values[output.name].reshape(shape), output.name).SerializeToString())
    return 0


def broken_rows():
    """Models that are rejected: what is wrong, operator, attributes, and a part of the message."""
    tree = {name: [0, 0, 0] for name in NODE_LISTS}
    tree.update(nodes_nodeids=[0, 1, 2], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.0] * 3,
                nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0],
                target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0], n_targets=1)
    for change, text in (({"nodes_truenodeids": [9, 0, 0]}, "has no node 9"), ({"nodes_truenodeids": [0, 0, 0]}, "above it"),
                         ({"nodes_modes": ["BRANCH_LEQ", "LEAF"]}, "nodes_modes has 2"), ({"nodes_featureids": [-1, 0, 0]}, "feature -1"),
                         ({"nodes_featureids": [1 << 40, 0, 0]}, "feature"), ({"n_targets": 1 << 40}, "targets is"),
                         ({"target_ids": [0, 3]}, "target 3 of 1"), ({"nodes_featureids": [4, 0, 0]}, "features of x"),
                         ({"base_values": [1.0, 2.0]}, "base values"), ({"nodes_nodeids": [0, 1, 1]}, "two nodes"),
                         ({"post_transform": "LOG"}, "post_transform is 'LOG'"), ({"target_nodeids": [1, 7]}, "has no node 7")):
        yield "TreeEnsembleRegressor", {**tree, **change}, text
    indexed = indexed_trees(1, np.float32)
    for change, text in (({"tree_roots": [7]}, "out of range"), ({"nodes_truenodeids": [0, 0, 2, 1]}, "above it"),
                         ({"aggregate_function": 4}, "aggregate_function is 4"), ({"nodes_falsenodeids": [2, 99, 3, 3]}, "child 99")):
        yield "TreeEnsemble", {**indexed, **change}, text
    yield "LinearRegressor", {"coefficients": [1.0] * 7, "targets": 2}, "7 elements for 2 rows"
    yield "LinearClassifier", {"coefficients": [1.0] * 4, "intercepts": [1.0] * 3, "classlabels_ints": [1, 2]}, "3 intercepts"
    yield "SVMClassifier", {"coefficients": [1.0] * 4, "rho": [1.0], "classlabels_ints": [1, 2], "vectors_per_class": [1 << 40, 1]}, "vectors_per_class has"
    yield "SVMRegressor", {"coefficients": [1.0] * 4, "rho": [1.0], "n_supports": 3}, "3 support vectors"
    yield "Scaler", {"offset": [1.0] * 3, "scale": [1.0]}, "offset has 3"
    yield "FeatureVectorizer", {"inputdimensions": [1 << 50]}, "inputdimensions has"
    yield "LabelEncoder", {"keys_floats": [1.0, 2.0], "values_int64s": [1]}, "2 keys for 1"
    yield "OneHotEncoder", {"cats_strings": ["a"]}, "cats_int64s has 0"


def check_broken():
    """Each model fails with its message and the node."""
    wrong = []
    shutil.rmtree(BROKEN, ignore_errors=True)
    BROKEN.mkdir(parents=True)
    rows = list(broken_rows())
    for i, (operator, attributes, text) in enumerate(rows):
        path = BROKEN / f"{i}.onnx"
        model, _ = make_model("broken", operator, [f32(2, 4)], attributes, 2 if operator.endswith("Classifier") else 1)
        path.write_bytes(model.SerializeToString())
        run = subprocess.run([os.environ["TEST_PROGRAM"], "inspect", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode not in (1, 2, 3, 4) or text not in run.stdout or "node 0" not in run.stdout:
            wrong.append(f"{operator} should fail with '{text}', it exits with {run.returncode}: {run.stdout[:300]}")
    return len(rows) - len(wrong), wrong


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for rows in (tree_rows, linear_rows, svm_rows, feature_rows, label_rows, map_rows):
        for row in rows():
            write_case(*row)
    skipped = write_recorded()
    run = subprocess.run([os.environ["TEST_PROGRAM"], "verify", FOLDER, "--json"], stdout=subprocess.PIPE, text=True)
    report = json.loads(run.stdout)
    rejected, wrong = check_broken()
    wrong += [f"{case['name']}: {case['detail']}" for case in report["list"] if case["status"] != "passed"]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"{report['passed'] + rejected} passed, {len(wrong)} failed, {skipped} skipped")
    return 1 if wrong else 0


sys.exit(main())
