# SPDX-License-Identifier: MIT
"""lathe embed on examples/encoder and folders made from it, against BERT in numpy; on MiniLM if LATHE_REAL_MODELS
names a folder of models."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import numpy as np

import program

sys.path.insert(0, str(program.ROOT / "tests" / "support"))
import bert  # noqa: E402

ENCODER = program.ROOT / "examples" / "encoder"
TEXTS = ["the lathe turns metal", "a cat sleeps", "", "rain and cold wind today is it not rain and snow and cold sky",
         "bread", "it is an apple"]
LIMIT = 1e-5


def normalised(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


class Embed(program.ProgramTest):
    def embed(self, folder, texts, *more, code=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
        run = subprocess.run([program.PROGRAM, "embed", folder, *more], input="".join(t + "\n" for t in texts),
                             capture_output=True, text=True, cwd=self.folder, env=environment,
                             timeout=program.SECONDS)
        self.stderr = run.stderr
        self.assertEqual(run.returncode, code, run.stderr)
        return run.stdout

    def rows(self, folder, texts, *more):
        return np.array([json.loads(row) for row in self.embed(folder, texts, *more).splitlines()])

    def ids(self, texts, folder=ENCODER):
        run = subprocess.run([program.PROGRAM, "tokenize", folder, "--lines"], input="".join(t + "\n" for t in texts),
                             capture_output=True, text=True, check=True)
        return [json.loads(row) for row in run.stdout.splitlines()]

    def states(self, texts, limit=32, folder=ENCODER):
        ids = [i if len(i) <= limit else i[:limit - 1] + i[-1:] for i in self.ids(texts, folder)]
        return [bert.encode(ENCODER, i) for i in ids]

    def check(self, given, expected, limit=LIMIT):
        self.assertEqual(given.shape, np.shape(expected))
        self.assertLess(np.abs(given - expected).max(), limit)

    def made(self, name="made"):
        folder = self.path(name)
        shutil.copytree(ENCODER, folder, ignore=shutil.ignore_patterns("*.py", "README.md"))
        return folder

    def with_modules(self, pooling, *more, **settings):
        folder = self.made()
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *more]
        (folder / "modules.json").write_text(json.dumps(
            [{"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
             for i, (path, kind) in enumerate(modules)]))
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(
            {**{f"pooling_mode_{name}": True for name in pooling}, **settings}))
        return folder

    def test_texts_get_the_normalised_mean_of_their_tokens(self):
        expected = normalised(np.array([x.mean(0) for x in self.states(TEXTS)]))
        for target in ("ref", "cpu"):
            self.check(self.rows(ENCODER, TEXTS, "--target", target), expected)
        likeness = expected @ expected.T
        self.assertGreater(likeness[4, 5], likeness[4, 0])

    def test_an_embedding_does_not_depend_on_other_texts(self):
        both = self.rows(ENCODER, TEXTS * 40)
        np.testing.assert_array_equal(both[:len(TEXTS)], both[-len(TEXTS):])
        np.testing.assert_array_equal(both[0], self.rows(ENCODER, TEXTS[:1])[0])

    def verified(self, folder, *flags, longest=32):
        found = json.loads(self.run_program("verify", folder, "--json", *flags))
        self.assertEqual((found["passed"], found["failed"], found["cases"]), (1, 0, 2))
        check = found["list"][0]
        self.assertRegex(check["name"], rf"\A[\w:]+, each kernel, 4 packed texts of 1 to {longest} tokens, then one of 5\Z")
        return check

    def test_verify_compares_each_kernel(self):
        self.assertEqual(self.verified(ENCODER, "--target", "ref")["values"], [])  # nothing but the reference
        for flags in ((), ("--compute", "bf16"), ("--quantize", "int8"), ("--threads", "1")):
            names = {value["name"].partition(".")[2] for value in self.verified(ENCODER, *flags)["values"]}
            self.assertTrue(names >= {"gather", "packed_attention", "skip_layer_normalization"}, names)
        text = self.run_program("verify", ENCODER, "--tolerance", "1e-12", code=1)
        self.assertRegex(text, r"failed +\w+, each kernel, 4 packed texts")
        for flag in ("--cases", "--steps", "--seed", "--memory-limit"):
            self.run_program("verify", ENCODER, flag, 2, code=2)
            self.assertIn(f"{flag} does not apply to the encoder", self.stderr)
        both = json.loads(self.run_program("verify", ENCODER, program.ROOT / "examples" / "counting", "--json"))
        self.assertEqual([one["passed"] for one in both], [1, 1])

    def test_verify_takes_an_encoder_in_a_folder_of_its_own(self):
        folder = self.path("whole")
        folder.mkdir()
        shutil.copytree(self.made(), folder / "0_Transformer")
        shutil.move(folder / "0_Transformer" / "1_Pooling", folder)
        (folder / "0_Transformer" / "modules.json").unlink()
        (folder / "modules.json").write_text(json.dumps(
            [{"path": path, "type": f"sentence_transformers.models.{path[2:]}"} for path in ("0_Transformer", "1_Pooling")]))
        self.verified(folder)
        self.assertRegex(self.run_program("doctor", folder), r"(?m)^weights      9 of F16 .*\nencoder      embeddings of 32 ")
        tensors = bert.read_safetensors(folder / "0_Transformer" / "model.safetensors")
        place = "encoder.layer.0.output.LayerNorm.weight"
        bert.write_safetensors(folder / "0_Transformer" / "model.safetensors",
                               {**tensors, place: np.full_like(tensors[place], np.nan)})
        self.run_program("verify", folder, code=3)
        self.assertIn("embeddings of 4 texts are not finite", self.stderr)

    def test_all_kinds_of_pooling_are_concatenated_in_order(self):
        folder = self.with_modules(["lasttoken", "cls_token", "weightedmean_tokens", "max_tokens",
                                    "mean_sqrt_len_tokens", "mean_tokens"])

        def pooled(x):
            weights = np.arange(1, len(x) + 1)[:, None]
            return np.concatenate([x[0], x.max(0), x.mean(0), x.sum(0) / len(x) ** 0.5,
                                   (x * weights).sum(0) / weights.sum(), x[-1]])
        self.check(self.rows(folder, TEXTS), np.array([pooled(x) for x in self.states(TEXTS)]), 3e-5)

    def test_dense_layers_follow(self):
        folder = self.with_modules(["cls_token"], ("2_Dense", "Dense"), ("3_Dense", "Dense"), ("4_Normalize", "Normalize"))
        random = np.random.default_rng(5)
        x = np.array([states[0] for states in self.states(TEXTS)])
        for name, inputs, outputs, activation in (("2_Dense", 32, 24, "Tanh"), ("3_Dense", 24, 7, "Identity")):
            (folder / name).mkdir()
            w = {"linear.weight": random.normal(size=(outputs, inputs)).astype(np.float32)}
            if name == "2_Dense":
                w["linear.bias"] = random.normal(size=outputs).astype(np.float32)
            bert.write_safetensors(folder / name / "model.safetensors", w)
            (folder / name / "config.json").write_text(json.dumps(
                {"in_features": inputs, "out_features": outputs, "bias": "linear.bias" in w,
                 "activation_function": f"torch.nn.modules.activation.{activation}"}))
            x = x @ w["linear.weight"].T.astype(np.float64) + w.get("linear.bias", 0)
            x = np.tanh(x) if activation == "Tanh" else x
        self.check(self.rows(folder, TEXTS), normalised(x))
        self.assertIn("tanh", " ".join(value["name"] for value in self.verified(folder)["values"]))

    def test_long_texts_keep_their_end_token(self):
        folder = self.made()
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6}))
        texts = ["the cat sings and the bird swims in the sky", "a dog"]
        expected = [x.mean(0) for x in self.states(texts, 6)]
        self.check(self.rows(folder, texts), normalised(np.array(expected)))
        longer = ["bread and soup " * 30]
        self.check(self.rows(ENCODER, longer), normalised(np.array([self.states(longer)[0].mean(0)])))

    def test_prompts_precede_texts(self):
        folder = self.with_modules(["mean_tokens"], include_prompt=False)
        (folder / "config_sentence_transformers.json").write_text(json.dumps(
            {"prompts": {"query": "is it a ", "document": ""}, "default_prompt_name": "query"}))
        x = self.states(["is it a cat", "is it a machine"])
        expected = np.array([states[4:].mean(0) for states in x])  # without [CLS] and three words
        self.check(self.rows(folder, ["cat", "machine"]), expected)
        self.check(self.rows(folder, ["cat", "machine"], "--prompt-name", "query"), expected)
        for none in (["--prompt-name", "document"], ["--prompt", ""], ["-p", ""]):
            self.check(self.rows(folder, ["cat"], *none), [self.states(["cat"])[0].mean(0)])
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        self.check(self.rows(folder, ["cat"], "--prompt", "is it a "), [x[0].mean(0)])
        self.embed(folder, ["cat"], "--prompt-name", "qery", code=2)
        self.assertIn("the model has no prompt 'qery'; it has document, query", self.stderr)

    def test_unpooled_prompts_keep_the_first_token_and_their_place_in_weights(self):
        folder = self.with_modules(["cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens"],
                                   include_prompt=False)
        x = self.states(["is it a cat"])[0]
        own, weights = x[4:], np.arange(5, len(x) + 1)[:, None]
        expected = np.concatenate([x[0], own.max(0), own.sum(0) / len(own) ** 0.5,
                                   (own * weights).sum(0) / weights.sum()])
        self.check(self.rows(folder, ["cat"], "--prompt", "is it a "), [expected], 3e-5)

    def byte_level(self, **settings):
        """A folder whose tokens are letters, cat, dog, and these behind a space."""
        folder = self.with_modules(["mean_tokens"], **settings)
        merges = [("c", "a"), ("ca", "t"), ("d", "o"), ("do", "g"), ("\u0120", "cat"), ("\u0120", "dog")]
        tokens = ["<s>", "</s>", *"\u0120query:catdog", *(a + b for a, b in merges)]
        special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                    "special": True} for i, t in enumerate(tokens[:2])]
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": special,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                               "trim_offsets": True, "add_prefix_space": False},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": [" ".join(pair) for pair in merges]}}))
        return folder

    def test_the_first_word_behind_an_unpooled_prompt_is_pooled(self):
        folder = self.byte_level(include_prompt=False)
        x = self.states(["query: cat dog"], folder=folder)[0]
        self.assertEqual(len(x), 10)  # <s>, six characters, two words, </s>
        for prompt, text in (("query: ", "cat dog"), ("query:", " cat dog"), ("query: c", "at dog")):
            self.check(self.rows(folder, [text], "--prompt", prompt), [x[7:].mean(0)])

    def test_white_space_around_texts_is_removed(self):
        folder = self.byte_level()
        expected = [x.mean(0) for x in self.states(["cat dog", ""], folder=folder)]
        self.check(self.rows(folder, [" \t\u2003cat dog\u00a0 \x1f", "  "]), expected)
        self.check(self.rows(folder, ["dog "], "--prompt", " cat "), expected[:1])

    def test_settings_of_texts_have_names_by_architecture(self):
        folder = self.byte_level()
        plain = self.states(["cat dog", "dog dog dog"], 4, folder)
        for name in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"):
            file = folder / f"sentence_{name}_config.json"
            file.write_text(json.dumps({"max_seq_length": 4, "do_lower_case": True}))
            self.check(self.rows(folder, ["Cat DOG", "dog DOG dog"]), [x.mean(0) for x in plain])
            file.unlink()
        file.write_text(json.dumps({"max_seq_length": 4, "do_lower_case": True}))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))  # the first one counts
        self.check(self.rows(folder, ["dog dog dog"]), [self.states(["dog dog dog"], 3, folder)[0].mean(0)])

    def test_embeddings_are_written_to_a_file(self):
        self.assertEqual(self.embed(ENCODER, TEXTS, "-o", "out.npy"), "")
        written = np.load(self.path("out.npy"))
        self.assertEqual((written.shape, written.dtype), ((len(TEXTS), 32), np.float32))
        np.testing.assert_array_equal(written, self.rows(ENCODER, TEXTS).astype(np.float32))
        self.embed(ENCODER, [], "-o", "none.npy")
        self.assertEqual(np.load(self.path("none.npy")).shape, (0, 32))

    def test_lower_precision_stays_near(self):
        f32 = self.rows(ENCODER, TEXTS)
        for options in (["--compute", "bf16"], ["--quantize", "int8"]):
            cosine = (self.rows(ENCODER, TEXTS, *options) * f32).sum(1)
            self.assertGreater(cosine.min(), 0.999, options)

    def test_other_architectures_have_their_names_and_positions(self):
        tensors = bert.read_safetensors(ENCODER / "model.safetensors")
        expected = self.rows(ENCODER, TEXTS)
        # RoBERTa: positions begin behind the padding's.
        folder = self.made("roberta")
        w = {"roberta." + name: values for name, values in tensors.items()}
        place = "roberta.embeddings.position_embeddings.weight"
        w[place] = np.concatenate([np.full((2, 32), 9.0), w[place]])
        config = json.loads((folder / "config.json").read_text())
        for kind in ("roberta", "xlm-roberta"):
            (folder / "config.json").write_text(json.dumps({**config, "model_type": kind, "pad_token_id": 1}))
            bert.write_safetensors(folder / "model.safetensors", w)
            self.check(self.rows(folder, TEXTS), expected)
            self.verified(folder)
        folder = self.made("distilbert")
        types = tensors.pop("embeddings.token_type_embeddings.weight")
        tensors["embeddings.word_embeddings.weight"] += types[0]
        names = {"encoder.layer.": "transformer.layer.", "attention.output.LayerNorm": "sa_layer_norm",
                 "attention.self.query": "attention.q_lin", "attention.self.key": "attention.k_lin",
                 "attention.self.value": "attention.v_lin", "attention.output.dense": "attention.out_lin",
                 "intermediate.dense": "ffn.lin1", "output.dense": "ffn.lin2", "output.LayerNorm": "output_layer_norm"}

        def renamed(name):
            for old, new in names.items():
                name = name.replace(old, new)
            return "distilbert." + name
        bert.write_safetensors(folder / "model.safetensors", {renamed(n): v for n, v in tensors.items()})
        (folder / "config.json").write_text(json.dumps(
            {"model_type": "distilbert", "dim": 32, "n_layers": 1, "n_heads": 4, "activation": "gelu"}))
        self.check(self.rows(folder, TEXTS), expected)
        self.verified(folder)

    def gguf(self, path, tensors, keys, tokens, types):
        """Integers and floats as keys; strings in lists are tokens."""
        def text(value):
            return struct.pack("<Q", len(value.encode())) + value.encode()
        entries = [text("general.architecture") + struct.pack("<I", 8) + text("bert"),
                   text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("bert"),
                   text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(text, tokens)),
                   text("tokenizer.ggml.token_type") + struct.pack(f"<IIQ{len(types)}i", 9, 5, len(types), *types)]
        for name, value in keys.items():
            entries.append(text(name) + (struct.pack("<If", 6, value) if isinstance(value, float)
                                         else struct.pack("<II", 4, value)))
        infos, data = b"", b""
        for name, values in tensors.items():
            infos += text(name) + struct.pack(f"<I{values.ndim}Q", values.ndim, *reversed(values.shape))
            infos += struct.pack("<IQ", 0, len(data))
            data += values.astype(np.float32).tobytes()
            data += bytes(-len(data) % 32)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
        path.write_bytes(head + bytes(-len(head) % 32) + data)

    def test_a_gguf_file_of_a_bert(self):
        names = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
                 "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
                 "encoder.layer.0.attention.self.query": "blk.0.attn_q",
                 "encoder.layer.0.attention.self.key": "blk.0.attn_k",
                 "encoder.layer.0.attention.self.value": "blk.0.attn_v",
                 "encoder.layer.0.attention.output.dense": "blk.0.attn_output",
                 "encoder.layer.0.attention.output.LayerNorm": "blk.0.attn_output_norm",
                 "encoder.layer.0.intermediate.dense": "blk.0.ffn_up", "encoder.layer.0.output.dense": "blk.0.ffn_down",
                 "encoder.layer.0.output.LayerNorm": "blk.0.layer_output_norm"}
        tensors = {}
        for name, values in bert.read_safetensors(ENCODER / "model.safetensors").items():
            stem, end = name.rsplit(".", 1)
            tensors[f"{names[stem]}.{end}"] = values
        vocabulary = json.loads((ENCODER / "tokenizer.json").read_text())["model"]["vocab"]
        words = sorted(vocabulary, key=vocabulary.get)
        tokens = [w if w.startswith("[") else "\u2581" + w for w in words]
        types = [3 if w.startswith("[") else 1 for w in words]
        keys = {"bert.block_count": 1, "bert.context_length": 32, "bert.embedding_length": 32,
                "bert.feed_forward_length": 32, "bert.attention.head_count": 4,
                "bert.attention.layer_norm_epsilon": 1e-12, "bert.pooling_type": 2,
                "tokenizer.ggml.padding_token_id": 0, "tokenizer.ggml.unknown_token_id": 1,
                "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3}
        path = self.path("bert.gguf")
        self.gguf(path, tensors, keys, tokens, types)
        self.check(self.rows(path, TEXTS), np.array([x[0] for x in self.states(TEXTS)]))
        self.verified(path)
        self.gguf(path, tensors, {**keys, "bert.pooling_type": 4}, tokens, types)
        self.embed(path, ["cat"], code=4)
        self.assertIn("'pooling_type' is 4, expected 1 (mean), 2 (CLS) or 3 (last token)", self.stderr)

    def test_wrong_folders_are_refused(self):
        def refused(folder, message, code):
            self.embed(folder, ["cat"], code=code)
            self.assertIn(message, self.stderr)
        refused(program.ROOT / "examples" / "counting", "has no config.json with a 'model_type'", 7)
        folder = self.with_modules(["max_tokens"], ("2_Dense", "Dense"))
        refused(folder, "has no '2_Dense/config.json'", 7)
        (folder / "2_Dense").mkdir()
        for name, value in (("module_input_name", "token_embeddings"), ("module_output_name", "mine")):
            (folder / "2_Dense" / "config.json").write_text(json.dumps(
                {"in_features": 32, "out_features": 32, name: value}))
            refused(folder, f"'{name}' is '{value}', expected sentence_embedding", 4)
            self.assertIn("2_Dense/config.json", self.stderr)
        for order, message in (
                (["Transformer", "Dense", "Pooling"], "module '1_Dense' is Dense behind Transformer, expected"),
                (["Transformer", "Pooling", "Normalize", "Dense"], "module '3_Dense' is Dense behind Normalize"),
                (["Transformer", "Pooling", "Normalize", "Normalize"], "'3_Normalize' is Normalize behind Normalize"),
                (["Transformer", "Pooling", "Pooling"], "module '2_Pooling' is Pooling behind Pooling"),
                (["Pooling"], "module '0_Pooling' is Pooling at the front"),
                (["Transformer"], "none of the 1 modules is Pooling"), ([], "none of the 0 modules is Pooling")):
            (folder / "modules.json").write_text(json.dumps(
                [{"path": f"{i}_{kind}" if i or kind != "Transformer" else "", "type": f"models.{kind}"}
                 for i, kind in enumerate(order)]))
            refused(folder, message, 4)
        folder = self.made("asym")
        modules = [{"path": "", "type": "sentence_transformers.models.Asym"}]
        (folder / "modules.json").write_text(json.dumps(modules))
        refused(folder, "modules of type 'sentence_transformers.models.Asym' are not supported", 4)
        (folder / "modules.json").write_text(json.dumps([{"path": "../../x", "type": "models.Pooling"}]))
        refused(folder, "a module has the path '../../x', expected one in its folder", 3)
        self.run_program("generate", ENCODER, "-p", "cat", code=4)
        self.assertIn("an encoder, which generates no text: use 'lathe embed'", self.stderr)
        self.embed(ENCODER, ["cat"], "--prompt", "a", "--prompt-name", "query", code=2)
        self.assertIn("got --prompt and --prompt-name 'query': use one of them", self.stderr)

    def test_minilm_agrees_with_transformers(self):
        models = os.environ.get("LATHE_REAL_MODELS")
        if not models or not (pathlib.Path(models) / "minilm" / "hf").exists():
            self.skipTest("LATHE_REAL_MODELS names no folder with minilm")
        folder = pathlib.Path(models) / "minilm"
        known = np.load(folder / "expected.npz")
        mask = known["attention_mask"][..., None]
        expected = normalised((known["last_hidden_state"] * mask).sum(1) / mask.sum(1))
        texts = ["A lathe turns metal.", "The weather is lovely today, is it not?"]
        self.check(self.rows(folder / "hf", texts), expected)
        self.assertGreater((self.rows(folder / "hf", texts, "--compute", "bf16") * expected).sum(1).min(), 0.9999)


if __name__ == "__main__":
    program.main()
