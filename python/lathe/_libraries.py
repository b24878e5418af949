# SPDX-License-Identifier: MIT
"""The registration of execution providers' libraries, which programs may do before they run."""

from __future__ import annotations

import os
import warnings

from lathe._errors import Fail

_registered: set[str] = set()


def register_execution_provider_library(name: str, path: str | os.PathLike[str]) -> None:
    """No effect: targets are built in. A warning states so; Fail for a file that is not there."""
    if name in _registered:
        raise Fail(f"a library is registered under the name '{name}' already")
    if not os.path.isfile(path):
        raise Fail(f"Failed to load library {os.fspath(path)}: no such file")
    _registered.add(name)
    warnings.warn(f"the execution provider library '{os.fspath(path)}' is not loaded: targets are "
                  "built in", stacklevel=2)


def unregister_execution_provider_library(name: str) -> None:
    """No effect: nothing was loaded. Fail for a name that is not registered."""
    if name not in _registered:
        raise Fail(f"Execution provider library: {name} was not registered.")
    _registered.discard(name)
