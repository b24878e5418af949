# SPDX-License-Identifier: MIT
"""The classes under the name of the module that defines them in ONNX Runtime."""

from lathe.onnxruntime._binding import IOBinding  # noqa: F401
from lathe.onnxruntime._providers import normalize as check_and_normalize_provider_args  # noqa: F401
from lathe.onnxruntime._compiler import ModelCompiler  # noqa: F401
from lathe.onnxruntime._refused import AdapterFormat  # noqa: F401
from lathe.onnxruntime._session import InferenceSession  # noqa: F401
from lathe.onnxruntime._values import (  # noqa: F401
    OrtDevice,
    OrtValue,
    SparseTensor,
    copy_tensors,
)

Session = InferenceSession
