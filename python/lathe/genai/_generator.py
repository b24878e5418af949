# SPDX-License-Identifier: MIT
"""Generation of tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import Interrupted, InvalidArgument
from lathe._features import refuse
from lathe.genai._config import Model
from lathe.genai._params import GeneratorParams
from lathe.genai._tensors import NamedTensors, Tensor

Tokens = np.ndarray[Any, np.dtype[np.int32]]
_BY_STOP = 1  # finish reason of the C interface


def _token_ids(tokens: Any) -> Tokens:
    """A contiguous int32 array of token ids of rank 1 or 2."""
    if type(tokens) is np.ndarray and tokens.dtype == np.int32 and tokens.ndim == 1:
        return np.ascontiguousarray(tokens)
    given = np.asarray(tokens._array if isinstance(tokens, Tensor) else tokens)
    if given.size == 0:
        raise InvalidArgument("input_ids is empty")
    if given.dtype.kind not in "iu":
        raise TypeError(f"tokens are of {given.dtype}, expected integers")
    if given.ndim not in (1, 2):
        raise InvalidArgument(
            f"tokens have the shape {list(given.shape)}, expected [tokens] or [prompts, tokens]",
            reason="shape")
    if given.dtype != np.int32 and (given.min() < -(2**31) or given.max() >= 2**31):
        raise TypeError(f"tokens of {given.min()} to {given.max()} do not fit 32 bits")
    return np.ascontiguousarray(given, np.int32)


class Generator:
    """Generates tokens for one or more prompts. A generator serves one thread at a time.

    `for token in generator` and `async for` yield the tokens of each step: an integer for one
    prompt, else an int32 array.
    """

    def __init__(self, model: Model, params: GeneratorParams) -> None:
        self._model = model
        self._params = params
        self._prompts = int(params._get("batch_size") or 1)
        self._beams = int(params._get("num_beams") or 1)
        self._samples = int(params._get("num_return_sequences") or 1)
        self._ends = frozenset(model._core.end_tokens())
        self._pad = int(model._settings.get("model", {}).get("pad_token_id", 0) or 0)
        decoder = model._settings.get("model", {}).get("decoder", {})
        self._logits_name = decoder.get("outputs", {}).get("logits", "logits")
        self._is_terminated = False
        self._has_one_each = self._beams == 1 and self._samples == 1
        self._single = self._prompts == 1 and self._has_one_each
        self._start()

    def _start(self) -> None:
        self._core = _core.generator(self._model._core, self._params._core)
        # A batch has padded prompts here, with generated tokens where each has one sequence.
        self._rows: list[list[int]] = []
        self._paddings: list[int] = []  # of each prompt of a batch
        self._ended: list[bool] = []
        self._is_full = False  # has as many tokens as max_length before the first generated one
        self._last: Tokens = np.zeros(0, np.int32)

    # ---- prompts

    def append_tokens(self, tokens: Any) -> None:
        """Appends tokens, [tokens] or [prompts, tokens] padded at the end, and runs the model on
        them. A batch is appended once."""
        ids = _token_ids(tokens)
        if ids.size == 0:
            raise InvalidArgument("input_ids is empty")
        if self._prompts > 1:
            self._append_batch(ids)
        else:
            self._drop_end_token()
            self._make_room(ids.size)
            self._core.append(0, ids.reshape(-1))
        self._core.prefill()

    def _make_room(self, count: int) -> None:
        """Tokens up to max_length run, as for their logits; then none is generated."""
        used = self._core.token_count(0) if self._core.prompt_count() else 0
        if self._is_full or used + count != int(self._params._get("max_length") or 0):
            return
        self._is_full = True
        tokens = self._core.sequence(0)[1] if used else None
        self._core = _core.generator(
            self._model._core, self._params._copy(max_length=used + count + 1)._core)
        if tokens is not None:
            self._core.append(0, tokens)

    def _append_batch(self, ids: Tokens) -> None:
        if ids.size % self._prompts:
            raise InvalidArgument(
                f"got {ids.size} tokens for {self._prompts} prompts", reason="shape")
        if self._rows:
            raise InvalidArgument(
                "tokens were appended to a batch before: rewind_to(0) first")
        ids = ids.reshape(self._prompts, -1)
        self._paddings = []
        for row in ids:
            used = row.size
            while used > 1 and row[used - 1] == self._pad:
                used -= 1
            # The batch ends at max_length with the padding.
            padding = row.size - used
            self._paddings.append(padding)
            limits = {name: max(int(self._params._get(name) or 0) - padding, 0)
                      for name in ("max_length", "min_length")} if padding else {}
            params = self._params._copy(**limits) if limits else self._params
            self._core.add_prompt(params._core, np.ascontiguousarray(row[:used]))
        self._rows = [row.tolist() for row in ids]
        self._ended = [False] * len(self._rows)

    def _drop_end_token(self) -> None:
        """A sequence continues before the end token that stopped it."""
        if self._single and self._core.prompt_count() and self._core.is_done():
            _, tokens, _, reason, _ = self._core.sequence(0)
            if reason == _BY_STOP and tokens.size and int(tokens[-1]) in self._ends:
                self._core.rewind_to(0, tokens.size - 1)

    def set_inputs(self, inputs: NamedTensors) -> None:
        """Sets the inputs of the model by name."""
        for name in inputs.keys():
            self._core.set_input(name, inputs[name].as_numpy())

    def set_model_input(self, name: str, value: Any) -> None:
        """Sets an input of the model, such as an encoder's input."""
        self._core.set_input(name, value.as_numpy() if isinstance(value, Tensor) else value)

    def rewind_to(self, length: int) -> None:
        """Drops the tokens beyond the first `length`; a batch can be rewound to 0 only."""
        if length == 0:
            self._start()
        elif self._prompts > 1:
            raise InvalidArgument(f"a batch can be rewound to 0 only, not to {length}")
        elif self._is_full and length < self._core.token_count(0):
            tokens = self._core.sequence(0)[1][:length]
            self._start()
            self._core.append(0, tokens)
        else:
            self._core.rewind_to(0, length)

    # ---- generation

    def is_done(self) -> bool:
        return self._is_full or self._core.is_done()

    def generate_next_token(self) -> None:
        """Generates one token for each prompt."""
        if self._is_terminated:
            raise Interrupted("the generator is terminated: set terminate_session to 0")
        if self._is_full:
            raise InvalidArgument("the sequence has max_length tokens already")
        self._core.generate_next_token()
        if self._has_one_each and not self._single:
            self._record()

    def _record(self) -> None:
        """Adds the tokens of a step to the rows of a batch; ended rows are padded."""
        tokens = self._core.next_tokens()
        out = tokens.copy()
        for index, token in enumerate(tokens.tolist()):
            self._ended[index] = self._ended[index] or token < 0
            if self._ended[index]:
                out[index] = self._pad
            elif token in self._ends:
                self._ended[index] = True
                if not all(self._ended):
                    self._rows[index].append(token)
                continue
            if not all(self._ended):
                self._rows[index].append(int(out[index]))
        self._last = out

    def get_next_tokens(self) -> Tokens:
        """The tokens of the last step, one for each prompt, sample or live beam."""
        if self._samples > 1 and self._beams == 1 or self._beams > 1 and not self.is_done():
            live = range(self._core.sequence_count())
            return np.array([self._core.sequence(index)[1][-1] for index in live], np.int32)
        tokens: Tokens = (
            self._core.next_tokens() if self._single or self._beams > 1 else self._last)
        return tokens

    def token_count(self) -> int:
        """Tokens of a sequence: prompt and generated tokens."""
        if self._rows and self._has_one_each:
            return len(self._rows[0])
        return int(self.get_sequence(0).size) if self._core.prompt_count() else 0

    def get_sequence(self, index: int) -> Tokens:
        """The prompt and generated tokens of a sequence, without the token that ended it."""
        if self._rows and self._has_one_each:
            if not 0 <= index < len(self._rows):
                raise InvalidArgument(f"sequence {index} of {len(self._rows)}")
            return np.array(self._rows[index], np.int32)
        if not self._core.prompt_count() and index == 0:
            return np.zeros(0, np.int32)
        found = self._core.sequence(index)
        tokens: Tokens = found[1]
        if found[3] == _BY_STOP and tokens.size and int(tokens[-1]) in self._ends:
            tokens = tokens[:-1]
        if any(self._paddings):  # of several sequences each: the core knows no padding
            prompt = found[0]
            padded = np.array(self._rows[prompt], np.int32)
            generated = tokens[padded.size - self._paddings[prompt]:]
            tokens = np.concatenate([padded, generated])
        return tokens

    def get_logits(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The logits of the next token, float32 [prompts * beams, 1, vocabulary]."""
        return self._each_beam(self._core.logits())

    def _each_beam(
        self, logits: np.ndarray[Any, np.dtype[np.float32]]
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Repeats the logits of prompts whose beams have not diverged."""
        rows = self._prompts * self._beams
        return logits if logits.shape[0] >= rows else np.repeat(logits, rows // logits.shape[0], 0)

    def set_logits(self, logits: Any) -> None:
        """Replaces the logits that the next token is chosen from."""
        array = logits.as_numpy() if isinstance(logits, Tensor) else logits
        rows = np.ascontiguousarray(array, np.float32)
        if self._beams > 1 and rows.ndim == 3 and rows.shape[0] == self._prompts * self._beams:
            present = self._core.logits().shape[0]
            rows = np.ascontiguousarray(rows[:: rows.shape[0] // present])
        self._core.set_logits(rows)

    def get_input(self, name: str) -> np.ndarray[Any, Any]:
        value: np.ndarray[Any, Any] = self._core.input(name)
        return value

    def get_output(self, name: str) -> np.ndarray[Any, Any]:
        """An output of the model for the tokens of the last step, such as "logits", float32
        [prompts * beams, tokens, vocabulary]. The logits of several tokens take another run."""
        if not self._core.prompt_count():
            raise InvalidArgument(
                f"output {name!r} is not there before tokens are appended", reason="unknown_name")
        if name == "logits" or name == self._logits_name:
            return self._each_beam(self._core.step_logits())
        value: np.ndarray[Any, Any] = self._core.output(name)
        return value

    def set_runtime_option(self, key: str, value: str) -> None:
        """"terminate_session": "1" ends the step in progress and later ones; others have no
        effect."""
        if key == "terminate_session":
            self._is_terminated = value == "1"
            self._core.stop(self._is_terminated)

    def set_active_adapter(self, adapters: Any, name: str) -> None:
        refuse("adapters", "Generator.set_active_adapter")

    def set_hidden_states(self, hidden_states: Any) -> None:
        refuse("speculative decoding", "Generator.set_hidden_states")

    def snapshot_state(self) -> None:
        refuse("speculative decoding", "Generator.snapshot_state")

    def get_speculative_stats(self) -> dict[str, Any]:
        """Empty: nothing is speculated."""
        return {}

    # ---- iteration

    def _step(self) -> Any:
        self.generate_next_token()
        tokens = self.get_next_tokens()
        return int(tokens[0]) if self._single else tokens.copy()

    def __iter__(self) -> Iterator[Any]:
        while not self.is_done():
            yield self._step()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while not self.is_done():
            yield await asyncio.to_thread(self._step)
