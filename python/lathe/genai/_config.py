# SPDX-License-Identifier: MIT
"""Configurations and models."""

from __future__ import annotations

import json
import os
from typing import Any

from lathe import _core
from lathe._features import refuse


def _merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


class Config:
    """The configuration of a model: its folder, with a genai_config.json or a config.json, or its
    GGUF file; and changes to genai_config.json."""

    def __init__(self, path: str | os.PathLike[str] = "") -> None:
        self._path = os.fspath(path)
        self._core = _core.model_config(self._path or None)
        self._overlays: list[str] = []
        self._data: dict[str, bytes] = {}

    @staticmethod
    def from_package_ep(config_path: str, ep: str) -> Config:
        refuse("model packages", "Config.from_package_ep")

    def append_provider(self, name: str) -> None:
        self._core.append_provider(name)

    def set_provider_option(self, provider: str, key: str, value: str) -> None:
        self._core.set_provider_option(provider, key, value)

    def clear_providers(self) -> None:
        self._core.clear_providers()

    def overlay(self, json: str) -> None:
        """Merges JSON into genai_config.json."""
        self._core.overlay(json)
        self._overlays.append(json)

    def add_model_data(self, name: str, data: Any) -> None:
        """Adds a file of the folder from memory: bytes, which are not copied, or a buffer."""
        content = data if isinstance(data, bytes) else bytes(memoryview(data))
        self._core.add_model_data(name, content)
        self._data[name] = content

    def remove_model_data(self, name: str) -> None:
        self._core.remove_model_data(name)
        self._data.pop(name, None)

    def set_decoder_provider_options_hardware_device_type(self, provider: str, value: str) -> None:
        """No effect: the target has one device."""

    def set_decoder_provider_options_hardware_device_id(self, provider: str, value: int) -> None:
        """No effect: the target has one device."""

    def set_decoder_provider_options_hardware_vendor_id(self, provider: str, value: int) -> None:
        """No effect: the target has one device."""

    def clear_decoder_provider_options_hardware_device_type(self, provider: str) -> None:
        """No effect: the target has one device."""

    def clear_decoder_provider_options_hardware_device_id(self, provider: str) -> None:
        """No effect: the target has one device."""

    def clear_decoder_provider_options_hardware_vendor_id(self, provider: str) -> None:
        """No effect: the target has one device."""

    def _settings(self) -> dict[str, Any]:
        """genai_config.json with the overlays."""
        try:
            if "genai_config.json" in self._data:
                settings = json.loads(self._data["genai_config.json"])
            else:
                with open(os.path.join(self._path, "genai_config.json"), encoding="utf-8") as file:
                    settings = json.load(file)
            for overlay in self._overlays:
                _merge(settings, json.loads(overlay))
        except (OSError, ValueError):
            return {}
        return settings if isinstance(settings, dict) else {}


class Model:
    """An open model. Any number of threads may use it. Keywords are Lathe's own and change the
    configuration: `quantize` quantises float weights as they are loaded ("int4", "int8",
    "int4,block=64"), `compute` is the type of products ("as_model", "f32", "bf16", "int8"),
    `threads` and `target` are those it runs on."""

    def __init__(self, config: Config | str | os.PathLike[str], *, quantize: str | None = None,
                 compute: str | None = None, threads: int | None = None,
                 target: str | None = None) -> None:
        self._config = config if isinstance(config, Config) else Config(config)
        core = self._config._core
        if quantize is not None:
            core.set_quantize(quantize)
        if compute is not None:
            core.set_compute(compute)
        if threads is not None:
            core.set_threads(threads)
        if target is not None:
            core.set_target(target)
        self._core = _core.open_model(core)
        # Also those of a GGUF file or of a folder with a config.json.
        self._settings: dict[str, Any] = json.loads(self._core.setting("")) or {}

    @property
    def type(self) -> str:
        """The architecture: "llama"."""
        return str(self._core.type())

    @property
    def device_type(self) -> str:
        """"CPU"."""
        return str(self._core.device()).upper()

    def create_multimodal_processor(self) -> Any:
        refuse("images", "Model.create_multimodal_processor")

    def create_streaming_processor(self) -> Any:
        refuse("audio", "Model.create_streaming_processor")
