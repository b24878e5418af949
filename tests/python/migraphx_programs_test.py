# SPDX-License-Identifier: MIT
"""Programs adapted from published examples of MIGraphX, beside the same models in ONNX Runtime."""

import json

import package

package.find()

import numpy as np
import onnx
import onnxruntime
from models import model
from onnx import TensorProto, helper, numpy_helper

import lathe as migraphx

MODELS = package.SHARED / "models"
RANDOM = np.random.default_rng(11)


def path_of(name):
    if not (MODELS / name).exists():
        raise package.Skip(f"{MODELS / name} is not present")
    return str(MODELS / name)


def peer(path_or_bytes, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def tensor(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(open(path, "rb").read()))


def built(build, **inputs):
    """The first result of a program whose parameters have the inputs' shapes."""
    p = migraphx.program()
    mm = p.get_main_module()
    refs = [mm.add_parameter(name, migraphx.argument(value).get_shape()) for name, value in inputs.items()]
    mm.add_return([build(p, mm, *refs)])
    p.compile(migraphx.get_target("cpu"))
    return np.array(p.run(inputs)[0])


def onnx_model(node, inputs, rank):
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL}
    return model([node], [(name, kinds[value.dtype], list(value.shape)) for name, value in inputs.items()],
                 [("y", TensorProto.FLOAT, [None] * rank)])


def test_a_program_runs_on_generated_arguments():
    path = path_of("vision/mnist-8/model.onnx")
    p = migraphx.parse_onnx(path)
    p.compile(migraphx.get_target("cpu"), offload_copy=False)
    params = {}
    for key, value in p.get_parameter_shapes().items():
        params[key] = migraphx.generate_argument(value)
    result = p.run(params)[-1]
    expected = peer(path, {name: np.array(value) for name, value in params.items()})[0]
    np.testing.assert_allclose(np.array(result), expected, 1e-4, 1e-4)


def test_images_have_labels():
    for name, sets in (("vision/mnist-8", 3), ("vision/mobilenetv2-qdq-int8", 1)):
        path = path_of(f"{name}/model.onnx")
        p = migraphx.parse_onnx(path, default_dim_value=1)
        p.compile(migraphx.get_target("cpu"))
        for index in range(sets):
            image = tensor(f"{MODELS}/{name}/test_data_set_{index}/input_0.pb")
            results = p.run({p.get_parameter_names()[0]: image})
            scores = np.array(results[-1]).reshape(-1)
            expected = peer(path, {p.get_parameter_names()[0]: image})[0].reshape(-1)
            assert scores.argmax() == expected.argmax(), (name, index)
            if "int8" not in name:
                np.testing.assert_allclose(scores, expected, 1e-4, 1e-4)


def test_questions_are_answered_by_spans():
    path = path_of("text/vespa-transformers/dummy_transformer_mlm.onnx")
    p = migraphx.parse_onnx(path, map_input_dims={
        name: [2, 24] for name in ("input_ids", "attention_mask", "token_type_ids")})
    p.compile(migraphx.get_target("cpu"))
    ids = RANDOM.integers(100, 30000, (2, 24))
    mask = np.ones_like(ids)
    mask[1, 18:] = 0
    segments = np.repeat([[0] * 8 + [1] * 16], 2, 0)
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    logits = np.array(p.run({name: migraphx.argument(value) for name, value in feed.items()})[0])
    expected = peer(path, feed)[0]
    np.testing.assert_allclose(logits, expected, 1e-4, 1e-4)
    for ours, theirs in zip(logits, expected):  # two words of the vocabulary begin and end answers
        assert [ours[8:, at].argmax() for at in (7, 9)] == [theirs[8:, at].argmax() for at in (7, 9)]


def test_batches_of_any_size():
    path = path_of("vision/super-resolution-10/super_resolution.onnx")
    batch = migraphx.shape.dynamic_dimension(1, 4, {1, 2})
    fixed = [migraphx.shape.dynamic_dimension(size, size) for size in (1, 224, 224)]
    for options in ({"default_dyn_dim_value": batch}, {"map_dyn_input_dims": {"input": [batch, *fixed]}}):
        p = migraphx.parse_onnx(path, **options)
        assert p.get_parameter_shapes()["input"].dynamic()
        p.compile(migraphx.get_target("cpu"))
        for size in (1, 3, 4):
            image = RANDOM.random((size, 1, 224, 224), np.float32)
            got = np.array(p.run({"input": image})[0])
            np.testing.assert_allclose(got, peer(path, {"input": image})[0], 1e-4, 1e-4)


def test_text_is_generated_from_pasts():
    path = path_of("llm/stories260k-onnx/model.onnx")
    recorded = json.loads((MODELS / "llm/stories260k-onnx/expected_greedy.json").read_text())
    expected = recorded["model.onnx"]["greedy_ids"][:60]
    p = migraphx.parse_onnx(path)
    p.compile(migraphx.get_target("cpu"))
    outputs = [value.name for value in onnx.load(path, load_external_data=False).graph.output]
    names = p.get_parameter_names()
    for prompt in (1, 12):
        tokens, used = expected[:prompt], 0
        feed = {name: np.zeros((1, 4, 0, 8), np.float32) for name in names if name.startswith("past")}
        while len(tokens) < len(expected):
            feed["input_ids"] = np.array([tokens[used:]])
            feed["attention_mask"] = np.ones((1, len(tokens)), np.int64)
            feed["position_ids"] = np.arange(used, len(tokens))[None]
            results = dict(zip(outputs, p.run(feed)))
            used = len(tokens)
            tokens.append(int(np.array(results["logits"])[0, -1].argmax()))
            feed = {name: results[name.replace("past_key_values", "present")]
                    for name in names if name.startswith("past")}
        assert tokens == expected, prompt


def test_programs_built_of_operators_equal_those_of_onnx():
    a, b, c = (RANDOM.standard_normal((3, 3)).astype(np.float32) for _ in range(3))
    image = RANDOM.standard_normal((2, 4, 9, 7)).astype(np.float32)
    weights = RANDOM.standard_normal((6, 2, 3, 2)).astype(np.float32)
    cases = [
        (lambda p, mm, x, w: mm.add_instruction(migraphx.op(
            "convolution", padding=[1, 0, 0, 1], stride=[2, 1], dilation=[1, 2], group=2), [x, w]),
         helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 0, 1], strides=[2, 1],
                          dilations=[1, 2], group=2), {"x": image, "w": weights}),
        (lambda p, mm, *args: mm.add_macro(
            migraphx.macro("gemm", alpha=0.5, beta=2.0, transA=True), list(args))[-1],
         helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1),
         {"a": a, "b": b, "c": c}),
        (lambda p, mm, *args: mm.add_macro(
            migraphx.macro("einsum", equation="ij,jk,kl->il"), list(args))[-1],
         helper.make_node("Einsum", ["a", "b", "c"], ["y"], equation="ij,jk,kl->il"),
         {"a": a, "b": b, "c": c})]
    for build, node, inputs in cases:
        got = built(build, **inputs)
        expected = peer(onnx_model(node, inputs, got.ndim), inputs)[0]
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4, err_msg=node.op_type)


def test_branches_equal_those_of_onnx():
    x, y = (RANDOM.standard_normal((2, 3)).astype(np.float32) for _ in range(2))

    def build(p, mm, cond, x, y):
        yes, no = p.create_module("yes"), p.create_module("no")
        yes.add_return([yes.add_instruction(migraphx.op("add"), [x, y])])
        no.add_return([no.add_instruction(migraphx.op("mul"), [x, y])])
        return mm.add_instruction(migraphx.op("if"), [cond], [yes, no])

    bodies = {name: helper.make_graph(
        [helper.make_node(kind, ["x", "y"], ["z"])], name, [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])])
        for name, kind in (("then_branch", "Add"), ("else_branch", "Mul"))}
    node = helper.make_node("If", ["cond"], ["y1"], **bodies)
    values = [("cond", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [2, 3]),
              ("y", TensorProto.FLOAT, [2, 3])]
    graph = model([node], values, [("y1", TensorProto.FLOAT, [2, 3])])
    for cond in (True, False):
        inputs = {"cond": np.array(cond), "x": x, "y": y}
        np.testing.assert_allclose(built(build, **inputs), peer(graph, inputs)[0], 1e-4)


package.run(globals())
