# SPDX-License-Identifier: MIT
"""What the three libraries offer and Lathe lacks. Using one raises Unsupported with its remedy."""

from __future__ import annotations

from typing import Any, NoReturn

from lathe import _core
from lathe._errors import Unsupported

_ABSENT: dict[str, str] = {
    "memory statistics": "lathe perf prints the peak memory",
    "writing ONNX": "leave optimized_model_filepath empty; program.text() prints the program",
    "quantize fp8": "use quantize_bf16() or quantize_int8()",
    "TensorFlow files": "convert the graph to ONNX",
    "gpu": "use the target 'cpu': this machine has no device that Lathe runs on",
    "streams": "use run(), which releases the GIL, or run_async()",
    "device memory": "this machine has no such device: keep values in host memory, device_type='cpu'",
    "copies to a GPU": "pass arrays to program.run(), which copies them to the target's device and back",
    "ONNX Runtime plug-in": "install the package onnxruntime-ep-lathe, or use lathe.onnxruntime",
    "engine": "use one Generator per conversation",
    "adapters": "merge the adapter into the model",
    "guidance": "restrict tokens by get_logits() and set_logits()",
    "speculative decoding": "use a Generator without a draft model",
    "images": "pass the processed inputs by Generator.set_model_input()",
    "audio": "pass the processed inputs by Generator.set_model_input()",
    "model packages": "use the folder of one variant",
    "sparse tensors": "pass a dense array",
    "EP contexts": "use the original ONNX file",
    "custom-op libraries": "export the model with standard operators",
    "denormals as zero": "leave session.set_denormal_as_zero off",
    "ORT format files": "use the ONNX file",
    "scan outputs that grow at their front": "reverse the scan output after the loop",
}


def present_targets() -> list[str]:
    """The names of the targets that this machine has. Looks for GPUs, which makes a context on one."""
    return [*_core.targets(), *(["gpu"] if _core.has_device("gpu") else [])]


def features() -> dict[str, str]:
    """The absent features by name, each with what to do instead."""
    from importlib import util

    present = {"gpu", "device memory"} if _core.has_device("gpu") else set()
    if util.find_spec("onnxruntime_ep_lathe") is not None:
        present.add("ONNX Runtime plug-in")
    return {name: remedy for name, remedy in _ABSENT.items() if name not in present}


def refuse(feature: str, used: str) -> NoReturn:
    """Raises Unsupported for an absent feature; `used` is the name the program used."""
    raise Unsupported(
        f"{used} is not supported: {feature}. Remedy: {_ABSENT[feature]}", reason="absent_feature"
    )


class Refused:
    """Base of classes that exist by name only: their creation and their members are refused."""

    _feature = "engine"

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse(self._feature, type(self).__name__)


def refused_method(feature: str, name: str) -> Any:
    """A member, callable on the class and on instances, that refuses a feature."""

    def call(cls: type[Any], *args: object, **kwargs: object) -> NoReturn:
        refuse(feature, f"{cls.__name__}.{name}")

    call.__name__ = name
    call.__doc__ = f"Refused: {feature}."
    return classmethod(call)  # type: ignore[arg-type]


def refused_class(name: str, feature: str, members: str = "", module: str = "lathe") -> Any:
    """A class whose creation and members refuse a feature."""
    body: dict[str, object] = {member: refused_method(feature, member) for member in members.split()}
    body["_feature"] = feature
    body["__doc__"] = f"Refused: {feature}."
    body["__module__"] = module
    return type(name, (Refused,), body)


def refused_function(name: str, feature: str) -> Any:
    """A function that refuses a feature."""

    def call(*args: object, **kwargs: object) -> NoReturn:
        refuse(feature, name)

    call.__name__ = name
    call.__doc__ = f"Refused: {feature}."
    return call
