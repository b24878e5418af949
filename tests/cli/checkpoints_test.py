# SPDX-License-Identifier: MIT
"""Hugging Face folders and GGUF files on the command line: inspect, weights of 16 bits, names in a Hugging Face
cache."""

import json
import os
import re
import struct
import subprocess

import numpy as np

import program

LAYER = "model.layers.0."
SHAPES = {"model.embed_tokens.weight": [6, 32], "model.norm.weight": [32], LAYER + "input_layernorm.weight": [32],
          LAYER + "post_attention_layernorm.weight": [32],
          **{f"{LAYER}self_attn.{p}_proj.weight": [32, 32] for p in "qkvo"},
          LAYER + "mlp.gate_proj.weight": [32, 32], LAYER + "mlp.up_proj.weight": [32, 32],
          LAYER + "mlp.down_proj.weight": [32, 32]}
CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 2, "vocab_size": 6, "max_position_embeddings": 16, "tie_word_embeddings": True}
GGUF_NAMES = {"model.embed_tokens.": "token_embd.", "model.norm.": "output_norm.", LAYER + "input_layernorm.": "blk.0.attn_norm.",
              LAYER + "post_attention_layernorm.": "blk.0.ffn_norm.",
              LAYER + "self_attn.q_proj.": "blk.0.attn_q.", LAYER + "self_attn.k_proj.": "blk.0.attn_k.",
              LAYER + "self_attn.v_proj.": "blk.0.attn_v.", LAYER + "self_attn.o_proj.": "blk.0.attn_output.",
              LAYER + "mlp.gate_proj.": "blk.0.ffn_gate.", LAYER + "mlp.up_proj.": "blk.0.ffn_up.",
              LAYER + "mlp.down_proj.": "blk.0.ffn_down."}


def safetensors(hidden):
    header, at = {}, 0
    for name, shape in SHAPES.items():
        shape = [hidden if n == 32 else n for n in shape]
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf():
    """Matrices as Q4_0, the rest as f32."""
    keys = {"llama.block_count": 1, "llama.context_length": 16, "llama.embedding_length": 32,
            "llama.feed_forward_length": 32, "llama.attention.head_count": 2, "llama.vocab_size": 6}
    out = b"GGUF" + struct.pack("<IQQ", 3, len(SHAPES), len(keys) + 1)
    out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    out += b"".join(text(name) + struct.pack("<II", 4, value) for name, value in keys.items())
    data = b""
    for name, shape in SHAPES.items():
        for part, to in GGUF_NAMES.items():
            name = name.replace(part, to)
        matrix = len(shape) == 2
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", 2 if matrix else 0, len(data))
        size = shape[0] * 18 if matrix else 4 * shape[0]
        data += bytes(size + -size % 32)
    return out + bytes(-len(out) % 32) + data


class Checkpoints(program.ProgramTest):
    def hf(self, folder, hidden=32):
        folder.mkdir(parents=True)
        config = {**CONFIG, "hidden_size": hidden, "intermediate_size": hidden}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").write_bytes(safetensors(hidden))
        return folder

    def test_inspect_prints_types_and_tensors(self):
        lines = self.run_program("inspect", self.hf(self.path("hf"))).splitlines()
        self.assertRegex(lines[0], r"^'.*hf': llama \(LlamaForCausalLM\), 11 tensors, 29.1 KiB$")
        self.assertEqual(lines[3], "F32           11   29.1 KiB  f32")
        self.assertIn("model.layers.0.mlp.up_proj.weight              F32         4.0 KiB  [32, 32]", lines)
        self.path("m.gguf").write_bytes(gguf())
        found = json.loads(self.run_program("inspect", self.path("m.gguf"), "--format", "json"))
        self.assertEqual(found["types"], [
            {"type": "Q4_0", "tensors": 8, "bytes": 7 * 576 + 108, "held_as": "4-bit codes, f16 scales per 32"},
            {"type": "F32", "tensors": 3, "bytes": 384, "held_as": "f32"}])

    def test_a_gguf_file_without_a_vocabulary_takes_and_prints_ids(self):
        model = self.path("m.gguf")
        model.write_bytes(gguf())
        ids = ("--ids", "1,2", "--max-new-tokens", "3")
        self.assertEqual(self.run_program("generate", model, *ids), "0,0,0\n")
        self.assertEqual(self.run_program("generate", model, *ids, "--rates").splitlines()[0], "0,0,0")
        out = json.loads(self.run_program("generate", model, *ids, "--json"))
        self.assertEqual((out["ids"], out["text"], out["prompt_tokens"]), ([0, 0, 0], "", 2))
        self.assertIn("tokens/s", self.run_program("perf", model, "--prompt-tokens", "4", "--new-tokens", "2", "-n", "1"))
        self.run_program("compile", model, "-o", self.path("m.lathe"))
        self.assertEqual(self.run_program("generate", self.path("m.lathe"), *ids), "0,0,0\n")
        for arguments, advice in ((("generate", model, "-p", "a"), "use --ids"), (("chat", model), "chat requires one")):
            self.run_program(*arguments, code=7)
            self.assertIn(f"'{model}' has no tokenizer; {advice}", self.stderr)
        self.run_program("tokenize", model, code=3)
        self.assertIn("the file has no tokenizer.ggml.tokens", self.stderr)

    def test_files_of_a_folder_may_be_links_to_elsewhere(self):
        elsewhere, folder = self.hf(self.path("disk")), self.path("linked")
        folder.mkdir()
        (folder / "config.json").symlink_to(elsewhere / "config.json")
        (folder / "model-00001-of-00001.safetensors").symlink_to(elsewhere / "model.safetensors")
        places = dict.fromkeys(SHAPES, "model-00001-of-00001.safetensors")
        (elsewhere / "index").write_text(json.dumps({"weight_map": places}))
        (folder / "model.safetensors.index.json").symlink_to("../disk/index")
        ids = ("--ids", "1,2", "--max-new-tokens", "3")
        self.assertEqual(self.run_program("generate", folder, *ids), "0,0,0\n")

    def test_inspect_prints_the_program_on_request(self):
        self.path("m.gguf").write_bytes(gguf())
        text = self.run_program("inspect", self.path("m.gguf"), "--stop-after", "imported")
        self.assertEqual(text.count("= quantize_blocks("), 8)

    def test_quantised_weights_run_and_compiled_files_refuse_them(self):
        folder = self.hf(self.path("hf"))
        ids = ("--ids", "1", "--max-new-tokens", "2")
        for how in ("int8", "int4", "int4,block=64,symmetric,head=int4"):
            self.assertEqual(self.run_program("generate", folder, *ids, "--quantize", how),
                             self.run_program("generate", folder, *ids))
        launches = self.run_program("explain", folder, "--quantize", "int4,head=none", "--json")
        self.assertEqual(launches.count('"cpu.matmul_n_bits"'), 4)  # equal products are computed once
        self.run_program("compile", folder, "-o", self.path("m.lathe"))
        self.run_program("generate", self.path("m.lathe"), *ids, "--quantize", "int4", code=2)
        self.assertIn("is a compiled file, whose weights cannot be quantised again", self.stderr)

    def test_quantised_models_are_not_quantised_again(self):
        self.path("m.gguf").write_bytes(gguf())
        message = ("m.gguf' has no float matrices of at least 16 outputs to quantise to int4: omit 'quantize' for a model "
                   "that is quantised already")
        for command in (("generate", self.path("m.gguf"), "--ids", "1"),
                        ("compile", self.path("m.gguf"), "-o", self.path("m.lathe"))):
            self.run_program(*command, "--quantize", "int4", code=2)
            self.assertIn(message, self.stderr)

    def test_quantised_weights_count_without_their_floats(self):
        def weights(*options):
            self.run_program("generate", folder, "--ids", "1", "--max-new-tokens", "1", "-v", *options)
            return float(re.search(r"memory: weights ([0-9.]+) KiB", self.stderr)[1])
        folder = self.hf(self.path("hf"), 64)
        plain, quantised = weights(), weights("--quantize", "int4,head=none")
        products = 7 * 64 * 64 / 1024
        self.assertAlmostEqual(plain - quantised, products * (4 - 0.5 - 2 / 32 - 4 / 32), delta=0.2)

    def test_weights_behind_a_header_of_odd_length_stay_in_their_file(self):
        def peak(folder, *options):
            # The peak of a process that Python starts includes Python's.
            command = ["sh", "-c", '"$@"; exit $?', "sh", program.PROGRAM, "perf", folder, "--json", "--iterations", "1",
                       "--prompt-tokens", "2", "--new-tokens", "2", *options]
            found = subprocess.run(command, capture_output=True, check=True).stdout
            return json.loads(found)["peak_memory_bytes"] / 2**20

        def generate(folder, *options):
            return self.run_program("generate", folder, "--ids", "1,2", "--max-new-tokens", "3", *options)
        hidden = 1024
        values = np.random.default_rng(5).standard_normal(7 * hidden * hidden + 9 * hidden, dtype=np.float32) / 32
        folders = []
        for rest in (0, 3):
            folder = self.hf(self.path(f"hf{rest}"), hidden)
            header = json.loads(safetensors(hidden)[8:].split(b"}}")[0] + b"}}")
            at = json.dumps(header).encode()
            at += b" " * ((rest - len(at)) % 8)
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(at)) + at + values.tobytes())
            folders.append(folder)
        for options in (("--quantize", "int4"), ("--quantize", "int8"), ()):
            self.assertEqual(generate(folders[0], *options), generate(folders[1], *options))
            if options and os.environ.get("TEST_PRESET") == "release":  # sanitizers keep freed memory
                even, odd = (peak(folder, *options) for folder in folders)
                self.assertLess(odd, even + 12, options)  # MiB; the file has 28

    def test_inspect_prints_the_constants_of_a_compiled_file(self):
        folder = self.hf(self.path("hf"), 64)
        self.run_program("compile", folder, "-o", self.path("m.lathe"))
        lines = self.run_program("inspect", self.path("m.lathe")).splitlines()
        self.assertRegex(lines[0], r"^'.*m\.lathe': llama, 1 programs compiled for cpu \(as_model\), .* of packed weights$")
        self.assertEqual(lines[2].split(), ["type", "tensors", "bytes", "held", "as"])
        found = json.loads(self.run_program("inspect", self.path("m.lathe"), "--format", "json"))
        self.assertEqual((found["type"], found["target"], found["programs"]), ("llama", "cpu", 1))
        self.assertGreater(found["packed_bytes"], 0)
        self.assertEqual({(one["type"], one["held_as"]) for one in found["types"]}, {("f32", "packed for cpu")})

    def test_doctor_prints_how_weights_are_held(self):
        self.path("m.gguf").write_bytes(gguf())
        found = self.start("doctor", self.path("m.gguf")).communicate()[0].decode()
        self.assertIn("weights      8 of Q4_0 (4-bit codes, f16 scales per 32), 3 of F32 (f32)\n", found)

    def test_doctor_describes_an_encoder(self):
        found = self.run_program("doctor", program.ROOT / "examples" / "encoder")
        self.assertRegex(found, r"(?m)^weights      9 of F16 \(f16\), 12 of F16 \(f32\)$")
        self.assertRegex(found, r"(?m)^encoder      embeddings of \d+ elements, of texts of up to \d+ tokens \(lathe embed\); "
                                r"\d+ launches on cpu$")

    def test_files_beside_what_was_opened_are_named(self):
        self.path("only").mkdir()
        self.path("only/m.gguf").write_bytes(gguf())
        self.run_program("generate", self.path("only"), "--ids", "1", code=7)
        self.assertIn("or a GGUF file; it has 'm.gguf': open that", self.stderr)
        self.path("only/config.json").write_text('{"model_type": "llama"}')
        self.run_program("generate", self.path("only"), "--ids", "1", code=7)
        self.assertIn("has no model.safetensors and no model.safetensors.index.json, but 'm.gguf': open that", self.stderr)
        (self.path("hub") / "models--org--tiny" / "snapshots").mkdir(parents=True)
        self.run_program("generate", "org/tinny", "--ids", "1", code=7, env={"HF_HUB_CACHE": str(self.path("hub"))})
        self.assertIn("(did you mean 'org/tiny'?)", self.stderr)
        self.run_program("inspect", self.hf(self.path("hf"), 64) / "model.safetensors", code=3)
        self.assertIn("a safetensors checkpoint (open the folder that also has its config.json)", self.stderr)

    def test_16_bit_weights_keep_their_size(self):
        size = 256
        shapes = {name: [size if n == 32 else n for n in shape] for name, shape in SHAPES.items()}
        random = np.random.default_rng(1)
        values = {name: random.normal(size=shape) / size ** 0.5 for name, shape in shapes.items()}
        text = {}
        for kind in ("F32", "BF16"):
            folder = self.path(kind)
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps({**CONFIG, "hidden_size": size, "intermediate_size": size}))
            header, data = {}, b""
            for name, shape in shapes.items():
                words = values[name].astype(np.float32).view(np.uint32) & 0xFFFF0000
                own = words.tobytes() if kind == "F32" else (words >> 16).astype(np.uint16).tobytes()
                header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
                data += own
            head = json.dumps(header).encode()
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
            self.run_program("generate", folder, "--ids", "1,2,3", "--max-new-tokens", "1", "--logits",
                             self.path(f"{kind}.npy"))
            text[kind] = self.run_program("explain", folder, "--target", "cpu")
        np.testing.assert_array_equal(np.load(self.path("F32.npy")), np.load(self.path("BF16.npy")))
        self.assertNotIn("of bf16 packed", text["F32"])
        self.assertIn("0.1 MiB of bf16 packed; computes in f32", text["BF16"])
        self.run_program("verify", self.path("BF16"))

    def test_names_are_found_in_the_cache(self):
        hub = self.path("home") / "hub"
        tiny = hub / "models--org--tiny"
        self.hf(tiny / "snapshots" / "abc")
        (tiny / "refs").mkdir()
        (tiny / "refs" / "main").write_text("abc")
        files = hub / "models--org--tiny-GGUF" / "snapshots" / "def"
        files.mkdir(parents=True)
        for kind in ("Q4_0", "Q4_K_M", "Q4_K"):
            (files / f"tiny-{kind}.gguf").write_bytes(gguf())
        home = {"HF_HOME": str(self.path("home")), "HF_HUB_CACHE": ""}
        self.assertIn("snapshots/abc'", self.run_program("inspect", "org/tiny", env=home))
        cache = {"HF_HUB_CACHE": str(hub)}
        for part, file in (("Q4_0", "tiny-Q4_0"), ("q4_k", "tiny-Q4_K"), ("tiny-Q4_K_M.gguf", "tiny-Q4_K_M")):
            out = self.run_program("inspect", f"org/tiny-GGUF:{part}", env=cache)
            self.assertIn(f"def/{file}.gguf'", out)
        ids = self.run_program("generate", "org/tiny", "--ids", "1", "--max-new-tokens", "2", env=home)
        self.assertEqual(ids, self.run_program("generate", tiny / "snapshots" / "abc", "--ids", "1",
                                               "--max-new-tokens", "2"))
        self.run_program("inspect", "org/tiny-GGUF:Q8_0", env=cache, code=7)
        self.assertIn("'org/tiny-GGUF:Q8_0' has 0 GGUF files of type 'Q8_0' in the cache, expected one; it has: "
                      "tiny-Q4_0.gguf, tiny-Q4_K.gguf, tiny-Q4_K_M.gguf", self.stderr)
        self.run_program("inspect", "org/other", env=cache, code=7)
        self.assertIn("'org/other' is neither a path nor in the Hugging Face cache", self.stderr)


if __name__ == "__main__":
    program.main()
