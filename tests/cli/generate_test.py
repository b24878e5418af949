# SPDX-License-Identifier: MIT
"""lathe generate on examples/counting, whose answer to a number is the next one."""

import json
import subprocess

import program

COUNTING = program.ROOT / "examples" / "counting"


class Generate(program.ProgramTest):
    def generate(self, *arguments, **more):
        return self.run_program("generate", COUNTING, *arguments, **more)

    def test_a_prompt_comes_from_a_flag_a_file_or_standard_input(self):
        self.assertEqual(self.generate("-p", "nine ten"), "eleven twelve thirteen fourteen\n")
        self.path("prompt.txt").write_text("twelve\n")
        self.assertEqual(self.generate("--file", "prompt.txt"), "thirteen fourteen\n")
        out = subprocess.run([program.PROGRAM, "generate", COUNTING], input=b"eleven", capture_output=True,
                             check=True, timeout=program.SECONDS).stdout
        self.assertEqual(out, b"twelve thirteen fourteen\n")

    def test_an_empty_prompt_is_one(self):
        self.generate("-p", "", code=2)
        self.assertIn("the prompt of 0 bytes has no tokens\n  in the prompt from --prompt", self.stderr)
        self.generate("-p", "", "--ids", "1", code=2)
        self.assertIn("got 2 prompts: use one of --prompt, --file and --ids", self.stderr)
        self.assertEqual(self.generate("--chat", "--system", "nine", "-p", ""),
                         self.generate("--ids", "9", "--max-new-tokens", "9"))

    def test_json_has_the_answer_and_the_reason_of_its_end(self):
        out = json.loads(self.generate("-p", "three four", "--json", "--max-new-tokens", 3))
        self.assertEqual((out["ids"], out["text"], out["finish_reason"], out["prompt_tokens"], out["new_tokens"]),
                         ([5, 6, 7], "five six seven", "length", 2, 3))
        for rate in ("load_seconds", "first_token_seconds", "prompt_tokens_per_second", "tokens_per_second"):
            self.assertGreaterEqual(out[rate], 0)
        out = json.loads(self.generate("--ids", "13", "--json"))
        self.assertEqual((out["ids"], out["text"], out["finish_reason"]), ([14, 15], "fourteen", "stop"))

    def test_rates_follow_the_text(self):
        text, rates = self.generate("-p", "three four", "--rates", "--max-new-tokens", 3).splitlines()
        self.assertEqual(text, "five six seven")
        self.assertRegex(rates, r"\A3 tokens after a prompt of 2: the first after \d+\.\d\d s, then \d+ tokens/s, "
                                r"\d+ % of what the memory allows\Z")
        self.assertIn("1 tokens after", self.generate("--ids", "13", "--rates", "--max-new-tokens", 1))
        self.generate("-p", "one", "--rates", "--json", code=2)
        self.assertIn("--rates is for the text of one prompt; --json has rates", self.stderr)

    def test_stop_strings_end_each_sequence_of_a_batch(self):
        out = json.loads(self.generate("--ids", "1", "--ids", "9", "--stop-strings", '["elev", "four f"]',
                                       "--json"))
        self.assertEqual([(s["ids"], s["text"], s["finish_reason"]) for s in out["sequences"]],
                         [([2, 3, 4, 5], "two three ", "stop"), ([10, 11], "ten ", "stop")])
        self.assertEqual(out["rows_run"], 6)

    def test_dashes_and_underscores_are_equivalent(self):
        for flag in ("--max-new-tokens", "--max_new_tokens"):
            self.assertEqual(self.generate("-p", "one", flag, 2), "two three\n")
        self.assertEqual(self.generate("-p", "one", "--num_beams=2", "--max-new-tokens=2"), "two three\n")

    def test_a_generation_config_sets_options_without_a_value(self):
        for name in ("model.onnx", "genai_config.json", "tokenizer.json"):
            self.path(name).write_bytes((COUNTING / name).read_bytes())

        def generate(*arguments, **options):
            self.path("generation_config.json").write_text(json.dumps(options))
            return self.run_program("generate", self.folder, "--ids", 11, *arguments)

        self.assertEqual(generate(eos_token_id=13), "twelve\n")
        self.assertEqual(generate(max_new_tokens=2), "twelve thirteen\n")
        self.assertEqual(generate("--max-new-tokens", 1, max_new_tokens=2), "twelve\n")
        self.assertEqual(generate("--config", '{"search": {"max_new_tokens": 1}}', max_new_tokens=2), "twelve\n")
        self.assertEqual(generate(max_length=2), "twelve thirteen fourteen\n")  # genai_config.json sets it
        self.assertNotIn("twelve", generate(suppress_tokens=[12]))
        self.assertNotEqual(generate(begin_suppress_tokens=[12]).split()[0], "twelve")
        self.assertEqual(generate(max_new_tokens=3, forced_eos_token_id=3, max_length=4,
                                  begin_suppress_tokens=None).split()[-1], "three")
        self.assertEqual(generate(bad_words_ids=[[12, 13]], max_new_tokens=2).split()[0], "twelve")
        self.assertNotEqual(generate(bad_words_ids=[[12, 13]], max_new_tokens=2), "twelve thirteen\n")
        self.assertEqual(generate(stop_strings=["teen"]), "twelve thir\n")
        sampled = {generate("--random-seed", seed, do_sample=True, temperature=1e6, top_k=0, max_new_tokens=4)
                 for seed in range(4)}
        self.assertGreater(len(sampled), 1)
        self.assertEqual(generate("--random-seed", 1, do_sample=True, temperature=1e6, top_k=1), generate())
        self.assertEqual(generate(penalty_alpha=0.6), generate())
        generate(penalty_alpha=0.6)
        self.assertRegex(self.stderr, r"generation_config.json of '.*' requests penalty_alpha, which is not supported")

    def test_options_without_effect_are_accepted(self):
        self.assertEqual(self.generate("-p", "one", "--batch_size", 4, "--past_present_share_buffer=true",
                                       "--diversity_penalty=0", "--blank-penalty=0", "--max-new-tokens", 2), "two three\n")
        self.generate("-p", "one", "--diversity_penalty", 0.5, code=4)
        self.assertIn("search option 'diversity_penalty' is 0.5: grouped beams are not supported", self.stderr)

    def test_a_chat_goes_through_the_template(self):
        out = json.loads(self.generate("--chat", "-p", "eleven", "--system", "one two", "--json"))
        self.assertEqual((out["prompt_tokens"], out["text"]), (3, "twelve thirteen fourteen"))

    def test_template_arguments_are_json_or_strings(self):
        for name in ("model.onnx", "genai_config.json", "tokenizer.json"):
            self.path(name).write_bytes((COUNTING / name).read_bytes())
        self.path("chat_template.jinja").write_text("{{ words[1] }} {{ word }} {{ messages[0].content }}")
        out = json.loads(self.run_program("generate", self.folder, "--chat", "-p", "ten", "--json", "--template-arg",
                                          'words=["one", "two"]', "--template-arg", "word=three"))
        self.assertEqual((out["prompt_tokens"], out["text"]), (3, "eleven twelve thirteen fourteen"))

    def test_verbose_prints_the_effective_settings(self):
        self.generate("-p", "one", "--top-k", 7, "-v", "--config", '{"search": {"min_p": 0.25}}')
        self.assertRegex(self.stderr, r"(?m)^target \w+, threads \d+, loaded in ")
        self.assertRegex(self.stderr, r"(?m)^memory: weights 5.0 KiB, KV cache 128 bytes per token; ")
        self.assertRegex(self.stderr, r"(?m)^memory: weights .*, 37.0 KiB in total for a sequence of 256 tokens; ")
        self.assertRegex(self.stderr, r"(?m)^top_k = 7  \(not the default\)$")
        self.assertRegex(self.stderr, r"(?m)^min_p = 0.25  \(not the default\)$")
        self.assertRegex(self.stderr, r"(?m)^temperature = 1.0$")

    def test_a_timeout_ends_the_generation(self):
        self.generate("-p", "one", "--timeout", "0.000001", code=130)
        self.assertRegex(self.stderr, r"^error: timed out after ")


if __name__ == "__main__":
    program.main()
