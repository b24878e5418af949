# SPDX-License-Identifier: MIT
"""ONNX Runtime's logits, and distances of distributions."""

import numpy as np

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def onnxruntime_logits(session, tokens, head_size=64):
    """Logits of all tokens of a prompt without past; `head_size` for graphs that leave it unknown."""
    count = len(tokens)
    feeds = {}
    for given in session.get_inputs():
        dims = [extent if isinstance(extent, int) else {"batch_size": 1, "kv_cache_dim": head_size}.get(extent, 0)
                for extent in given.shape]
        feeds[given.name] = np.zeros(dims, TYPES[given.type])
    feeds["input_ids"] = np.array([tokens], feeds["input_ids"].dtype)
    if "attention_mask" in feeds:
        feeds["attention_mask"] = np.ones((1, count), feeds["attention_mask"].dtype)
    if "position_ids" in feeds:
        positions = np.arange(count, dtype=feeds["position_ids"].dtype)
        feeds["position_ids"] = np.broadcast_to(positions, (3, 1, count) if feeds["position_ids"].ndim == 3 else (1, count))
    return session.run(["logits"], feeds)[0][0].astype(np.float32)


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def mean_kl(exact, other):
    """Mean of KL(exact || other) over tokens."""
    a, b = log_softmax(exact), log_softmax(other)
    return float((np.exp(a) * (a - b)).sum(axis=-1).mean())
