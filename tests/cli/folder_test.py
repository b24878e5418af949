# SPDX-License-Identifier: MIT
"""lathe doctor DIR and lathe perf DIR, on examples/counting and damaged copies of it."""

import json

import program

COUNTING = program.ROOT / "examples" / "counting"


class Folder(program.ProgramTest):
    def copy(self, **changes):
        """Copies the folder; `changes` maps a file name, with _dot_ for a dot, to new bytes or None."""
        for file in COUNTING.iterdir():
            if file.suffix != ".py":
                self.path(file.name).write_bytes(file.read_bytes())
        for name, data in changes.items():
            file = self.path(name.replace("_dot_", "."))
            file.unlink()
            if data is not None:
                file.write_bytes(data)
        return self.folder

    def rows(self, *arguments, **more):
        lines = self.run_program("doctor", *arguments, **more).splitlines()
        return [(line[:12].strip(), line[13:]) for line in lines]

    def test_doctor_describes_a_folder(self):
        rows = self.rows(COUNTING, "--target", "ref")
        self.assertEqual(rows[0], ("folder", "type llama, context of 256 tokens"))
        self.assertEqual(rows[1], ("program", "model.onnx (6.0 KiB): 16 instructions, all operators supported"))
        self.assertEqual(rows[2], ("tokenizer", "16 tokens; end tokens: 15 <end>"))
        self.assertEqual(rows[3], ("template", "'Hello' is rendered as 'Hello '"))
        self.assertEqual(rows[4], ("target", "ref"))
        self.assertEqual(rows[5], ("memory", "weights 5.0 KiB, KV cache 128 bytes per token"))
        self.assertEqual(rows[6], ("memory", "37.0 KiB in total for a sequence of 256 tokens"))
        self.assertRegex(rows[7][1], r"^\d+ launches; tokens of all sequences are packed$")

    def test_doctor_warns_of_a_context_that_exceeds_memory(self):
        rows = self.rows(COUNTING, "--config", '{"model": {"context_length": 1000000000000}}')
        self.assertRegex(rows[6][1], r"^warning: 116.4 TiB in total for a sequence of 1000000000000 tokens, but "
                         r".*iB are available: \d+ tokens fit$")
        rows = self.rows(COUNTING, "--memory-limit", "1K")
        self.assertEqual(rows[6][1], "warning: 37.0 KiB in total for a sequence of 256 tokens, but the KV cache limit "
                         "is 1.0 KiB: 8 tokens fit")

    def test_a_configuration_can_be_changed_from_the_command_line(self):
        change = '{"model": {"decoder": {"session_options": {"intra_op_num_threads": 3}}}}'
        for command, wanted in (("doctor", "sequences"), ("perf", "3 threads"), ("explain", "cpu.")):
            more = ["--prompt-tokens", 4, "--new-tokens", 2, "-n", 1] if command == "perf" else []
            self.assertIn(wanted, self.run_program(command, COUNTING, "--config", change, "--target", "cpu", *more))
        for command in ("perf", "explain"):
            self.run_program(command, COUNTING / "model.onnx", "--config", "{}", code=2)
            self.assertRegex(self.stderr, r"--config does not apply to '.*model.onnx', which is not a model folder")
        self.run_program("doctor", "--config", "{}", code=2)
        self.assertIn("--config does not apply to the machine: it requires a model folder", self.stderr)

    def test_threads_option_overrides_the_folder(self):
        config = json.loads((COUNTING / "genai_config.json").read_text())
        config["model"]["decoder"]["session_options"] = {"intra_op_num_threads": 3}
        folder = self.copy(genai_config_dot_json=json.dumps(config).encode())
        for more, threads in (((), 3), (("--threads", 2), 2), (("--pin-threads",), 3)):
            self.run_program("generate", folder, "--ids", 1, "-v", *more)
            self.assertRegex(self.stderr, rf"(?m)^target \w+, threads {threads}, loaded in ")

    def test_doctor_lists_every_problem_and_ends_with_the_first(self):
        folder = self.copy(model_dot_onnx=b"version https://git-lfs\n", tokenizer_dot_json=b"{}",
                           chat_template_dot_jinja=b"{% if %}")
        found = dict(self.rows(folder, code=3))
        self.assertIn("problem: ", found["program"])
        self.assertIn("is a Git LFS pointer (24 bytes), not the file itself", found["program"])
        self.assertIn("problem: ", found["tokenizer"])
        self.assertIn("problem: ", found["template"])
        self.assertIn("problem: ", found["decoder"])
        self.assertRegex(self.stderr, r"\Aerror: '.*model.onnx' is a Git LFS pointer")

    def test_doctor_reports_a_missing_path_as_an_error(self):
        self.assertTrue(self.run_program("doctor", "missing", code=7).startswith("folder       problem: "))
        self.assertTrue(self.stderr.startswith("error: 'missing' is not a model"), self.stderr)

    def test_a_folder_without_a_template_is_valid(self):
        found = dict(self.rows(self.copy(chat_template_dot_jinja=None)))
        self.assertEqual(found["template"], "none; lathe chat requires one")

    def test_perf_measures_prefill_and_decode(self):
        out = json.loads(self.run_program("perf", COUNTING, "--prompt-tokens", 20, "--new-tokens", 8, "-n", 2, "--json"))
        self.assertEqual((out["prompt_tokens"], out["new_tokens"], out["cache_bytes_per_token"],
                          out["products_per_token"]), (20, 8, 128, 16 * 48 + 16 * 16))
        for rate in ("first_token_seconds", "prompt_tokens_per_second", "tokens_per_second", "bytes_per_second",
                     "share_of_bandwidth", "share_of_compute"):
            self.assertGreater(out[rate], 0, rate)
        several = json.loads(self.run_program("perf", COUNTING, "--prompt-tokens", 20, "--new-tokens", 8, "-n", 1,
                                              "--sequences", 5, "--json"))
        self.assertEqual(several["sequences"], 5)
        self.assertAlmostEqual(several["prompt_tokens_per_second"] * several["first_token_seconds"], 5 * 20, places=3)
        text = self.run_program("perf", COUNTING, "-n", 1)
        self.assertRegex(text, r"(?m)^prefill time: .*between launches .* %; GEMM with constant weights .* %$")
        self.assertRegex(text, r"(?m)^prefill of 191 tokens: .* tokens/s, first token after ")

    def test_perf_compares_a_device_with_its_own_limits(self):
        out = json.loads(self.run_program("perf", COUNTING, "--prompt-tokens", 4, "--new-tokens", 3, "-n", 1, "--warmup", 0,
                                          "--json", "--target", "sim"))
        for rate in ("bytes_per_second", "share_of_bandwidth", "share_of_compute"):
            self.assertTrue(0 < out[rate] < 1e15, f"{rate} {out[rate]}")

    def test_perf_counts_one_generation_alone(self):
        text = self.run_program("perf", COUNTING, "--prompt-tokens", 4, "--new-tokens", 3, "--count",
                                "--target", "gpu:host")
        self.assertRegex(text, r"\A\nlaunches +MB +fetched ")
        rows = [line.split() for line in text.splitlines()[4:]]
        launches = {row[-1]: int(row[0]) for row in rows}
        self.assertEqual((launches["choose_tokens"], launches["gemm"]), (3, 6), text)
        self.assertLess(sum(float(row[1]) for row in rows), 1, text)  # MB

    def test_perf_runs_as_often_as_requested(self):
        small = ["perf", COUNTING, "--prompt-tokens", 4, "--new-tokens", 2]
        for flags, runs in (((), 3), (("-n", 10), 10), (("--iterations", 1, "--warmup", 0), 1)):
            self.assertEqual(json.loads(self.run_program(*small, "--json", *flags))["iterations"], runs)
        self.assertRegex(self.run_program(*small, "-n", 10), r"\A.*counting on \w+, .*; median of 10 runs\n")

    def test_flags_that_do_not_apply_are_refused(self):
        model = COUNTING / "model.onnx"
        for command, subject, flags in (
                ("perf", COUNTING, ("--fill", "n=3")), ("perf", COUNTING, ("--trace", "t")),
                ("perf", COUNTING, ("--all",)), ("perf", COUNTING, ("--seed", "1")),
                ("perf", COUNTING, ("--state", "a=b")), ("perf", model, ("--new-tokens", "3")),
                ("perf", model, ("--prompt-tokens", "3")),
                ("perf", model, ("--sequences", "3")), ("explain", COUNTING, ("--state", "a=b")),
                ("explain", COUNTING, ("--timeout", "1")), ("doctor", COUNTING, ("--seed", "1")),
                ("doctor", COUNTING, ("--options-markdown",))):
            self.run_program(command, subject, *flags, code=2)
            self.assertRegex(self.stderr, rf"\Aerror: lathe {command}: {flags[0]} does not apply to .*'{subject}'")
            self.assertIn(f"see: lathe {command} --help", self.stderr)
        self.assertFalse(self.path("t").exists())

    def test_perf_compares_weight_gemms_with_the_measured_rate_of_their_type(self):
        for compute in ("int8", "bf16", "f32"):
            out = json.loads(self.run_program("perf", COUNTING, "--prompt-tokens", 20, "--new-tokens", 8, "-n", 1,
                                              "--json", "--target", "cpu", "--compute", compute))
            self.assertEqual(list(out["products"]), [compute])
            products = out["products"][compute]
            self.assertEqual((products["per_row"], products["per_prompt"]), (16 * 48, 16 * 16))
            self.assertGreater(products["per_second_here"], 0)
            for shares in (out["prompt_shares"], out["decode_shares"]):
                self.assertGreater(shares["cpu"], 0)
                self.assertGreater(shares["weight_products"], 0)
                places = {k: v for k, v in shares.items() if k != "weight_products"}
                self.assertAlmostEqual(sum(places.values()), 1, places=6)

    def test_a_request_beyond_memory_fails_before_it_runs(self):
        self.run_program("generate", COUNTING, "--ids", "1,2,3", "--memory-limit", "300", code=5)
        self.assertIn("3 tokens require 384 bytes of KV caches (128 bytes per token)", self.stderr)


if __name__ == "__main__":
    program.main()
