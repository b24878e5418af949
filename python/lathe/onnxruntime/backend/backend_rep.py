# SPDX-License-Identifier: MIT
"""A prepared model of the ONNX backend interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lathe.onnxruntime._options import RunOptions
from lathe.onnxruntime._session import InferenceSession


class LatheBackendRep:
    """Runs a session on a list or a dict of inputs, or on one array."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """The outputs as a list. Keywords are attributes of RunOptions."""
        options = RunOptions()
        for name, value in kwargs.items():
            if hasattr(options, name):
                setattr(options, name, value)
        return self._session.run(None, self._feed(inputs), options)

    def _feed(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        names = [arg.name for arg in self._session.get_inputs()]
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(values) > len(names):
            raise RuntimeError(f"got {len(values)} inputs, expected at most {len(names)}")
        return dict(zip(names, values))
