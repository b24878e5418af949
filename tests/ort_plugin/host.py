# SPDX-License-Identifier: MIT
"""Sessions of ONNX Runtime on the execution provider."""

import os
import pathlib

import onnxruntime

LIBRARY = pathlib.Path(os.environ.get("LATHE_ORT_LIBRARY", "build/release/lib/liblathe_ort.so")).resolve()
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:3])
_registered = set()


def resident():
    """Bytes of this process's memory that are resident."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def devices(name="LatheExecutionProvider", registration="lathe"):
    if registration not in _registered:
        onnxruntime.register_execution_provider_library(registration, str(LIBRARY))
        _registered.add(registration)
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name][-1:]


def session(model, options=None, *, fallback=False, name="LatheExecutionProvider", registration="lathe", **entries):
    """A session on a model's bytes or path; without `fallback` no node may stay with the CPU EP."""
    config = onnxruntime.SessionOptions()
    config.log_severity_level = 4
    config.intra_op_num_threads = 1
    if not fallback:
        config.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, value in entries.items():
        config.add_session_config_entry(key.replace("__", "."), value)
    config.add_provider_for_devices(devices(name, registration), options or {})
    # Python's own fallback would try again without the provider and report that error instead.
    return onnxruntime.InferenceSession(model, config, enable_fallback=0)


def cpu_session(model):
    config = onnxruntime.SessionOptions()
    config.log_severity_level = 4
    config.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, config, providers=["CPUExecutionProvider"])
