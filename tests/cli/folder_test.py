# SPDX-License-Identifier: MIT
"""lathe doctor DIR and lathe perf DIR, on the folder examples/counting and on damaged copies of it."""

import json

import program

COUNTING = program.ROOT / "examples" / "counting"


class Folder(program.ProgramTest):
    def copy(self, **changes):
        """A copy of the folder; `changes`: name with _ for . to its new bytes, None: not there."""
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

    def test_doctor_tells_what_a_folder_is(self):
        rows = self.rows(COUNTING, "--target", "ref")
        self.assertEqual(rows[0], ("folder", "a llama of context 256"))
        self.assertEqual(rows[1], ("program", "model.onnx (6.0 KiB): 16 instructions, every operator known"))
        self.assertEqual(rows[2], ("tokenizer", "16 tokens; ends: 15 <end>"))
        self.assertEqual(rows[3], ("template", "'Hello' becomes 'Hello '"))
        self.assertEqual(rows[4], ("target", "ref"))
        self.assertEqual(rows[5], ("memory", "weights 5.0 KiB, cache 128 bytes a token"))
        self.assertEqual(rows[6], ("memory", "37.0 KiB in all for a sequence of 256 tokens"))
        self.assertRegex(rows[7][1], r"^\d+ launches; rows of all sequences are packed$")

    def test_doctor_warns_of_a_context_that_memory_has_no_room_for(self):
        rows = self.rows(COUNTING, "--config", '{"model": {"context_length": 1000000000000}}')
        self.assertRegex(rows[6][1], r"^warning: 116.4 TiB in all for a sequence of 1000000000000 tokens, and "
                         r".*iB are available: there is room for \d+ tokens$")
        rows = self.rows(COUNTING, "--memory-limit", "1K")
        self.assertEqual(rows[6][1], "warning: 37.0 KiB in all for a sequence of 256 tokens, and the limit for caches "
                         "is 1.0 KiB: there is room for 8 tokens")

    def test_a_configuration_can_be_changed_from_the_command_line(self):
        change = '{"model": {"decoder": {"session_options": {"intra_op_num_threads": 3}}}}'
        for command, wanted in (("doctor", "sequences"), ("perf", "3 threads"), ("explain", "cpu.")):
            more = ["--prompt-tokens", 4, "--new-tokens", 2, "-n", 1] if command == "perf" else []
            self.assertIn(wanted, self.run_program(command, COUNTING, "--config", change, "--target", "cpu", *more))
        for command in ("perf", "explain"):
            self.run_program(command, COUNTING / "model.onnx", "--config", "{}", code=2)
            self.assertIn("--config wants a model folder, and '", self.stderr)
        self.run_program("doctor", "--config", "{}", code=2)
        self.assertIn("--config is '{}', but no folder is given", self.stderr)

    def test_threads_of_the_folder_hold_until_others_are_given(self):
        config = json.loads((COUNTING / "genai_config.json").read_text())
        config["model"]["decoder"]["session_options"] = {"intra_op_num_threads": 3}
        folder = self.copy(genai_config_dot_json=json.dumps(config).encode())
        for more, threads in (((), 3), (("--threads", 2), 2), (("--pin-threads",), 3)):
            self.run_program("generate", folder, "--ids", 1, "-v", *more)
            self.assertRegex(self.stderr, rf"(?m)^target \w+, threads {threads}, loaded in ")

    def test_doctor_tells_every_problem_and_ends_with_the_first(self):
        folder = self.copy(model_dot_onnx=b"version https://git-lfs\n", tokenizer_dot_json=b"{}",
                           chat_template_dot_jinja=b"{% if %}")
        found = dict(self.rows(folder, code=3))
        self.assertIn("problem: ", found["program"])
        self.assertIn("is a Git LFS pointer, not the model", found["program"])
        self.assertIn("problem: ", found["tokenizer"])
        self.assertIn("problem: ", found["template"])
        self.assertIn("problem: ", found["decoder"])

    def test_a_folder_without_a_template_is_no_problem(self):
        found = dict(self.rows(self.copy(chat_template_dot_jinja=None)))
        self.assertEqual(found["template"], "none: lathe chat wants one")

    def test_perf_measures_prompts_and_answers(self):
        out = json.loads(self.run_program("perf", COUNTING, "--prompt-tokens", 20, "--new-tokens", 8, "-n", 2, "--json"))
        self.assertEqual((out["prompt_tokens"], out["new_tokens"], out["cache_bytes_per_token"],
                          out["products_per_token"]), (20, 8, 128, 16 * 48 + 16 * 16))
        for rate in ("first_token_seconds", "prompt_tokens_per_second", "tokens_per_second", "bytes_per_second",
                     "share_of_bandwidth", "share_of_compute"):
            self.assertGreater(out[rate], 0, rate)
        text = self.run_program("perf", COUNTING, "-n", 1)
        self.assertRegex(text, r"(?m)^time of the prompt: .*between .* %; products with weights .* %$")
        self.assertRegex(text, r"(?m)^prompt of 191 tokens: .* tokens a second, first token after ")

    def test_perf_compares_products_with_the_peak_of_their_type(self):
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

    def test_a_request_that_cannot_fit_fails_before_it_runs(self):
        self.run_program("generate", COUNTING, "--ids", "1,2,3", "--memory-limit", "300", code=5)
        self.assertIn("3 tokens require 384 bytes of KV caches (128 bytes per token)", self.stderr)


if __name__ == "__main__":
    program.main()
