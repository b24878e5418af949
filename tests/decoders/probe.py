# SPDX-License-Identifier: MIT
"""Decoders on request: what the tests here ask tests/decoders/decoder_probe.cpp."""

import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

PROGRAM = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent / "tests" / "decoder_probe"


class Refused(Exception):
    """The decoder's own message."""


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
        """[rows, vocabulary] of all prompts, one behind the other; run in parts of these sizes, or whole. With
        `back`, prompts are run, cut to so many rows and run again from there: the rows from there on."""
        path = pathlib.Path(self.folder.name) / "logits"
        answer = self.ask({**model, "tokens": prompts, "parts": list(parts), "together": together, "back": back,
                           "logits": str(path)})
        return np.fromfile(path, np.float32).reshape(-1, answer["vocabulary"])

    def item(self, model, tokens, positions=None, embedded=()):
        """[rows, vocabulary] of one item; positions [rows] or [3, rows], embeddings as pairs of where they begin and
        rows [rows, hidden]."""
        folder = pathlib.Path(self.folder.name)
        parts = []
        for i, (begin, rows) in enumerate(embedded):
            (folder / f"rows{i}").write_bytes(rows.astype("<f4").tobytes())
            parts.append({"begin": begin, "dims": rows.shape, "file": str(folder / f"rows{i}")})
        told = [] if positions is None else np.asarray(positions).ravel().tolist()
        answer = self.ask({**model, "tokens": tokens, "positions": told, "embedded": parts,
                           "item": str(folder / "logits")})
        return np.fromfile(folder / "logits", np.float32).reshape(-1, answer["vocabulary"])

    def states(self, model, prompt, parts=()):
        """Of one prompt, f32 by the names of their presents, as the file has them."""
        folder = pathlib.Path(self.folder.name)
        answer = self.ask({**model, "tokens": [prompt], "parts": list(parts), "logits": str(folder / "logits"),
                           "states": str(folder)})
        return {name: np.fromfile(folder / name, np.float32).reshape(dims) for name, dims in answer["states"].items()}

    def generate(self, model, prompts, **options):
        """Of each prompt a list of {"ids", "score"}."""
        return self.ask({**model, "generate": [{"tokens": tokens, "options": options} for tokens in prompts]})
