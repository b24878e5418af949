# SPDX-License-Identifier: MIT
"""Writes the results of ONNX Runtime on real models, for real_models_test.cpp.

usage: make_references.py OUT DATA [MODELS]

DATA is the folder of large test data, with graphs/*.onnx without weights and tools/fill_weights.py;
MODELS (without it DATA/real_models) what tools/real_models.py writes. OUT gets a folder for each model that is there:

  case.json           the model's path, and which of these there are:
  test_data_set_N/    inputs and outputs of one binding (TensorProto files)
  sequence_N/step_N/  the same of runs in a row; inputs that `carried` names as {input: output}
                      are given in the first only: later ones get the output of the run before
  greedy              a prompt's ids and the ids that follow

A folder whose sources are unchanged is kept. Prints "made NAME" or "kept NAME" for each, and
"absent NAME: REASON".
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

import numpy
import onnx
import onnxruntime

QUESTION = "What is the capital of France?"


class Case:
    """A model in ONNX Runtime, and its output folder."""

    def __init__(self, folder, path):
        self.folder = folder
        self.case = {"model": str(path.resolve()), "data_sets": 0, "sequences": []}
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs = [given.name for given in self.session.get_inputs()]
        self.outputs = [result.name for result in self.session.get_outputs()]
        self.random = numpy.random.default_rng(1)

    def run(self, feeds):
        return dict(zip(self.outputs, self.session.run(None, feeds)))

    def data_set(self, feeds):
        write(self.folder / f"test_data_set_{self.case['data_sets']}", feeds, self.run(feeds))
        self.case["data_sets"] += 1

    def sequence(self, steps, carried):
        """`steps` are inputs; later steps take the carried inputs from the results before."""
        folder = self.folder / f"sequence_{len(self.case['sequences'])}"
        results = {}
        for index, step in enumerate(steps):
            kept = {name: results[output] for name, output in carried.items()} if index else {}
            results = self.run({**step, **kept})
            write(folder / f"step_{index}", step, results)
        self.case["sequences"].append({"steps": len(steps), "carried": carried})

    def padded(self, lengths, vocabulary):
        """Ids and mask of one sequence per length, padded on the right to the longest."""
        mask = (numpy.arange(max(lengths)) < numpy.array(lengths)[:, None]).astype(numpy.int64)
        return self.random.integers(1, vocabulary, mask.shape) * mask, mask


def write(folder, inputs, outputs):
    folder.mkdir(parents=True)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for index, (name, value) in enumerate(tensors.items()):
            proto = onnx.numpy_helper.from_array(numpy.asarray(value, order="C"), name)
            (folder / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString())


def fill_images(case):
    for batch in (1, 2):
        x = case.random.normal(0, 1, (batch, 3, 224, 224)).astype(numpy.float32)
        case.data_set({"x": x})


def fill_encoder(case):
    for lengths in ((16,), (24, 13, 19)):
        ids, mask = case.padded(lengths, 30000)
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids}
        case.data_set({name: feeds[name] for name in case.inputs})


def fill_speech(case):
    """Tones in noise, in chunks that overlap the previous one by the context."""
    for rate, batch, chunk, context in ((16000, 1, 512, 64), (8000, 2, 256, 32)):
        time = numpy.arange(context + 50 * chunk) / rate
        hum = sum(numpy.sin(2 * numpy.pi * 140 * k * time) / k for k in range(1, 12))
        loud = numpy.sin(2 * numpy.pi * 0.7 * time) > 0
        wave = 0.2 * loud * hum + case.random.normal(0, 0.01, (batch, *time.shape))
        wave = wave.astype(numpy.float32)
        steps = [{"input": wave[:, at : at + context + chunk], "sr": numpy.array(rate)}
                 for at in range(0, 50 * chunk, chunk)]
        steps[0]["state"] = numpy.zeros((2, batch, 128), numpy.float32)
        case.sequence(steps, {"state": "stateN"})


def fill_decoder(case, prompt, answer, compare):
    """Prefill; prefill of two lengths, then a decode step; greedy decoding of the answer."""
    past = [name for name in case.inputs if name.startswith("past")]
    carried = {name: name.replace("past_key_values", "present") for name in past}

    def empty(batch):
        return {name: numpy.zeros((batch, 3, 0, 64), numpy.float32) for name in past}

    if compare:
        ids = numpy.array([prompt])
        case.data_set({"input_ids": ids, "attention_mask": numpy.ones_like(ids), **empty(1)})
        ids, mask = case.padded((9, 6), 49152)
        first = {"input_ids": ids, "attention_mask": mask, **empty(2)}
        mask = numpy.pad(mask, ((0, 0), (1, 0)), constant_values=1)
        case.sequence([first, {"input_ids": ids[:, :1], "attention_mask": mask}], carried)
    case.case["greedy"] = {
        "prompt": prompt, "ids": answer, "carried": carried, "empty": [1, 3, 0, 64]}
    if not compare:  # limit of the KL divergence on the CPU target
        case.case["cpu_divergence"] = 0.006


def make(out, name, sources, path, fill):
    """Writes the folder of a model, unless its sources are unchanged."""
    missing = [source for source in sources if not source.exists()]
    if missing:
        print(f"absent {name}: {missing[0]} not found")
        return
    states = [[str(source), source.stat().st_size, source.stat().st_mtime] for source in sources]
    script = pathlib.Path(__file__).read_bytes() + onnxruntime.__version__.encode()
    stamp = hashlib.sha256(json.dumps(states).encode() + script).hexdigest()
    folder = out / name
    if (folder / "stamp").exists() and (folder / "stamp").read_text() == stamp:
        print(f"kept {name}")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case = Case(folder, path(folder))
    fill(case)
    (folder / "case.json").write_text(json.dumps(case.case, indent=1) + "\n")
    (folder / "stamp").write_text(stamp)
    print(f"made {name}")


def make_graphs(out, data):
    tool = data / "tools" / "fill_weights.py"
    graphs = {"resnet50": fill_images, "mobilenet_v3_large": fill_images, "bert_base": fill_encoder}
    for name, fill in graphs.items():
        graph = data / "graphs" / f"{name}.onnx"

        def path(folder):
            subprocess.run([sys.executable, tool, graph, folder], check=True, stdout=sys.stderr)
            return folder / graph.name

        make(out, name, [graph, tool], path, fill)


def make_decoders(out, models):
    chats = models / "smollm2" / "expected.json"
    for name, count in (("genai-fp32", 8), ("genai-int4-level1", 7), ("genai-int4", 7)):
        model = models / "smollm2" / name / "model.onnx"

        def fill(case):
            chat = next(c for c in json.loads(chats.read_text()) if c["user"] == QUESTION)
            answer = chat[name.replace("-", "_")]["ids"][:count]
            # int8 activations make logits ill-conditioned: they are not compared.
            fill_decoder(case, chat["prompt_ids"], answer, compare=name != "genai-int4")

        make(out, name, [model, chats], lambda folder: model, fill)


def main():
    out, data, *rest = map(pathlib.Path, sys.argv[1:])
    models = rest[0] if rest else data / "real_models"
    make_graphs(out, data)
    make_decoders(out, models)
    for name, path, fill in (("all-MiniLM-L6-v2", "minilm/onnx/model.onnx", fill_encoder),
                             ("silero_vad", "silero/silero_vad.onnx", fill_speech)):
        make(out, name, [models / path], lambda folder: models / path, fill)


if __name__ == "__main__":
    main()
