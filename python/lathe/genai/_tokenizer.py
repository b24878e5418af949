# SPDX-License-Identifier: MIT
"""Tokenizers and chat templates."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument
from lathe.genai._config import Config, Model
from lathe.genai._tensors import Tensor


def _boolean(value: Any) -> bool:
    return value.lower() in ("1", "true") if isinstance(value, str) else bool(value)


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} are not JSON: {error}") from None


class TokenizerStream:
    """Decodes tokens one by one; a piece ends at a complete character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._step = _core.decode_stream(tokenizer._core, not tokenizer._skip_special_tokens).step

    def decode(self, token: int) -> str:
        """The text that a token completes; it may be empty."""
        return self._step(int(token))


class Tokenizer:
    """The tokenizer of a model, a configuration or a folder. Any number of threads may use it."""

    def __init__(self, model: Model | Config | str | os.PathLike[str]) -> None:
        if isinstance(model, Model):
            self._core = model._core.tokenizer()
            self._settings = model._settings.get("model", {})
            self._path = model._config._path
            self._template_of_model: Model | None = model
        else:
            config = model if isinstance(model, Config) else Config(model)
            self._path = config._path
            self._core = config._core.tokenizer()
            self._settings = config._settings().get("model", {})
            self._template_of_model = None
        self._add_special_tokens = False
        self._skip_special_tokens = True
        self._template: Any = None

    def update_options(self, **options: Any) -> None:
        """add_special_tokens and skip_special_tokens: "true" or "false"."""
        for name, value in options.items():
            if name == "add_special_tokens":
                self._add_special_tokens = _boolean(value)
            elif name == "skip_special_tokens":
                self._skip_special_tokens = _boolean(value)
            else:
                raise InvalidArgument(
                    f"unknown tokenizer option {name!r}: expected add_special_tokens or "
                    "skip_special_tokens", reason="unknown_name")

    def encode(self, text: str) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The tokens of a text, int32 [tokens]."""
        tokens: np.ndarray[Any, np.dtype[np.int32]] = self._core.encode(
            text, self._add_special_tokens)
        return tokens

    def encode_batch(self, texts: Sequence[str]) -> Tensor:
        """The tokens of several texts, int32 [texts, tokens], padded at the end."""
        lists = self._core.encode_batch(list(texts), self._add_special_tokens)
        width = max((len(ids) for ids in lists), default=0)
        out = np.full((len(lists), width), self._pad(), np.int32)
        for row, ids in zip(out, lists):
            row[: len(ids)] = ids
        return Tensor(out)

    def decode(self, tokens: Any) -> str:
        """The text of tokens, without special tokens."""
        return self._core.decode(np.asarray(tokens).reshape(-1).tolist(),
                                 not self._skip_special_tokens)

    def decode_batch(self, tokens: Any) -> list[str]:
        """The text of each row of [texts, tokens]."""
        rows = tokens.as_numpy() if isinstance(tokens, Tensor) else tokens
        return [self.decode(row) for row in rows]

    def to_token_id(self, text: str) -> int:
        """The token whose spelling is `text`; -1 without one."""
        found = self._core.token_to_id(text)
        return -1 if found is None else int(found)

    def create_stream(self) -> TokenizerStream:
        return TokenizerStream(self)

    def apply_chat_template(self, messages: str, *, template_str: str | None = None,
                            tools: str | None = None, add_generation_prompt: bool = True) -> str:
        """Renders messages, JSON, by the model's chat template or `template_str`."""
        request: dict[str, Any] = {
            "messages": _parsed("messages", messages),
            "add_generation_prompt": add_generation_prompt}
        if tools:
            request["tools"] = _parsed("tools", tools)
        template = (_core.chat_template_from_source(template_str) if template_str
                    else self._chat_template())
        return template.render(json.dumps(request))

    def _chat_template(self) -> Any:
        if self._template is None:
            model = self._template_of_model
            self._template = (model._core.chat_template() if model
                              else _core.load_chat_template(self._path))
        return self._template

    # ---- special tokens: those of genai_config.json

    def _pad(self) -> int:
        return int(self._settings.get("pad_token_id", 0) or 0)

    def _setting(self, name: str) -> int:
        value = self._settings.get(name)
        if value is None:
            value = self._special_token_id(name)
        if value is None:
            raise InvalidArgument(f"{name} is not defined for this model", reason="unknown_name")
        return int(value)

    def _special_token_id(self, name: str) -> int | None:
        """The id of a token that the tokenizer's own files name, without a genai_config.json."""
        token = None if self._settings else self._core.special_token(name.removesuffix("_id"))
        found: int | None = None if token is None else self._core.token_to_id(token)
        return found

    @property
    def bos_token_id(self) -> int:
        return self._setting("bos_token_id")

    @property
    def eos_token_ids(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        value = self._settings.get("eos_token_id")
        if value is None:
            end = self._special_token_id("eos_token_id")
            value = [] if end is None else end
        return np.array(value if isinstance(value, list) else [value], np.int32)

    @property
    def pad_token_id(self) -> int:
        return self._setting("pad_token_id")

    @property
    def bot_token_id(self) -> int:
        return self._setting("bot_token_id")

    @property
    def eot_token_id(self) -> int:
        return self._setting("eot_token_id")

    @property
    def bor_token_id(self) -> int:
        return self._setting("bor_token_id")

    @property
    def eor_token_id(self) -> int:
        return self._setting("eor_token_id")
