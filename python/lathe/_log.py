# SPDX-License-Identifier: MIT
"""The engine's log as the logger "lathe": warnings, and more by logging.getLogger("lathe").setLevel()
together with LATHE_LOG."""

from __future__ import annotations

import atexit
import logging

from lathe import _core

_LOGGER = logging.getLogger("lathe")
_LEVELS = (logging.WARNING, logging.INFO)


def write(level: int, line: str) -> None:
    """Logs a line of the engine; level 0 is a warning."""
    _LOGGER.log(_LEVELS[level] if level < len(_LEVELS) else logging.DEBUG, "%s", line.rstrip())


# Threads of the engine may log while the interpreter ends.
atexit.register(_core.close_log)
