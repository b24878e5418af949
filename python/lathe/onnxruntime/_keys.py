# SPDX-License-Identifier: MIT
"""The configuration keys of sessions and runs: honoured, without effect, or refused.

A key that is not listed has no effect, as in ONNX Runtime."""

from __future__ import annotations

from lathe._errors import InvalidArgument
from lathe._features import refuse

_MAX_KEY = 1024  # as in ONNX Runtime

# Key -> why it changes nothing that a program can observe, except speed.
NO_EFFECT_REASONS = {
    "ep.": "providers of ONNX Runtime are absent",
    "mlas.": "kernels of ONNX Runtime are absent",
    "optimization.": "Lathe's own passes decide; they change no result beyond rounding",
    "session.": "a setting of ONNX Runtime's memory, threads or file formats",
    "memory.": "Lathe has no arena to shrink",
}

HONOURED = {
    "session.disable_cpu_ep_fallback": "1: a provider that is absent is an error",
    "session.intra_op_num_threads": "threads of the session",
    "session.use_per_session_threads": "0: the threads of the process",
    "session.enable_profiling": "1: writes a profile",
    "session.model_external_initializers_file_folder_path": "folder of a model in memory",
    "session.load_model_format": "ONNX",
    "session.record_ep_graph_assignment_info": "1: get_provider_graph_assignment_info()",
}

# (key, values that are harmless, absent feature)
REFUSED = [
    ("session.set_denormal_as_zero", ("0", ""), "denormals as zero"),
    ("session.load_model_format", ("ONNX", "onnx", ""), "ORT format files"),
    ("session.save_model_format", ("ONNX", "onnx", ""), "writing ONNX"),
    ("session.optimized_model_filepath", ("",), "writing ONNX"),
    ("session.optimized_model_external_initializers_file_name", ("",), "writing ONNX"),
    ("session.compile_only", ("0", ""), "EP contexts"),
    ("ep.context_enable", ("0", ""), "EP contexts"),
    ("ep.context_file_path", ("",), "EP contexts"),
    ("ep.share_ep_contexts", ("0", ""), "EP contexts"),
    ("session.collect_node_memory_stats_to_file", ("",), "memory statistics"),
]


def check_config_entry(key: str, value: str) -> None:
    """Raises for a key or value that is no string, and for a key of no or too many characters."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"config entry {key!r} = {value!r}: expected two strings")
    if not 0 < len(key) <= _MAX_KEY:
        raise InvalidArgument(
            f"a config key has {len(key)} characters, expected 1 to {_MAX_KEY}")


def check_session_key(key: str, value: str) -> None:
    """Raises Unsupported for a value that would change results, limits or files."""
    for name, harmless, feature in REFUSED:
        if key == name and value not in harmless:
            refuse(feature, f"session option {key}={value!r}")


def effect_of(key: str) -> str:
    """"works", "refused" or the reason why a key has no effect."""
    if key in HONOURED:
        return "works"
    if any(key == name for name, _, _ in REFUSED):
        return "refused"
    for prefix, reason in NO_EFFECT_REASONS.items():
        if key.startswith(prefix):
            return reason
    return "unknown keys have no effect"
