# SPDX-License-Identifier: MIT
"""Programs built instruction by instruction: op, macro, module, instruction_ref."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from lathe import _core
from lathe._errors import InvalidArgument
from lathe._features import refuse
from lathe._migraphx.argument import argument
from lathe._migraphx.op_table import MACROS, build, build_macro
from lathe._migraphx.shape import shape
from lathe._migraphx.types import shape_of, text_of, text_of_element


class _Modes(Enum):
    average = 0
    max = 1
    lpnorm = 2


class _Directions(Enum):
    forward = 0
    reverse = 1
    bidirectional = 2


class op:
    """An op of MIGraphX with its attributes, or an op of Lathe: op("reduce_sum", axes=[1])."""

    pooling_mode = _Modes
    rnn_direction = _Directions

    def __init__(self, name: str, **attributes: Any) -> None:
        self._name, self._attributes = name, attributes

    def name(self) -> str:
        return self._name

    def values(self) -> dict[str, Any]:
        """The attributes."""
        return dict(self._attributes)

    def __repr__(self) -> str:
        parts = ", ".join(f"{key}={value!r}" for key, value in self._attributes.items())
        return f"{self._name}[{parts}]"


class macro(op):
    """An op that becomes several instructions: macro("gemm", alpha=0.5)."""


class instruction_ref:
    """An instruction of a module; its first result as a value."""

    def __init__(self, of: module, values: list[int], name: str, types: list[str],
                 inputs: Sequence[instruction_ref] = (), literal: Any = None,
                 operation: op | None = None) -> None:
        self._module, self._values, self._name, self._types = of, values, name, types
        self._inputs, self._literal, self._op = list(inputs), literal, operation

    def name(self) -> str:
        """The op's name; "@param", "@literal", "@return"."""
        return self._name

    def op(self) -> op:
        return self._op or op(self._name)

    def shape(self) -> shape:
        return shape_of(self._types[0])

    def inputs(self) -> list[instruction_ref]:
        return list(self._inputs)

    def outputs(self) -> list[instruction_ref]:
        """The instructions that use it."""
        return [user for user in self._module if any(i is self for i in user._inputs)]

    def get_literal(self) -> argument:
        """The value of a literal."""
        if self._literal is None:
            raise InvalidArgument(f"'{self._name}' is not a literal")
        return argument(self._literal)

    def __repr__(self) -> str:
        return f"{self._name} -> {', '.join(self._types)}"


# Makes the body of an instruction in a program.
_Maker = Callable[[_core.Program], _core.Module]


class _Builder:
    """What rows of the op table build with: adds instructions to a module and notes them."""

    def __init__(self, program: _core.Program, core: _core.Module) -> None:
        self.program, self.core = program, core
        self.types: dict[int, str] = {}
        self.calls: list[tuple[Any, ...]] = []  # what a body repeats in its program
        self._names: frozenset[str] | None = None

    def parameter(self, name: str, kind: str) -> int:
        value = self.core.parameter(name, kind)
        self.types[value] = kind
        self.calls.append(("parameter", name, kind, value))
        return value

    def literal(self, array: np.ndarray[Any, Any]) -> int:
        value = self.core.literal(array)
        self._note(value)
        self.calls.append(("literal", array, value))
        return value

    def all(self, name: str, operands: list[Any], attributes: dict[str, Any] | None = None,
            bodies: Sequence[_Maker] = (), results: int | None = None) -> list[int]:
        count = results
        if count is None:
            stated = int(json.loads(_core.describe_op(name))["results"])
            count = 1 if stated < 0 else stated
        text = json.dumps(attributes or {})
        made_bodies = [make(self.program) for make in bodies]
        values = self.core.instruction(name, text, list(operands), made_bodies, count)
        _, _, _, _, made, types = self.core.at(self.core.size() - 1)
        self.types.update(zip(made, types))
        self.calls.append(("instruction", name, text, list(operands), bodies, count, values))
        return [int(value) for value in values]

    def __call__(self, name: str, operands: list[Any],
                 attributes: dict[str, Any] | None = None) -> int:
        return self.all(name, operands, attributes)[0]

    def _note(self, value: int) -> None:
        _, _, _, _, made, types = self.core.at(self.core.size() - 1)
        self.types.update(zip(made, types))

    def names(self) -> frozenset[str]:
        if self._names is None:
            self._names = frozenset(_core.op_names())
        return self._names

    def lens(self, value: int) -> list[int]:
        found = shape_of(self.types[value])
        return [] if self.types[value].endswith("[]") else found.lens()

    def type(self, value: int) -> str:
        return self.types[value].partition("[")[0]

    def dtype(self, value: int) -> np.dtype[Any]:
        dtype: np.dtype[Any] = _core.dtype(shape_of(self.types[value])._type)
        return dtype

    def type_named(self, kind: Any) -> str:
        return text_of_element(kind)


class module:
    """Instructions in order. The main module belongs to its program; others are bodies of "if" and
    "loop", whose uses of outer values become operands."""

    def __init__(self, name: str, program: _core.Program, is_body: bool) -> None:
        self._name, self._program, self._is_body = name, program, is_body
        self._builder = _Builder(program, _core.create_module(program, "main"))
        self._parameters: list[int] = []
        self._instructions: list[instruction_ref] = []
        self._captures: dict[int, tuple[instruction_ref, int]] = {}  # by id of the outer value
        self._returned: list[int] | None = None

    # ---- building

    def add_parameter(self, name: str, shape: shape) -> instruction_ref:
        """An input of the program. A loop's body has the iteration, the condition and the values it
        carries, in this order."""
        value = self._builder.parameter(name, text_of(shape))
        self._parameters.append(value)
        return self._add([value], "@param")

    def add_literal(self, data: Any) -> instruction_ref:
        """A constant: an argument, an array, a list or a number."""
        array = np.array(data)
        if array.dtype == np.float64 and not isinstance(data, np.ndarray):
            array = array.astype(np.float32)
        return self._add([self._builder.literal(array)], "@literal", literal=array)

    def add_instruction(self, op: op, args: Sequence[instruction_ref],
                        mod_args: Sequence[module] = ()) -> instruction_ref:
        """Applies an op to instructions; `mod_args`: the bodies of "if", the body of "loop"."""
        return self._apply(build, op, args, mod_args)

    def add_macro(self, m: op, args: Sequence[instruction_ref],
                  mod_args: Sequence[module] = ()) -> list[instruction_ref]:
        made = self._apply(build_macro, m, args, mod_args)
        if m.name() not in MACROS or len(made._values) == 1:
            return [made]
        self._instructions.pop()
        return [self._add([value], m.name(), args, operation=m) for value in made._values]

    def insert_macro(self, ins: instruction_ref, m: op, args: Sequence[instruction_ref],
                     mod_args: Sequence[module] = ()) -> list[instruction_ref]:
        """Adds at the end: instructions are ordered by their uses."""
        return self.add_macro(m, args, mod_args)

    def add_return(self, args: Sequence[instruction_ref]) -> instruction_ref:
        """Sets the results and closes the module."""
        if self._returned is not None:
            raise InvalidArgument(f"module '{self._name}' has returned")
        values = [self._value(arg) for arg in args]
        self._builder.core.finish(values, None)
        self._returned = values
        return instruction_ref(self, values, "@return", [self._builder.types[v] for v in values],
                               args)

    def replace_return(self, args: Sequence[instruction_ref]) -> instruction_ref:
        """Sets the results of a module that has not returned."""
        return self.add_return(args)

    def _apply(self, function: Any, operation: op, args: Sequence[instruction_ref],
               bodies: Sequence[module]) -> instruction_ref:
        name, attributes = operation.name(), operation.values()
        if name == "get_tuple_elem":
            source, index = args[0], int(attributes["index"])
            return self._add([source._values[index]], name, args, operation=operation)
        if name == "if":
            made = self._add_if(args, bodies)
        elif name == "loop":
            made = self._add_loop(args, bodies, attributes)
        elif bodies:
            raise InvalidArgument(f"{name}: got {len(bodies)} bodies, expected none")
        else:
            made = function(self._builder, name, [self._value(arg) for arg in args], attributes)
        values = made if isinstance(made, list) else [made]
        return self._add(values, name, args, operation=operation)

    def _add_if(self, args: Sequence[instruction_ref], bodies: Sequence[module]) -> list[int]:
        if len(bodies) != 2 or not args:
            raise InvalidArgument(
                f"if: got {len(args)} conditions and {len(bodies)} bodies, expected 1 and 2")
        for body in bodies:
            if body._parameters:
                raise InvalidArgument(f"body '{body._name}' of 'if' has parameters")
        captured, values, kinds = self._captured_by(bodies)
        makers = [partial(body._repeat, captured=captured, kinds=kinds) for body in bodies]
        count = len(bodies[0]._returned or [])
        condition = self._scalar(self._value(args[0]))
        return self._builder.all("if", [condition, *values], {}, makers, count)

    def _add_loop(self, args: Sequence[instruction_ref], bodies: Sequence[module],
                  attributes: dict[str, Any]) -> list[int]:
        """At most max_iterations times; scan outputs have that many rows, zero after the last."""
        if len(bodies) != 1 or len(args) < 2:
            raise InvalidArgument(f"loop: got {len(args)} values and {len(bodies)} bodies, expected "
                                  "a trip count, a condition, carried values and 1 body")
        if any(attributes.get("scan_output_directions", ())):
            refuse("scan outputs that grow at their front", "loop[scan_output_directions]")
        body, carried = bodies[0], len(args) - 2
        body._close()
        returned = body._returned or []
        if len(body._parameters) != len(args) or len(returned) < 1 + carried:
            raise InvalidArgument(
                f"loop: body '{body._name}' has {len(body._parameters)} parameters and "
                f"{len(returned)} results; {carried} carried values require {len(args)} and at least "
                f"{1 + carried}")
        captured, values, kinds = self._captured_by(bodies)
        b, most = self._builder, int(attributes.get("max_iterations", 10))
        trips = b("min", [self._scalar(self._value(args[0])), b.literal(np.array(most, np.int64))])
        made = b.all("loop", [trips, self._scalar(self._value(args[1])),
                              *(self._value(arg) for arg in args[2:]), *values],
                     {"carried": carried},
                     [partial(body._repeat, captured=captured, kinds=kinds, scalars=2)],
                     len(returned) - 1)
        for index, value in enumerate(returned[1 + carried:], start=carried):
            lens = [most, *body._builder.lens(value)]
            zeros = b.literal(np.zeros(lens, body._builder.dtype(value)))
            rows = b("concat", [made[index], zeros], {"axis": 0})
            first = [b.literal(np.array([bound], np.int64)) for bound in (0, most, 0)]
            made[index] = b("reshape", [b("slice", [rows, *first]), b.literal(np.array(lens, np.int64))],
                            {"allow_zero": True})
        return made

    def _scalar(self, value: int) -> int:
        """A value of one element without axes."""
        if not self._builder.lens(value):
            return value
        return self._builder("reshape", [value, self._builder.literal(np.zeros(0, np.int64))])

    def _captured_by(self, bodies: Sequence[module]) -> tuple[list[int], list[int], list[str]]:
        """The outer values that bodies use: their keys, values and types."""
        captured: dict[int, instruction_ref] = {}
        for body in bodies:
            body._close()
            captured |= {key: outer for key, (outer, _) in body._captures.items()}
        values = [self._value(outer) for outer in captured.values()]
        return list(captured), values, [self._builder.types[value] for value in values]

    def _repeat(self, program: _core.Program, captured: list[int], kinds: list[str],
                scalars: int = 0) -> _core.Module:
        """The body in another program: its parameters, then the captured values. The first `scalars`
        parameters, and the first result with them, have no axes there."""
        builder = _Builder(program, _core.create_module(program, self._name))
        values: dict[int, int] = {}
        shaped: list[tuple[int, int]] = []
        for index, old in enumerate(self._parameters):
            kind = self._builder.types[old]
            if index < scalars and self._builder.lens(old):
                shaped.append((old, builder.parameter(f"parameter{index}", f"{kind.partition('[')[0]}[]")))
            else:
                values[old] = builder.parameter(f"parameter{index}", kind)
        for index, (key, kind) in enumerate(zip(captured, kinds)):
            made = builder.parameter(f"captured{index}", kind)
            if key in self._captures:
                values[self._captures[key][1]] = made
        for old, scalar in shaped:
            lens = builder.literal(np.array(self._builder.lens(old), np.int64))
            values[old] = builder("reshape", [scalar, lens])
        for call in self._builder.calls:
            if call[0] == "literal":
                values[call[2]] = builder.literal(call[1])
            elif call[0] == "instruction":
                _, name, text, operands, bodies, count, results = call
                mapped = [None if o is None else values[o] for o in operands]
                values |= zip(results, builder.all(name, mapped, json.loads(text), bodies, count))
        returned = [values[value] for value in self._returned or []]
        if scalars and builder.lens(returned[0]):
            returned[0] = builder("reshape", [returned[0], builder.literal(np.zeros(0, np.int64))])
        builder.core.finish(returned, None)
        return builder.core

    def _close(self) -> None:
        """A module without return has the result of its last instruction."""
        if self._returned is None:
            if not self._instructions:
                raise InvalidArgument(f"module '{self._name}' is empty")
            self.add_return([self._instructions[-1]])

    def _value(self, ref: instruction_ref) -> int:
        if ref._module is self:
            return ref._values[0]
        if not self._is_body:
            raise InvalidArgument(f"{ref!r} belongs to another program")
        key = id(ref)
        if key not in self._captures:
            name = f"captured{len(self._captures)}"
            self._captures[key] = (ref, self._builder.parameter(name, ref._types[0]))
        return self._captures[key][1]

    def _add(self, values: list[int], name: str, inputs: Sequence[instruction_ref] = (),
             literal: Any = None, operation: op | None = None) -> instruction_ref:
        types = [self._builder.types[value] for value in values]
        made = instruction_ref(self, values, name, types, inputs, literal, operation)
        self._instructions.append(made)
        return made

    # ---- reading

    def __iter__(self) -> Iterator[instruction_ref]:
        return iter(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    def print(self) -> None:
        print(self)

    def __str__(self) -> str:
        return "\n".join(repr(instruction) for instruction in self._instructions)


class parsed_module(module):
    """The main module of a parsed program, to read."""

    def __init__(self, program: _core.Program) -> None:
        self._name, self._is_body, self._returned = "main", False, []
        self._core = _core.modules(program)[0]
        self._instructions = []
        refs: dict[int, instruction_ref] = {}
        for index in range(self._core.size()):
            name, _, _, operands, results, types = self._core.at(index)
            inputs = [refs[value] for value in operands if value in refs]
            shown = {"parameter": "@param", "literal": "@literal", "return": "@return"}.get(name, name)
            literal = self._core.literal_at(index) if name == "literal" else None
            made = instruction_ref(self, list(results), shown, list(types) or ["f32[]"], inputs, literal)
            refs |= {value: made for value in results}
            self._instructions.append(made)

    def add_parameter(self, name: str, shape: shape) -> instruction_ref:
        raise InvalidArgument("a parsed program cannot be changed")

    def add_literal(self, data: Any) -> instruction_ref:
        raise InvalidArgument("a parsed program cannot be changed")

    def add_instruction(self, op: op, args: Sequence[instruction_ref],
                        mod_args: Sequence[module] = ()) -> instruction_ref:
        raise InvalidArgument("a parsed program cannot be changed")

    def add_return(self, args: Sequence[instruction_ref]) -> instruction_ref:
        raise InvalidArgument("a parsed program cannot be changed")
