# SPDX-License-Identifier: MIT
"""Search options."""

from __future__ import annotations

import json
from typing import Any

from lathe import _core
from lathe._errors import InvalidArgument
from lathe._features import refuse
from lathe.genai._config import Model

# The options that get_search_options() returns, as ONNX Runtime GenAI does.
_NAMES = (
    "batch_size", "chunk_size", "diversity_penalty", "do_sample", "early_stopping",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beams",
    "num_return_sequences", "past_present_share_buffer", "random_seed", "repetition_penalty",
    "temperature", "top_k", "top_p",
)
# Options without effect in the engine, which keeps no value of them.
_WITHOUT_VALUE = {
    "batch_size": 1, "blank_penalty": 0, "chunk_size": 0, "diversity_penalty": 0,
    "past_present_share_buffer": False,
}
_MOST_PROMPTS = 32


class GeneratorParams:
    """Search options of a model, initially those of its folder."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._core = _core.generator_params(model._core)
        self._set: dict[str, Any] = {}

    def set_search_options(self, **options: Any) -> None:
        """Sets options by name: max_length=200, do_sample=True, top_p=0.9, …

        Lathe's own are accepted too: stop_strings, min_p, logit_bias, max_new_tokens, …
        """
        for name, value in options.items():
            if hasattr(value, "item"):
                value = value.item()
            if isinstance(value, float) and value.is_integer():
                value = int(value)  # get_search_options() returns all numbers as floats
            if name == "batch_size" and not 1 <= int(value) <= _MOST_PROMPTS:
                raise InvalidArgument(f"batch_size is {value}, expected 1 to {_MOST_PROMPTS}")
            self._core.set(name, json.dumps(value))
            self._set[name] = value

    def get_search_options(self) -> dict[str, Any]:
        """The values in effect: booleans and floats."""
        values = {name: self._get(name) for name in _NAMES}
        return {name: value if isinstance(value, bool) else float(value or 0)
                for name, value in values.items()}

    def _get(self, name: str) -> Any:
        if name in self._set:
            return self._set[name]
        if name in _WITHOUT_VALUE:
            return self._model._settings.get("search", {}).get(name, _WITHOUT_VALUE[name])
        return json.loads(self._core.get(name))

    def _copy(self, **options: Any) -> GeneratorParams:
        out = GeneratorParams(self._model)
        out.set_search_options(**{**self._set, **options})
        return out

    def set_speculative_options(self, **options: Any) -> None:
        refuse("speculative decoding", "GeneratorParams.set_speculative_options")

    def get_speculative_options(self) -> dict[str, Any]:
        """Empty: nothing is speculated."""
        return {}

    def set_guidance(self, type: str, data: str, enable_ff_tokens: bool = False) -> None:
        refuse("guidance", "GeneratorParams.set_guidance")
