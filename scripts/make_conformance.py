# SPDX-License-Identifier: MIT
"""Writes docs/conformance.md: suites of models with expected outputs, on every target.

usage: make_conformance.py PROGRAM [--check]     with --check, only compares; exits with 77 without the suites

The comparison is of the whole page; on a processor with other instruction sets than the page names, of the rows
of `ref`, and no fewer cases may pass on `cpu`.
"""

import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/import"))
from onnx_cases import BUILD, generated_cases, recorded_cases  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"
TARGETS = ("ref", "cpu")
# Allowed |a - b| as a share of the largest |b|, by the narrowest float type in the model.
BOUNDS = {"bf16": 1e-2, "f16": 2e-3, "f32": 1e-4}
HEAD = """# Conformance

Made by `scripts/make_conformance.py`, which runs every case. A case of the ONNX backend suites allows a
relative error of 1e-3; one of the others an error of 1e-4 of the largest expected value, 2e-3 where a value
passes through f16, 1e-2 through bf16. "Confirmed" counts the cases that do not pass of which the script
has shown that the recorded output is not the standard's: ONNX's reference evaluator, or ONNX Runtime
without graph optimisation, returns Lathe's result on `ref`, or refuses the model as Lathe does. Rows of `cpu` hold
for a processor with {features}.

"""
# Suite, pattern of cases (whole name), reason, who confirms it. A case that does not pass must have one.
STANDARD, PLAIN = "ONNX's reference evaluator agrees with Lathe.", "ONNX Runtime without graph optimisation agrees."
REFUSES = "ONNX Runtime without graph optimisation refuses it too."
REASONS = [
    ("generated recorded", r"(node/)?test_bernoulli.*",
     "Random numbers: the recorded ones are numpy's; Lathe's have the same distribution."),
    ("generated recorded", r"(node/)?test_image_decoder_decode_(jpeg2k|webp)_rgb",
     "ImageDecoder reads PNG, JPEG, BMP, TIFF and PNM; decoders of WebP and JPEG 2000 would make the package larger "
     "by two libraries, for formats that an application can decode before the model."),
    ("generated recorded", r"(simple/)?test_gradient_of_.*", "Gradient differentiates a graph: training."),
    ("migraphx", r"mha_past_key_value_bias_seq_len_test",
     "com.microsoft.MultiHeadAttention: `past_key` has 'max_sequence_length' entries, of which `past_sequence_length` are "
     "filled. The recorded output writes the new key behind all of them.", PLAIN),
    ("migraphx", r"resize_downsample_f_test",
     "Resize-19, `coordinate_transformation_mode`: the resized length 'can be a fractional number when it is calculated "
     "out of a scale factor', as in the standard's case `resize_downsample_scales_linear_align_corners`; it is 2.4. The "
     "recorded output rounds it.", STANDARD),
    ("migraphx", r"scatter(_elements|nd)_invalid_reduction_test",
     "ScatterElements-18 and ScatterND-18, `reduction`: 'none (default), add, mul, max, min'. It is 'invalid'."),
    ("migraphx", r"split_test_invalid_num_outputs",
     "Split-18, `num_outputs`: 'Number of outputs to split parts of the tensor into'. It is 5, the node has 4 outputs."),
    ("migraphx", r"skip_simplified_layer_normalization_(bias_)?test",
     "com.microsoft.SkipSimplifiedLayerNormalization: `mean` is the 'Saved mean used during training'. ONNX Runtime "
     "returns an output that it did not write; y, inv_std_var and the sum agree."),
    ("migraphx", r"topk_neg_axis_test",
     "TopK-11: 'If \"sorted\" is 0, order of returned 'Values' and 'Indices' are undefined'.", STANDARD),
    ("ort", r"transform/fusion/(skip_layer_norm_format.*_with_cast|layer_norm_fusion_scale_bias)",
     "Values are f16; the recorded output is computed in f32 without rounding each, as `cpu` does; `ref` rounds.",
     STANDARD),
    ("ort", r"transform/fusion/skip_layer_norm_no_beta_with_cast",
     "The recorded output normalises the sum rounded to f16; `cpu` adds in f32 and normalises that sum."),
    ("ort", r"layout_transform_reshape", "The model divides by differences near zero: in f64 element 522 is 169.2440, here 169.2482, recorded as "
     "169.1328."),
    ("ort", r"dummy_whisper_with_sequence_input_ids",
     "BeamSearch: the recorded score is -0.84; the model's encoder and decoder, run one by one, return sequences of -0.28, "
     "as Lathe finds. ONNX Runtime returns others in each run of a session."),
    ("ort", r"test_shape_data_propagation_unsqueeze_inmemory_int64", "A value has rank 17; Lathe's limit is 16."),
    ("ort", r"transform/fusion/fuse-matmul-bn-only-.*",
     "BatchNormalization-7: 'If spatial is true, the dimension of scale is (C)'. It has 5 elements, C is 1.", REFUSES),
    ("ort", r"transform/fusion/reshape_fusion_input_is_graph_input",
     "Reshape-5: 'The input tensor's shape and the output tensor's shape are required to have the same number of elements'.",
     REFUSES),
    ("tract", r"lgbm_regressor_tensor|xgboost_regressor_tree",
     "The recorded output has another shape or type than the model declares.", PLAIN),
    ("tract", r"qtdnn_10x5_101_i32_biases",
     "QLinearConv-10, `auto_pad`: 'NOTSET, which means explicit padding is used'. It is VALID, the recorded output pads.", PLAIN),
]


def narrowest(model):
    text = str(model.graph)
    for name, kind in (("bf16", TensorProto.BFLOAT16), ("f16", TensorProto.FLOAT16)):
        if re.search(rf"(elem|data)_type: {kind}\b", text) or re.search(rf'name: "to"\s+i: {kind}\b', text):
            return name
    return "f32"


def write_case(folder, path, inputs, outputs):
    """Writes the model, the files beside it and its values (bytes of messages) as a case of `verify`."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / "model.onnx")
    model = onnx.load(path, load_external_data=False)
    if b"location" in path.read_bytes():
        for other in path.parent.iterdir():
            if other.is_file() and other.suffix != ".onnx":
                shutil.copy(other, folder / other.name)
    # A recorded value of an input with a sparse default was not fed.
    sparse = {tensor.values.name for tensor in model.graph.sparse_initializer}
    inputs = [value for value, info in zip(inputs, model.graph.input) if info.name not in sparse] \
        if sparse else inputs
    largest = 0.0
    for word, values in (("input", inputs), ("output", outputs)):
        for i, value in enumerate(values):
            (data / f"{word}_{i}.pb").write_bytes(value)
            if word == "output":
                largest = max(largest, largest_of(value))
    bound = BOUNDS[narrowest(model)]
    (folder / "tolerance.json").write_text(json.dumps({"rtol": bound, "atol": max(bound * largest, 1e-6)}))


def largest_of(message):
    tensor = TensorProto()
    try:
        tensor.ParseFromString(message)
        values = numpy_helper.to_array(tensor)
    except Exception:  # a sequence
        return 0.0
    if values.dtype.kind != "f" or values.size == 0:
        return 0.0
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def paired_cases(name):
    """Cases of an archive of models and one of values, NAME-expected."""
    models, values = recorded_cases(name), recorded_cases(f"{name}-expected")
    if models is None or values is None:
        return None
    folder = BUILD / f"{name}-cases"
    if not (folder / ".complete").exists():
        root = values / f"{name}-expected"
        for case in sorted({path.parent for path in root.rglob("*.pb")}):
            relative = case.relative_to(root)
            places = [models / name / f"{relative}.onnx", models / name / relative / "model.onnx"]
            messages = [[path.read_bytes() for path in sorted(case.glob(f"{word}_*.pb"),
                                                              key=lambda path: int(path.stem.split("_")[-1]))]
                        for word in ("input", "output")]
            write_case(folder / relative, next(path for path in places if path.exists()), *messages)
        (folder / ".complete").touch()
    return folder


def archived_cases(name):
    """Cases of an archive with io.npz beside each model."""
    models = recorded_cases(name)
    if models is None:
        return None
    folder = BUILD / f"{name}-cases"
    if not (folder / ".complete").exists():
        for archive in sorted(models.rglob("io.npz")):
            path = archive.parent / "model.onnx"
            graph = onnx.load(path, load_external_data=False).graph
            arrays = np.load(archive)
            given = {tensor.name for tensor in graph.initializer}
            messages = [[numpy_helper.from_array(arrays[info.name], info.name).SerializeToString()
                         for info in infos if info.name in arrays]
                        for infos in ([info for info in graph.input if info.name not in given], graph.output)]
            write_case(folder / archive.parent.name, path, *messages)
        (folder / ".complete").touch()
    return folder


def with_samples(model, reference, argmax):
    """The model with two outputs instead of one: every stride-th element, and the greatest channel of each pixel."""
    (name, stored), = reference["outputs"].items()
    places = np.arange(len(stored["samples"]), dtype=np.int64) * stored["stride"]
    graph = model.graph
    graph.initializer.extend([numpy_helper.from_array(np.array([-1], np.int64), "flat_shape"),
                              numpy_helper.from_array(places, "sample_places")])
    graph.node.extend([helper.make_node("Reshape", [name, "flat_shape"], ["flat"]),
                       helper.make_node("Gather", ["flat", "sample_places"], ["samples"]),
                       helper.make_node("ArgMax", [name], ["greatest"], axis=-1, keepdims=0)])
    del graph.output[:]
    graph.output.extend([helper.make_tensor_value_info("samples", TensorProto.FLOAT, None),
                         helper.make_tensor_value_info("greatest", TensorProto.INT64, None)])
    return [np.array(stored["samples"], np.float32), argmax.astype(np.int64)]


def real_cases():
    """Trained networks of the folders vision, audio and text; one case for each set of recorded values."""
    root = pathlib.Path(os.environ.get("LATHE_TEST_DATA", "../shared")).resolve() / "models"
    kinds = [root / kind for kind in ("vision", "audio", "text")]
    if not all(kind.is_dir() for kind in kinds):
        return None
    folder = BUILD / "real-models-cases"
    if not (folder / ".complete").exists():
        for data in sorted(path for kind in kinds for path in kind.rglob("*data_set_*") if path.is_dir()):
            stem = data.name[:data.name.index("_data_set")]
            models = sorted(data.parent.glob("*.onnx"), key=lambda path: len(path.stem), reverse=True)
            path = next((path for path in models if stem.startswith(path.stem)), models[0])
            case = folder / data.relative_to(root)
            shutil.copytree(data, case / "test_data_set_0", dirs_exist_ok=True)
            model = onnx.load(path)
            if not (data / "output_0.pb").exists():
                outputs = with_samples(model, json.loads((data / "reference.json").read_text()),
                                       np.load(data / "argmax_map_uint8.npy"))
                for i, value in enumerate(outputs):
                    message = numpy_helper.from_array(value).SerializeToString()
                    (case / f"test_data_set_0/output_{i}.pb").write_bytes(message)
            onnx.save(model, case / "model.onnx")
            is_half = {weight.data_type for weight in model.graph.initializer} == {TensorProto.FLOAT16}
            tolerance = {"rtol": 2e-2, "atol": 1e-3} if is_half else {"rtol": 1e-3, "atol": 1e-4}
            (case / "tolerance.json").write_text(json.dumps(tolerance))
        (folder / ".complete").touch()
    return folder


SUITES = [
    ("generated", "cases of the `onnx` package", generated_cases),
    ("recorded", "recorded ONNX backend suite", lambda: recorded_cases("onnx-backend")),
    ("migraphx", "MIGraphX's import tests, outputs of ONNX Runtime", lambda: paired_cases("migraphx-onnx")),
    ("ort", "ONNX Runtime's test data, outputs of ONNX Runtime", lambda: paired_cases("ort-testdata")),
    ("tract", "tract's test cases", lambda: archived_cases("tract-onnx")),
    ("real", "trained networks: vision, audio, text", real_cases),
]


def in_order(model):
    """Sorts the nodes, as the reference evaluator needs them."""
    known = {value.name for value in [*model.graph.input, *model.graph.initializer]} | {""}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    while nodes:
        ready = [node for node in nodes if known.issuperset(node.input)]
        model.graph.node.extend(ready)
        known.update(name for node in ready for name in node.output)
        nodes = [node for node in nodes if node not in ready]
    return model


def peer_results(case, peer):
    """The outputs of a case's first inputs by the peer."""
    data = case / "test_data_set_0"
    model = onnx.load(case / "model.onnx")
    if peer == STANDARD:
        session = ReferenceEvaluator(in_order(model))
        names = session.input_names
    else:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(case / "model.onnx"), options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
    feeds = {}
    for i, path in enumerate(sorted(data.glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[-1]))):
        tensor = TensorProto.FromString(path.read_bytes())
        feeds[tensor.name or names[i]] = numpy_helper.to_array(tensor)
    return session.run(None, feeds)


def is_confirmed(program, case, peer):
    """Whether the peer does as Lathe does on `ref`."""
    try:
        results = peer_results(case, peer)
    except Exception:  # the peers' exceptions have no common base
        return peer == REFUSES
    if peer == REFUSES:
        return False
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name) / "case"
        shutil.copytree(case, copy)
        for i, value in enumerate(results):
            message = numpy_helper.from_array(np.asarray(value)).SerializeToString()
            (copy / f"test_data_set_0/output_{i}.pb").write_bytes(message)
        return run(program, pathlib.Path(name), "ref")["passed"] == 1


def run(program, folder, target):
    report = subprocess.run([program, "verify", folder, "--json", "--target", target], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    return json.loads(report.stdout)


def features(program):
    """The processor's instruction sets."""
    report = subprocess.run([program, "doctor"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.search(r"^features +(.+)$", report, re.MULTILINE).group(1)


def page(program, folders):
    rows, wrong, found, confirmed = [], [], {}, {}
    for suite, title, _ in SUITES:
        for target in TARGETS:
            report = run(program, folders[suite], target)
            refused = differing = shown = 0
            for case in report["list"]:
                if case["status"] == "passed":
                    continue
                name = case["name"].removeprefix("onnx-backend/")
                entry = next((i for i, (suites, pattern, *_) in enumerate(REASONS)
                              if suite in suites.split() and re.fullmatch(pattern, name)), None)
                if entry is None:
                    wrong.append(f"{suite} on {target}: {name}: {case['detail']}")
                    continue
                found.setdefault((suite, entry), set()).add(name)
                peer = REASONS[entry][3] if len(REASONS[entry]) > 3 else None
                if peer and (suite, name) not in confirmed:
                    confirmed[suite, name] = is_confirmed(program, folders[suite] / case["name"], peer)
                    if not confirmed[suite, name]:
                        wrong.append(f"{suite}: {name}: not so: {peer}")
                shown += confirmed.get((suite, name), False)
                differing += "element " in case["detail"] or ": got " in case["detail"]
                refused += not ("element " in case["detail"] or ": got " in case["detail"])
            rows.append(f"| {title} | {target} | {report['cases']} | {report['passed']} | {refused} | {differing} | {shown} |")
    for i, (suites, pattern, *_) in enumerate(REASONS):
        if not any((suite, i) in found for suite in suites.split()):
            wrong.append(f"{suites}: no case that fails matches {pattern}")
    if wrong:
        sys.exit("\n".join(["error: cases without a reason, or reasons without a case:", *wrong]))
    text = HEAD.format(features=features(program)) + "| suite | target | cases | passed | refused | differing | confirmed |\n|---|---|---|---|---|---|---|\n"
    text += "\n".join(rows) + "\n\nCases that do not pass:\n\n| suite | cases | reason |\n|---|---|---|\n"
    titles = {suite: title for suite, title, _ in SUITES}
    for (suite, entry), names in sorted(found.items(), key=lambda item: (list(titles).index(item[0][0]), item[0][1])):
        text += f"| {titles[suite]} | {', '.join(f'`{name}`' for name in sorted(names))} | {' '.join(REASONS[entry][2:])} |\n"
    return text


def compare(text, recorded, instruction_sets):
    """Returns in which lines the page made now is not the one in docs."""
    if f"processor with {instruction_sets}." in recorded:
        return list(difflib.unified_diff(recorded.splitlines(), text.splitlines(), PAGE.name, "now", "", "", 0, ""))

    def rows(page_text, target):
        return re.findall(rf"^\| (.+?) \| {target} \| (\d+) \| (\d+) \|", page_text, re.MULTILINE)

    changed = [f"{suite} on ref" for suite, *_ in set(rows(text, "ref")) ^ set(rows(recorded, "ref"))]
    passed = {suite: int(count) for suite, _, count in rows(text, "cpu")}
    return changed + [f"{suite} on cpu" for suite, _, count in rows(recorded, "cpu")
                      if passed.get(suite, 0) < int(count)]


def main():
    program, *flags = sys.argv[1:]
    folders = {suite: cases() for suite, _, cases in SUITES}
    missing = [suite for suite, folder in folders.items() if folder is None]
    if missing:
        print(f"skipped: the suites {', '.join(missing)} are not there")
        return 77
    text = page(program, folders)
    if "--check" not in flags:
        PAGE.write_text(text)
        return 0
    different = compare(text, PAGE.read_text(), features(program))
    if not different:
        return 0
    print("\n".join([f"error: {PAGE.name} has other results; `make docs` writes it:", *different]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
