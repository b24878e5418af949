# SPDX-License-Identifier: MIT
"""The names of ONNX Runtime GenAI over Lathe: `import lathe.genai as og`.

    model = og.Model("folder")
    tokenizer = og.Tokenizer(model)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=200)
    generator = og.Generator(model, params)
    generator.append_tokens(tokenizer.encode("Hello!"))
    stream = tokenizer.create_stream()
    for token in generator:
        print(stream.decode(token), end="")
"""

from __future__ import annotations

from lathe._libraries import (
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from lathe.genai._config import Config, Model
from lathe.genai._generator import Generator
from lathe.genai._module import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_current_gpu_device_id,
    is_cuda_available,
    is_dml_available,
    is_openvino_available,
    is_qnn_available,
    is_webgpu_available,
    set_current_gpu_device_id,
    set_log_callback,
    set_log_options,
)
from lathe.genai._params import GeneratorParams
from lathe.genai._refused import (
    Adapters,
    Audios,
    Engine,
    EngineCapabilities,
    EngineErrorCode,
    EngineEvent,
    EngineEventBuffer,
    EngineEventFlags,
    FinishReason,
    Images,
    MtpGenerator,
    MultiModalProcessor,
    Request,
    RequestOptions,
    StreamingProcessor,
    TurnOptions,
    TurnUsage,
)
from lathe.genai._tensors import NamedTensors, Tensor
from lathe.genai._tokenizer import Tokenizer, TokenizerStream

__version__ = "0.18.0"
__all__ = [name for name in dir() if not name.startswith("_")]
