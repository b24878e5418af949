# SPDX-License-Identifier: MIT
"""Descriptions of devices, arenas and assignments; data that programs read."""

from __future__ import annotations

import platform
from typing import Any

from lathe._features import refuse
from lathe.onnxruntime._enums import OrtHardwareDeviceType
from lathe.onnxruntime._values import OrtMemoryInfo, cpu_memory


class OrtArenaCfg:
    """Limits of ONNX Runtime's arena; Lathe has none, so they have no effect."""

    def __init__(self, *args: Any) -> None:
        values = dict(args[0]) if len(args) == 1 else dict(zip(
            ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes",
             "max_dead_bytes_per_chunk"), args))
        self.max_mem = int(values.get("max_mem", 0))
        self.arena_extend_strategy = int(values.get("arena_extend_strategy", -1))
        self.initial_chunk_size_bytes = int(values.get("initial_chunk_size_bytes", -1))
        self.initial_growth_chunk_size_bytes = int(values.get("initial_growth_chunk_size_bytes", -1))
        self.max_dead_bytes_per_chunk = int(values.get("max_dead_bytes_per_chunk", -1))
        self.max_power_of_two_extend_bytes = int(values.get("max_power_of_two_extend_bytes", -1))


class OrtHardwareDevice:
    """A processor of this machine."""

    def __init__(self) -> None:
        self.type = OrtHardwareDeviceType.CPU
        self.vendor_id = 0
        self.vendor = platform.processor() or platform.machine()
        self.device_id = 0
        self.metadata: dict[str, str] = {}


class OrtSyncStream:
    """Streams need a device: absent."""

    def get_handle(self) -> int:
        refuse("streams", "OrtSyncStream.get_handle")


class OrtEpDevice:
    """A provider with its processor."""

    def __init__(self, ep_name: str) -> None:
        self.ep_name = ep_name
        self.ep_vendor = "Lathe"
        self.ep_metadata: dict[str, str] = {}
        self.ep_options: dict[str, str] = {}
        self.device = OrtHardwareDevice()

    def memory_info(self, memory_type: Any = None) -> OrtMemoryInfo:
        return cpu_memory()

    def create_sync_stream(self, *args: Any) -> OrtSyncStream:
        refuse("streams", "OrtEpDevice.create_sync_stream")


def get_ep_devices() -> list[OrtEpDevice]:
    """The provider of this machine's processor."""
    return [OrtEpDevice("LatheExecutionProvider"), OrtEpDevice("CPUExecutionProvider")]


class OrtEpAssignedNode:
    """A node of the model and the provider that runs it."""

    def __init__(self, name: str, domain: str, op_type: str) -> None:
        self.name, self.domain, self.op_type = name, domain, op_type


class OrtEpAssignedSubgraph:
    """A part of the model that one provider runs."""

    def __init__(self, ep_name: str, nodes: list[OrtEpAssignedNode]) -> None:
        self.ep_name = ep_name
        self._nodes = nodes

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return self._nodes


class OrtExternalInitializerInfo:
    """Where an initialiser lies in a file."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self.filepath, self.file_offset, self.byte_size = filepath, file_offset, byte_size
