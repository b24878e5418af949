# SPDX-License-Identifier: MIT
"""Model folders compiled to files."""

import json
import shutil
import struct
import unittest

import numpy as np

import program
from program import ROOT

COUNTING = ROOT / "examples" / "counting"


class CompileFolder(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.file = self.path("counting.lathe")
        self.run_program("compile", COUNTING, "-o", self.file)

    def generated(self, model, *arguments):
        return json.loads(self.run_program("generate", model, "--max-new-tokens", 6, "--json", *arguments))

    def test_it_generates_as_its_folder(self):
        for arguments in (["--ids", "3,4"], ["-p", "one two"], ["-p", "five", "--num-beams", 2]):
            ours, theirs = (self.generated(model, *arguments) for model in (self.file, COUNTING))
            self.assertEqual(ours["sequences"] if "sequences" in ours else ours["ids"],
                             theirs["sequences"] if "sequences" in theirs else theirs["ids"])

    def test_it_stands_alone(self):
        shutil.copytree(COUNTING, self.path("copy"))
        self.run_program("compile", "copy", "-o", "copy.lathe")
        expected = self.generated("copy", "--ids", "3,4")
        shutil.rmtree(self.path("copy"))
        found = self.generated("copy.lathe", "--ids", "3,4")
        self.assertEqual(found.get("ids"), expected.get("ids"))
        self.assertEqual(found.get("text"), expected.get("text"))

    def test_the_other_commands_take_it(self):
        self.assertIn("launches", json.loads(self.run_program("explain", self.file, "--json")))
        self.run_program("perf", self.file, "--prompt-tokens", 4, "--new-tokens", 2)
        self.run_program("doctor", self.file)
        self.assertRegex(self.run_program("verify", self.file), r"passed +\w+, each kernel")
        self.assertIn("programs compiled for cpu", self.run_program("inspect", self.file))
        self.run_program("inspect", self.file, "--format", "dot", code=4)
        self.assertIn("is the compiled file of a language model", self.stderr)

    def test_another_target_lowers_it_again(self):
        ours = self.generated(self.file, "--ids", "3,4", "--target", "ref")
        theirs = self.generated(COUNTING, "--ids", "3,4", "--target", "ref")
        self.assertEqual(ours.get("ids"), theirs.get("ids"))

    def test_its_configuration_is_changed_when_it_is_written_or_opened(self):
        overlay = '{"search": {"max_length": 4}}'
        self.run_program("compile", COUNTING, "-o", "short.lathe", "--config", overlay)
        written = self.run_program("generate", "short.lathe", "--ids", "3,4", "--json")
        opened = self.run_program("generate", self.file, "--ids", "3,4", "--json", "--config", overlay)
        self.assertEqual(json.loads(written).get("ids"), json.loads(opened).get("ids"))

    def test_damaged_files_are_errors(self):
        content = self.file.read_bytes()
        for cut in (9, len(content) // 2, len(content) - 1):
            self.file.write_bytes(content[:cut])
            self.run_program("generate", self.file, "--ids", "3", code=3)
        self.run_program("compile", self.file, "-o", "again.lathe", code=3)

    def tied_folder(self, name, dtype):
        """A model of one layer with a tied embedding. Returns the number of its weights."""
        shapes = {"embed_tokens": [4096, 256], "norm": [256], **{f"layers.0.{name}": shape for name, shape in (
            ("input_layernorm", [256]), ("post_attention_layernorm", [256]), *((f"self_attn.{p}_proj", [256, 256]) for p in "qkvo"),
            ("mlp.gate_proj", [512, 256]), ("mlp.up_proj", [512, 256]), ("mlp.down_proj", [256, 512]))}}
        rng = np.random.default_rng(1)
        header, data, weights = {}, b"", 0
        for tensor, shape in shapes.items():
            values = rng.standard_normal(shape, np.float32)
            # bf16 is the upper half.
            values = {"F32": values, "F16": values.astype(np.float16), "BF16": (values.view(np.uint32) >> 16).astype(np.uint16)}[dtype]
            header[f"model.{tensor}.weight"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + values.nbytes]}
            data += values.tobytes()
            weights += values.size
        text = json.dumps(header).encode()
        self.path(name).mkdir()
        self.path(f"{name}/model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        self.path(f"{name}/config.json").write_text(json.dumps({
            "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 4096,
            "max_position_embeddings": 64, "tie_word_embeddings": True}))
        return weights

    def assert_stored_once(self, folder, most, *options):
        self.run_program("compile", folder, "-o", "tied.lathe", *options)
        self.assertLess(self.path("tied.lathe").stat().st_size, most + (96 << 10))  # 96 KiB for the rest
        ours = self.generated("tied.lathe", "--ids", "3,4")
        theirs = self.generated(folder, "--ids", "3,4", *options)
        self.assertEqual(ours["ids"], theirs["ids"])

    def test_a_tied_embedding_and_quantised_weights_are_stored_once(self):
        weights = self.tied_folder("tied", "F32")
        for kind in ("int8", "int4"):  # the head has 8 bits; an f32 scale per 32 elements
            self.assert_stored_once("tied", weights * 9 / 8, "--quantize", kind)

    def test_a_tied_embedding_of_floats_is_stored_once(self):
        for dtype, size in (("F32", 4), ("F16", 2), ("BF16", 2)):
            weights = self.tied_folder(dtype, dtype)
            self.assert_stored_once(dtype, weights * size)


if __name__ == "__main__":
    program.main()
