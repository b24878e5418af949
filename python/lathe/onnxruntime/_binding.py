# SPDX-License-Identifier: MIT
"""IO binding: inputs and outputs that stay bound across runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lathe import _core
from lathe.onnxruntime._values import OrtDevice, OrtValue, array_at, require_host, unwrap

if TYPE_CHECKING:
    from lathe.onnxruntime._session import InferenceSession


class IOBinding(_core.Binding):
    """Binds NumPy arrays, OrtValues or memory to the inputs and outputs of a session. Arrays are
    read and written in place at every run."""

    def __init__(self, session: InferenceSession) -> None:
        super().__init__(session)
        self._session = session

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any,
                   shape: Sequence[int], buffer_ptr: int) -> None:
        """Binds memory of the caller, who keeps it until the binding is cleared."""
        require_host(device_type, "IOBinding.bind_input")
        self._bind_input(name, array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_input(name, unwrap(ortvalue))

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0,
                    element_type: Any = None, shape: Sequence[int] | None = None,
                    buffer_ptr: int | None = None) -> None:
        """Binds memory of the caller, or a new array for each run."""
        require_host(device_type, "IOBinding.bind_output")
        if buffer_ptr is None:
            self._bind_output(name, None)
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._bind_output(name, array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_output(name, unwrap(ortvalue))

    def synchronize_inputs(self) -> None:
        """No effect: values lie in host memory."""

    def synchronize_outputs(self) -> None:
        """No effect: values lie in host memory."""

    def get_outputs(self) -> list[OrtValue]:
        """The bound outputs of the last run in the order of their binding."""
        return [OrtValue(value) for value in self._outputs()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        """Copies of the bound outputs of the last run."""
        return [value.copy() if isinstance(value, np.ndarray) else value
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
            require_host(args[0], "SessionIOBinding.bind_input")
            self._bind_input(name, array_at(args[3], args[1], args[2]))
        else:
            super().bind_input(name, *args)

    def bind_output(self, name: str, *args: Any) -> None:
        if args and isinstance(args[0], OrtDevice):
            require_host(args[0], "SessionIOBinding.bind_output")
            array = array_at(args[3], args[1], args[2]) if len(args) == 4 else None
            self._bind_output(name, array)
        else:
            super().bind_output(name, *args)
