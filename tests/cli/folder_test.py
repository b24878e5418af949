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
                     "products_per_second", "share_of_bandwidth", "share_of_compute"):
            self.assertGreater(out[rate], 0, rate)
        text = self.run_program("perf", COUNTING, "-n", 1)
        self.assertRegex(text, r"(?m)^prompt of 191 tokens: .* tokens a second, first token after ")

    def test_a_request_that_cannot_fit_fails_before_it_runs(self):
        self.run_program("generate", COUNTING, "--ids", "1,2,3", "--memory-limit", "300", code=5)
        self.assertIn("3 tokens take 384 bytes of caches (128 bytes a token)", self.stderr)


if __name__ == "__main__":
    program.main()
