# SPDX-License-Identifier: MIT
"""lathe chat, on the folder examples/counting; and on a real model where LATHE_REAL_MODELS names one."""

import os
import pathlib
import signal
import subprocess
import unittest

import program

COUNTING = program.ROOT / "examples" / "counting"
REAL = pathlib.Path(os.environ.get("LATHE_REAL_MODELS", "nowhere")) / "smollm2" / "genai-int4"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_")}
# Counts on and on: the end is ruled out and the context is large.
ENDLESS = ("--suppress-tokens", "[15]", "--config",
           '{"model": {"context_length": 10000000}, "search": {"max_length": 10000000}}')


class Chat(program.ProgramTest):
    def talk(self, lines, *arguments, folder=COUNTING, code=0):
        run = subprocess.run([program.PROGRAM, "chat", folder, *arguments], input="\n".join(lines) + "\n", text=True,
                             capture_output=True, timeout=program.SECONDS, env=ENVIRONMENT)
        self.assertEqual(run.returncode, code, run.stderr)
        self.stderr = run.stderr
        return run.stdout.splitlines()

    def test_answers_come_line_by_line(self):
        self.assertEqual(self.talk(["eleven", "one twelve"]), ["twelve thirteen fourteen", "thirteen fourteen"])

    def test_statistics_count_only_new_tokens(self):
        out = self.talk(["ten", "twelve", "/stats"], "--system", "zero")
        self.assertEqual(out[2], "turns 2, tokens held 11, rows run 10")
        self.assertRegex(out[3], r"^last turn: 7 tokens kept, 1 read in .* 3 answered at .*, ended by stop$")

    def test_commands(self):
        out = self.talk(["/help", "ten", "/clear", "/stats", "/system one", "thirteen", "/clera", "/exit", "ten"])
        self.assertEqual([line.split()[0] for line in out[:5]], ["/help", "/clear", "/system", "/stats", "/exit"])
        self.assertEqual(out[5:], ["eleven twelve thirteen fourteen", "turns 0, tokens held 0, rows run 0", "fourteen",
                                   "there is no command /clera (did you mean 'clear'?); /help lists them"])

    def test_a_script_is_told_what_is_wrong(self):
        self.talk(["one " * 300], code=2)
        self.assertIn("the conversation has 300 tokens with this message", self.stderr)

    def test_an_interrupt_stops_the_answer_and_keeps_the_talk(self):
        talk = subprocess.Popen([program.PROGRAM, "chat", COUNTING, *ENDLESS], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT)
        for _ in range(2):
            talk.stdin.write("one\n")
            talk.stdin.flush()
            self.assertEqual(talk.stdout.read(9), "two three")
            talk.send_signal(signal.SIGINT)
            self.assertTrue(talk.stdout.readline().endswith("[stopped]\n"))
        out, err = talk.communicate("/stats\n", timeout=program.SECONDS)
        self.assertEqual((talk.returncode, err), (0, ""))
        self.assertTrue(out.startswith("turns 2, "), out)

    @unittest.skipUnless(REAL.exists(), "LATHE_REAL_MODELS names no models")
    def test_a_real_model_knows_the_capital_of_france(self):
        out = self.talk(["What is the capital of France?", "/stats"], "--max-new-tokens", "24", folder=REAL)
        self.assertIn("Paris", out[0])


if __name__ == "__main__":
    program.main()
