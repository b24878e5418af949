# SPDX-License-Identifier: MIT
"""Functions of the module: devices and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lathe import _core

_gpu_device_id = 0


def is_cuda_available() -> bool:
    return bool(_core.has_device("cuda"))


def is_dml_available() -> bool:
    return False


def is_webgpu_available() -> bool:
    return False


def is_qnn_available() -> bool:
    return False


def is_openvino_available() -> bool:
    return False


def set_current_gpu_device_id(device_id: int) -> None:
    """The device of models that request one."""
    global _gpu_device_id
    _gpu_device_id = int(device_id)


def get_current_gpu_device_id() -> int:
    return _gpu_device_id


def enable_telemetry_events() -> None:
    """No effect: Lathe has no telemetry."""


def disable_telemetry_events() -> None:
    """No effect: Lathe has no telemetry."""


class _Handler(logging.Handler):
    def __init__(self, callback: Callable[[str], Any]) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        self._callback(self.format(record) + "\n")


def set_log_options(**options: Any) -> None:
    """enabled: whether the logger "lathe" emits; filename: a file for its lines. Others have no
    effect."""
    logger = logging.getLogger("lathe")
    if "enabled" in options:
        logger.disabled = not options["enabled"]
    if options.get("filename"):
        logger.addHandler(logging.FileHandler(options["filename"]))


def set_log_callback(callback: Callable[[str], Any] | None) -> None:
    """Calls callback(line) for each line of the log; None removes it."""
    logger = logging.getLogger("lathe")
    for handler in [h for h in logger.handlers if isinstance(h, _Handler)]:
        logger.removeHandler(handler)
    if callback is not None:
        logger.addHandler(_Handler(callback))
