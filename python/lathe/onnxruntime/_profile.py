# SPDX-License-Identifier: MIT
"""The profile of a session: a JSON array of events in the Chrome trace format."""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_MAX_EVENTS = 1_000_000


def _shapes(values: Sequence[Any]) -> list[dict[str, list[int]]]:
    return [{str(value.dtype): list(value.shape)} for value in values if isinstance(value, np.ndarray)]


class Profile:
    """Collects events of any thread. A plan is one kernel: its event has the operator "Lathe"."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.perf_counter_ns()
        now = datetime.datetime.now()
        self._path = f"{prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000}.json"
        self._events: list[dict[str, Any]] = []
        self._is_open = True

    def _add(self, category: str, name: str, start: int, args: Mapping[str, Any]) -> None:
        if not self._is_open or len(self._events) >= _MAX_EVENTS:
            return
        end = time.perf_counter_ns()
        self._events.append({
            "cat": category, "pid": os.getpid(), "tid": threading.get_native_id(),
            "dur": (end - start) // 1000, "ts": (start - self.start_ns) // 1000, "ph": "X",
            "name": name, "args": args})

    def session_event(self, name: str, start: int) -> None:
        self._add("Session", name, start, {})

    def run_event(self, start: int, graph: str, provider: str, feed: Mapping[str, Any],
                  results: Sequence[Any]) -> None:
        inputs, outputs = list(feed.values()), list(results)
        self._add("Node", f"{graph}_kernel_time", start, {
            "op_name": "Lathe", "provider": provider, "node_index": "0",
            "activation_size": str(sum(getattr(value, "nbytes", 0) for value in inputs)),
            "parameter_size": "0",
            "output_size": str(sum(getattr(value, "nbytes", 0) for value in outputs)),
            "input_type_shape": _shapes(inputs), "output_type_shape": _shapes(outputs),
            "thread_scheduling_stats": ""})
        self._add("Session", "SequentialExecutor::Execute", start, {})
        self._add("Session", "model_run", start, {})

    def finish(self) -> str:
        """Writes the file at the first call; returns its path."""
        if self._is_open:
            self._is_open = False
            lines = ",\n".join(json.dumps(event) for event in self._events)
            with open(self._path, "w", encoding="utf-8") as file:
                file.write(f"[\n{lines}\n]\n")
        return self._path
