# SPDX-License-Identifier: MIT
"""Requests to tests/decoders/decoder_probe.cpp."""

import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

PROGRAM = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent / "tests" / "decoder_probe"


class Refused(Exception):
    """The decoder's error message."""


class Probe:
    """One process that keeps the last model open."""

    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Refused(f"the probe ended with {self.process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise Refused(answer["error"])
        return answer

    def logits(self, model, prompts, parts=(), together=True, back=0):
        """Logits [tokens, vocabulary] of all prompts, concatenated; run in parts of these sizes, or unsplit. With
        `back`, prompts run, rewind to this many tokens and run again: the logits of the second run."""
        path = pathlib.Path(self.folder.name) / "logits"
        answer = self.ask({**model, "tokens": prompts, "parts": list(parts), "together": together, "back": back,
                           "logits": str(path)})
        return np.fromfile(path, np.float32).reshape(-1, answer["vocabulary"])

    def item(self, model, tokens, positions=None, embedded=()):
        """Logits [tokens, vocabulary] of one request; positions [tokens] or [3, tokens], embeddings as pairs of begin
        and [tokens, hidden]."""
        folder = pathlib.Path(self.folder.name)
        parts = []
        for i, (begin, values) in enumerate(embedded):
            (folder / f"embeddings{i}").write_bytes(values.astype("<f4").tobytes())
            parts.append({"begin": begin, "dims": values.shape, "file": str(folder / f"embeddings{i}")})
        explicit = [] if positions is None else np.asarray(positions).ravel().tolist()
        answer = self.ask({**model, "tokens": tokens, "positions": explicit, "embedded": parts,
                           "item": str(folder / "logits")})
        return np.fromfile(folder / "logits", np.float32).reshape(-1, answer["vocabulary"])

    def states(self, model, prompt, parts=()):
        """States of one prompt, f32 by present name, in the file's layout."""
        folder = pathlib.Path(self.folder.name)
        answer = self.ask({**model, "tokens": [prompt], "parts": list(parts), "logits": str(folder / "logits"),
                           "states": str(folder)})
        return {name: np.fromfile(folder / name, np.float32).reshape(dims) for name, dims in answer["states"].items()}

    def generate(self, model, prompts, **options):
        """A list of {"ids", "score"} for each prompt."""
        return self.ask({**model, "generate": [{"tokens": tokens, "options": options} for tokens in prompts]})
