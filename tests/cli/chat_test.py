# SPDX-License-Identifier: MIT
"""lathe chat on examples/counting, and on a real model if LATHE_REAL_MODELS names a folder of models."""

import os
import pathlib
import signal
import subprocess
import unittest

import program

COUNTING = program.ROOT / "examples" / "counting"
REAL = pathlib.Path(os.environ.get("LATHE_REAL_MODELS", "nowhere")) / "smollm2" / "genai-int4"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
# Never ends: the end token is suppressed and the context is large.
ENDLESS = ("--suppress-tokens", "[15]", "--config",
           '{"model": {"context_length": 10000000}, "search": {"max_length": 10000000}}')


class Chat(program.ProgramTest):
    def chat(self, lines, *arguments, folder=COUNTING, code=0):
        run = subprocess.run([program.PROGRAM, "chat", folder, *arguments], input="\n".join(lines) + "\n", text=True,
                             capture_output=True, timeout=program.SECONDS, env=ENVIRONMENT)
        self.assertEqual(run.returncode, code, run.stderr)
        self.stderr = run.stderr
        return run.stdout.splitlines()

    def test_every_line_gets_an_answer(self):
        self.assertEqual(self.chat(["eleven", "one twelve"]), ["twelve thirteen fourteen", "thirteen fourteen"])

    def test_statistics_count_only_new_tokens(self):
        out = self.chat(["ten", "twelve", "/stats"], "--system", "zero")
        self.assertEqual(out[2], "turns 2, tokens held 11, tokens run 10")
        self.assertRegex(out[3], r"^last turn: 7 tokens kept, 1 prefilled in .* 3 generated at .*, ended by stop$")

    def test_commands(self):
        out = self.chat(["/help", "ten", "/clear", "/stats", "/system one", "thirteen", "/clera", "/exit", "ten"])
        self.assertEqual([line.split()[0] for line in out[:5]], ["/help", "/clear", "/system", "/stats", "/exit"])
        self.assertEqual(out[5:], ["eleven twelve thirteen fourteen", "turns 0, tokens held 0, tokens run 0", "fourteen",
                                   "unknown command /clera (did you mean 'clear'?); /help lists commands"])

    def test_a_script_ends_with_the_error(self):
        self.chat(["one " * 300], code=2)
        self.assertIn("the conversation has 300 tokens with this message", self.stderr)

    def test_an_interrupt_stops_only_the_answer(self):
        chat = subprocess.Popen([program.PROGRAM, "chat", COUNTING, *ENDLESS], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT)
        for _ in range(2):
            chat.stdin.write("one\n")
            chat.stdin.flush()
            self.assertEqual(chat.stdout.read(9), "two three")
            chat.send_signal(signal.SIGINT)
            self.assertTrue(chat.stdout.readline().endswith("[stopped]\n"))
        out, err = chat.communicate("/stats\n", timeout=program.SECONDS)
        self.assertEqual((chat.returncode, err), (0, ""))
        self.assertTrue(out.startswith("turns 2, "), out)

    @unittest.skipUnless(REAL.exists(), "LATHE_REAL_MODELS names no models")
    def test_a_real_model_answers_a_question(self):
        out = self.chat(["What is the capital of France?", "/stats"], "--max-new-tokens", "24", folder=REAL)
        self.assertIn("Paris", out[0])


if __name__ == "__main__":
    program.main()
