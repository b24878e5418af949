# SPDX-License-Identifier: MIT
"""Classes of ONNX Runtime GenAI that exist by name and refuse their use, and its enumerations."""

from __future__ import annotations

from enum import Enum

from lathe._features import refused_class

_MODULE = "lathe.genai"

Adapters = refused_class("Adapters", "adapters", "load unload", _MODULE)
Images = refused_class("Images", "images", "open open_bytes", _MODULE)
Audios = refused_class("Audios", "audio", "open open_bytes", _MODULE)
MultiModalProcessor = refused_class(
    "MultiModalProcessor", "images", "create_stream decode", _MODULE)
StreamingProcessor = refused_class(
    "StreamingProcessor", "audio", "flush get_option process set_option", _MODULE)
MtpGenerator = refused_class(
    "MtpGenerator", "speculative decoding",
    "append_tokens generate_next_token get_sequence get_stats is_done reset", _MODULE)
Engine = refused_class(
    "Engine", "engine",
    "create_event_buffer create_request get_capabilities get_speculative_stats "
    "has_pending_requests max_draft_tokens_per_proposal run", _MODULE)
EngineCapabilities = refused_class(
    "EngineCapabilities", "engine",
    "configured_max_batch_size max_request_length max_scheduled_tokens", _MODULE)
EngineEvent = refused_class(
    "EngineEvent", "engine",
    "error_code finish_reason flags matched_stop_string_index request token turn_id usage", _MODULE)
EngineEventBuffer = refused_class("EngineEventBuffer", "engine", "", _MODULE)
Request = refused_class(
    "Request", "engine",
    "begin_turn cancel_turn close rewind_to_start_of_turn set_draft_tokens", _MODULE)
RequestOptions = refused_class("RequestOptions", "engine", "set_max_session_tokens", _MODULE)
TurnOptions = refused_class(
    "TurnOptions", "engine",
    "clear_guidance clear_seed reset set_do_sample set_guidance set_max_generated_tokens "
    "set_min_generated_tokens set_no_repeat_ngram_size set_repetition_penalty set_seed "
    "set_stop_strings set_temperature set_top_k set_top_p", _MODULE)
TurnUsage = refused_class(
    "TurnUsage", "engine", "cached_prompt_tokens generated_tokens prompt_tokens", _MODULE)


class EngineErrorCode(Enum):
    NONE = 0
    CAPACITY_DEFERRED = 1
    EXECUTION_CAPACITY_EXCEEDED = 2
    RETRYABLE_EXECUTION = 3
    REQUEST_UNSERVICEABLE = 4
    ENGINE_CONTRACT_FAILURE = 5
    ENGINE_EXECUTION_FAILURE = 6


class EngineEventFlags(Enum):
    NONE = 0
    TOKEN = 1
    TURN_FINISHED = 2
    CAPACITY_BLOCKED = 4
    FAILED = 8
    RETRYABLE = 16


class FinishReason(Enum):
    NONE = 0
    EOS = 1
    STOP_STRING = 2
    MAX_GENERATED_TOKENS = 3
    MAX_SESSION_TOKENS = 4
    CANCELLED = 5
    FAILED = 6
