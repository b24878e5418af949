# SPDX-License-Identifier: MIT
"""Execution providers: names of ONNX Runtime, mapped to targets."""

from __future__ import annotations

import collections.abc
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from lathe import _core
from lathe.onnxruntime._exceptions import Fail

LATHE = "LatheExecutionProvider"
CPU = "CPUExecutionProvider"

# Spelled as in ONNX Runtime where the engine's table has another case or none.
_SPELLINGS = {"lathe": LATHE, "TensorRT": "TensorrtExecutionProvider",
              "NvTensorRtRtx": "NvTensorRTRTXExecutionProvider",
              "XNNPACK": "XnnpackExecutionProvider", "DML": "DmlExecutionProvider",
              "WebGPU": "WebGpuExecutionProvider"}

# The vendor whose devices a provider of GPUs runs on; "gpu": any.
_VENDORS = {"CUDA": "cuda", "TensorRT": "cuda", "NvTensorRtRtx": "cuda", "MIGraphX": "hip", "ROCM": "hip",
            "AMDGPU": "hip"}


def _target_of(name: str, options: Mapping[str, str]) -> str | None:
    """The target of a provider by the engine's table; None for an unknown or absent one."""
    found = _core.provider(name)
    if found is None:
        return None
    if found[1] != "gpu":
        return str(found[1]) if found[1] in _core.targets() else None
    vendor = _VENDORS.get(found[0], "gpu")
    target = f"{vendor}:{options.get('device_id', '0')}"
    # A number that the vendor lacks is refused by the compilation.
    return target if _core.has_device(target) or _core.has_device(vendor) else None


def get_available_providers() -> list[str]:
    """The providers that this machine has, best first."""
    names: list[str] = []
    if _core.has_device("hip"):
        names += ["MIGraphXExecutionProvider", "ROCMExecutionProvider"]
    if _core.has_device("cuda"):
        names.append("CUDAExecutionProvider")
    return [*names, LATHE, CPU]


def get_all_providers() -> list[str]:
    """Every provider name that is understood; the CPU's is the last, as in ONNX Runtime."""
    names = [_SPELLINGS.get(name, f"{name}ExecutionProvider") for name in _core.providers()]
    return [*(name for name in names if name != CPU), CPU]


Provider = tuple[str, dict[str, str]]


def normalize(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
) -> list[Provider]:
    """Names with their options as strings. ValueError for other forms."""
    if providers is None:
        return []
    if isinstance(providers, str):
        providers = [providers]
    if not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    pairs: list[tuple[Any, Any]] = []
    if provider_options is not None:
        if not isinstance(provider_options, collections.abc.Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError(
                "'providers' and 'provider_options' should be the same length if both are given."
            )
        if not all(isinstance(name, str) for name in providers):
            raise ValueError(
                "Only string values for 'providers' are supported if 'provider_options' is given."
            )
        if not all(isinstance(options, dict) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options))
    else:
        for provider in providers:
            if isinstance(provider, str):
                pairs.append((provider, {}))
            elif (
                isinstance(provider, tuple)
                and len(provider) == 2
                and isinstance(provider[0], str)
                and isinstance(provider[1], dict)
            ):
                pairs.append(provider)
            else:
                raise ValueError(
                    "'providers' values must be either strings or (string, dict) tuples."
                )
    out: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name in out:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        out[name] = {str(key): str(value) for key, value in options.items()}
    return list(out.items())


def choose_target(providers: list[Provider], no_fallback: bool) -> tuple[str, list[Provider]]:
    """The target of the first provider that is present, and the providers in use. Absent ones are
    named in one warning; with `no_fallback` they are an error. Lathe's own takes a target by its
    option `target`, a GPU's its number by `device_id`. Without a provider: the processor."""
    present = _core.targets()
    best = next(name for name in ("cpu", "ref") if name in present)
    absent: list[str] = []
    for name, options in providers:
        target = _target_of(name, options)
        if target is None:
            absent.append(name)
            continue
        if absent:
            _report(absent, target, no_fallback)
        rest: list[Provider] = [] if name == CPU else [(CPU, {})]
        if name == LATHE:
            target = options.get("target", best)
        return target, [(name, options), *rest]
    if absent:
        _report(absent, best, no_fallback)
    return best, [(CPU, {})]


def _report(absent: list[str], best: str, no_fallback: bool) -> None:
    names = ", ".join(f"'{name}'" for name in absent)
    text = (
        f"Specified provider {names} is not in available provider names. "
        f"Available providers: '{', '.join(get_available_providers())}'"
    )
    if no_fallback:
        raise Fail(f"{text}; session.disable_cpu_ep_fallback excludes '{best}'")
    warnings.warn(f"{text}. The session runs on '{best}'.", stacklevel=5)
