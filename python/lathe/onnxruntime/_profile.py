# SPDX-License-Identifier: MIT
"""The profile of a session: a JSON array of events in the Chrome trace format."""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from lathe.onnxruntime._node_arg import element_name

_MAX_EVENTS = 1_000_000


def _shapes(tensors: list[dict[str, Any]]) -> list[dict[str, list[int]]]:
    return [{element_name(tensor["type"]): tensor["dims"]} for tensor in tensors]


def _bytes(tensors: list[dict[str, Any]], constant: bool = False) -> str:
    return str(sum(int(tensor["bytes"]) for tensor in tensors if tensor["constant"] == constant))


class Profile:
    """Collects events of any thread. A launch is an event of category Node: its operators are those
    of the model's nodes that it computes, joined by "+"."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.perf_counter_ns()
        now = datetime.datetime.now()
        self._path = f"{prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000}.json"
        self._events: list[dict[str, Any]] = []
        self.is_open = True

    def _add(self, category: str, name: str, start: int, args: Mapping[str, Any]) -> None:
        if not self.is_open or len(self._events) >= _MAX_EVENTS:
            return
        end = time.perf_counter_ns()
        self._events.append({
            "cat": category, "pid": os.getpid(), "tid": threading.get_native_id(),
            "dur": (end - start) // 1000, "ts": (start - self.start_ns) // 1000, "ph": "X",
            "name": name, "args": args})

    def session_event(self, name: str, start: int) -> None:
        self._add("Session", name, start, {})

    def run_event(self, start: int, provider: str, trace: str) -> None:
        """A run that began at `start`, and its launches: the text of _core's trace."""
        began = (start - self.start_ns) // 1000
        for index, event in enumerate(json.loads(trace)):
            if not self.is_open or len(self._events) >= _MAX_EVENTS:
                return
            args = event["args"]
            nodes = args["nodes"]
            name = next((node["name"] for node in nodes if node["name"]), f"{event['cat']}_{index}")
            kinds = dict.fromkeys(node["op_type"] for node in nodes if node["op_type"])
            self._events.append({
                "cat": "Node", "pid": os.getpid(), "tid": threading.get_native_id(),
                "dur": round(event["dur"]), "ts": began + round(event["ts"]), "ph": "X",
                "name": f"{name}_kernel_time", "args": {
                    "op_name": "+".join(kinds) or event["cat"], "provider": provider,
                    "node_index": str(index), "kernel": args.get("kernel", ""),
                    "activation_size": _bytes(args["operands"]),
                    "parameter_size": _bytes(args["operands"], constant=True),
                    "output_size": _bytes(args["results"]),
                    "input_type_shape": _shapes(args["operands"]),
                    "output_type_shape": _shapes(args["results"]),
                    "thread_scheduling_stats": ""}})
        self._add("Session", "SequentialExecutor::Execute", start, {})
        self._add("Session", "model_run", start, {})

    def finish(self) -> str:
        """Writes the file at the first call; returns its path."""
        if self.is_open:
            self.is_open = False
            lines = ",\n".join(json.dumps(event) for event in self._events)
            with open(self._path, "w", encoding="utf-8") as file:
                file.write(f"[\n{lines}\n]\n")
        return self._path
