# SPDX-License-Identifier: MIT
"""prepare, run and their checks, as the ONNX backend interface defines them."""

from __future__ import annotations

import os
from typing import Any

from lathe import _core
from lathe.onnxruntime._options import SessionOptions
from lathe.onnxruntime._session import InferenceSession
from lathe.onnxruntime.backend.backend_rep import LatheBackendRep

_GPUS = ("gpu", "cuda", "hip")


class LatheBackend:
    """Implements onnx.backend.base.Backend."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """True for a device that is present; `prepare` names unsupported operators."""
        return cls.supports_device(device or "CPU")

    @classmethod
    def supports_device(cls, device: str) -> bool:
        name = device.partition(":")[0].lower()
        return name in ("cpu", "lathe") or (name in _GPUS and _core.has_device(device.lower()))

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> LatheBackendRep:
        """Compiles a ModelProto, bytes, a path, or a session. Keywords are session options."""
        if isinstance(model, LatheBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return LatheBackendRep(model)
        if not cls.supports_device(device or "CPU"):
            raise RuntimeError(f"device '{device}' is not present")
        if isinstance(model, (str, bytes, os.PathLike)):
            options = SessionOptions()
            providers = kwargs.pop("providers", None)
            target = (device or "CPU").lower()
            if providers is None and target.partition(":")[0] in _GPUS:
                providers = [("LatheExecutionProvider", {"target": target})]
            for name, value in kwargs.items():
                if hasattr(options, name):
                    setattr(options, name, value)
            return LatheBackendRep(InferenceSession(model, options, providers))
        return cls.prepare(model.SerializeToString(), device, **kwargs)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """Compiles and runs a model once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None,
                 **kwargs: Any) -> Any:
        raise NotImplementedError("nodes run as models: build one with onnx.helper.make_model")


is_compatible = LatheBackend.is_compatible
prepare = LatheBackend.prepare
run = LatheBackend.run_model
supports_device = LatheBackend.supports_device
