# SPDX-License-Identifier: MIT
"""Requests with position ids and embeddings against ONNX Runtime, on the decoders of make_decoder.py: text around an
image, whose embeddings are inputs with grid positions.

usage: items_test.py        requires the Python packages numpy, onnx and onnxruntime
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from probe import Probe

IMAGE = 30
TEXT = [3, 7, 21, 4, 11]
TOKENS = TEXT + [IMAGE] * 6 + [9, 2, 28]
# Time, height and width; text continues after the largest.
GRID = np.array([[0, 1, 2, 3, 4] + [5] * 6 + [8, 9, 10],
                 [0, 1, 2, 3, 4] + [5, 5, 5, 6, 6, 6] + [8, 9, 10],
                 [0, 1, 2, 3, 4] + [5, 6, 7, 5, 6, 7] + [8, 9, 10]])
GAPS = np.array([0, 1, 2, 3, 4, 5, 5, 5, 9, 9, 9, 10, 12, 40])
# Flags of make_decoder.py, positions, and whether the prompt has an image.
CASES = {
    "positions": (["positions"], GAPS, False),
    "positions_alone": (["positions", "items"], GAPS, False),
    "grid": (["mrope"], GRID, False),
    "grid_alone": (["mrope", "items"], GRID, False),
    "one_axis_for_three": (["mrope"], GAPS, False),
    "text_by_embeddings": (["embeddings"], None, False),
    "image": (["features"], None, True),
    "image_alone": (["features", "items"], None, True),
    "image_in_a_grid": (["features", "mrope"], GRID, True),
    "image_in_a_grid_alone": (["features", "mrope", "items"], GRID, True),
    "layers": (["layers"], None, False),
    "both": (["both"], None, False),
    "both_with_image": (["both", "features"], None, True),
}


def run(folder, name, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    for given in session.get_inputs():
        if given.name.startswith("past"):
            feeds[given.name] = np.zeros((1, given.shape[1], 0, given.shape[3]), np.float32)
    results = session.run(None, {name: feeds[name] for name in names})
    return dict(zip((o.name for o in session.get_outputs()), results))


def reference(folder, tokens, positions, image):
    """Logits [tokens, vocabulary] of ONNX Runtime."""
    ids = np.array([tokens])
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids),
             "image_features": np.zeros((0, 64), np.float32) if image is None else image}
    if (folder / "embedding.onnx").exists():
        feeds.update(run(folder, "embedding.onnx", feeds))
    if positions is not None:
        feeds["position_ids"] = positions[:, None] if positions.ndim == 2 else positions[None]
    return run(folder, "model.onnx", feeds)["logits"][0]


def check(probe, folder, flags, positions, with_image):
    """Yields problems."""
    image = np.random.default_rng(3).standard_normal((6, 64)).astype(np.float32) if with_image else None
    tokens = TOKENS if with_image else [token % IMAGE for token in TOKENS]
    meant = positions
    if "mrope" in flags and positions.ndim == 1:
        meant = np.stack([positions] * 3)
    expected = reference(folder, tokens, meant, image)
    for target in ("ref", "cpu"):
        model = {"folder": str(folder), "target": target}
        packed = probe.ask({**model, "notes": True})["packed"]
        if packed == ("items" in flags):
            yield f"packed is {packed} on {target}"
        got = probe.item(model, tokens, positions, [(len(TEXT), image)] if with_image else [])
        away = np.abs(got - expected).max()
        if not away <= 1e-4 * np.abs(expected).max():
            yield f"logits on {target} are {away} away"


def main():
    passed, failed = 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for name, (flags, positions, with_image) in CASES.items():
            folder = pathlib.Path(work) / name
            folder.mkdir()
            subprocess.run([sys.executable, "tests/decoders/make_decoder.py", folder, "-1", *flags], check=True)
            problems = list(check(probe, folder, flags, positions, with_image))
            for problem in problems:
                print(f"wrong: {name}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
