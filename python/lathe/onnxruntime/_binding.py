# SPDX-License-Identifier: MIT
"""IO binding: inputs and outputs that stay bound across runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lathe import _core
from lathe.onnxruntime._values import OrtDevice, OrtValue, find_device, unwrap, value_at

if TYPE_CHECKING:
    from lathe.onnxruntime._session import InferenceSession


class IOBinding(_core.Binding):
    """Binds NumPy arrays, OrtValues or memory to the inputs and outputs of a session. Arrays and
    tensors on the session's device are read and written in place at every run."""

    def __init__(self, session: InferenceSession) -> None:
        super().__init__(session)
        self._session = session

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any,
                   shape: Sequence[int], buffer_ptr: int) -> None:
        """Binds memory of the caller, who keeps it until the binding is cleared."""
        device = find_device(device_type, device_id, "IOBinding.bind_input")
        self._bind_input(name, value_at(device, buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_input(name, unwrap(ortvalue))

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0,
                    element_type: Any = None, shape: Sequence[int] | None = None,
                    buffer_ptr: int | None = None) -> None:
        """Binds memory of the caller, or a new tensor for each run."""
        device = find_device(device_type, device_id, "IOBinding.bind_output")
        if buffer_ptr is None:
            self._bind_new(name, device)
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._bind_output(name, value_at(device, buffer_ptr, element_type, shape))

    def _bind_new(self, name: str, device: str | None) -> None:
        if device is None:
            self._bind_output(name, None)
        else:
            self._bind_output_on(name, device)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_output(name, unwrap(ortvalue))

    def synchronize_inputs(self) -> None:
        """No effect: copies have ended when they return."""

    def synchronize_outputs(self) -> None:
        """No effect: a run has ended when it returns."""

    def get_outputs(self) -> list[OrtValue]:
        """The bound outputs of the last run in the order of their binding."""
        return [OrtValue(value) for value in self._outputs()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        """Copies of the bound outputs of the last run."""
        return [value.copy() if isinstance(value, np.ndarray) else OrtValue(value).numpy()
                for value in self._outputs()]

    def clear_binding_inputs(self) -> None:
        self._clear_inputs()

    def clear_binding_outputs(self) -> None:
        self._clear_outputs()


class SessionIOBinding(IOBinding):
    """The binding of ONNX Runtime's extension module, whose members take OrtDevice objects."""

    def bind_input(self, name: str, *args: Any) -> None:
        if len(args) == 1:
            self._bind_input(name, unwrap(args[0]))
        elif isinstance(args[0], OrtDevice):
            device = find_device(args[0], 0, "SessionIOBinding.bind_input")
            self._bind_input(name, value_at(device, args[3], args[1], args[2]))
        else:
            super().bind_input(name, *args)

    def bind_output(self, name: str, *args: Any) -> None:
        if args and isinstance(args[0], OrtDevice):
            device = find_device(args[0], 0, "SessionIOBinding.bind_output")
            if len(args) == 4:
                self._bind_output(name, value_at(device, args[3], args[1], args[2]))
            else:
                self._bind_new(name, device)
        else:
            super().bind_output(name, *args)
