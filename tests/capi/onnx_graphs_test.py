# SPDX-License-Identifier: MIT
"""ONNX's backend cases through callbacks of the C interface: the program's text is that of the model's bytes, and
program_supports agrees with compiling.

usage: onnx_graphs_test.py [all]     a tenth of the cases, or all (`make test-ort`)
"""

import ctypes as c
import os
import pathlib
import re
import subprocess
import sys

import onnx
from onnx import numpy_helper

PRESET = os.environ.get("TEST_PRESET", "release")
SUITE = pathlib.Path("../shared/models/onnx-backend.tar.zst")
KINDS = {"tensor_type": 1, "sparse_tensor_type": 0, "sequence_type": 2, "optional_type": 3, "map_type": 4}


def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": [("size", c.c_size_t), *fields]})


class Text(c.Structure):
    _fields_ = [("data", c.c_char_p), ("bytes", c.c_size_t)]


class Opset(c.Structure):
    _fields_ = [("domain", c.c_char_p), ("version", c.c_int64)]


TEXTS, INTS, COUNT, POINTER = c.POINTER(c.c_char_p), c.POINTER(c.c_int64), c.c_size_t, c.c_void_p
Type = struct("Type", ("kind", c.c_int32), ("element", c.c_int32), ("rank", c.c_int32), ("dims", INTS),
              ("symbols", TEXTS), ("item", POINTER))
Value = struct("Value", ("name", c.c_char_p), ("type", c.POINTER(Type)))
Tensor = struct("Tensor", ("name", c.c_char_p), ("type", c.c_int32), ("rank", c.c_int32), ("dims", INTS),
                ("data", POINTER), ("bytes", COUNT), ("strings", c.POINTER(Text)), ("location", c.c_char_p),
                ("offset", c.c_uint64))
Attribute = struct("Attribute", ("name", c.c_char_p), ("reference", c.c_char_p), ("kind", c.c_int32), ("count", COUNT),
                   ("floats", c.POINTER(c.c_float)), ("ints", INTS), ("strings", c.POINTER(Text)),
                   ("tensors", c.POINTER(c.POINTER(Tensor))), ("graphs", c.POINTER(POINTER)),
                   ("type", c.POINTER(Type)))
Node = struct("Node", ("name", c.c_char_p), ("op_type", c.c_char_p), ("domain", c.c_char_p), ("overload", c.c_char_p),
              ("inputs", TEXTS), ("input_count", COUNT), ("outputs", TEXTS), ("output_count", COUNT),
              ("attribute_count", COUNT))
Graph = struct("Graph", ("name", c.c_char_p), ("input_count", COUNT), ("output_count", COUNT), ("value_count", COUNT),
               ("initialiser_count", COUNT), ("node_count", COUNT))
Function = struct("Function", ("domain", c.c_char_p), ("name", c.c_char_p), ("overload", c.c_char_p),
                  ("inputs", TEXTS), ("input_count", COUNT), ("outputs", TEXTS), ("output_count", COUNT),
                  ("attributes", TEXTS), ("attribute_count", COUNT), ("default_count", COUNT),
                  ("opsets", c.POINTER(Opset)), ("opset_count", COUNT), ("body", POINTER))


def callback(out, *arguments):
    return c.CFUNCTYPE(c.c_int, POINTER, *arguments, c.POINTER(out))


CALLBACKS = [
    ("graph_info", callback(Graph, POINTER)),
    *((name, callback(Value, POINTER, COUNT)) for name in ("input", "output", "value")),
    ("initialiser", callback(Tensor, POINTER, COUNT)),
    ("node", callback(Node, POINTER, COUNT)),
    ("attribute", callback(Attribute, POINTER, COUNT, COUNT)),
    ("function", callback(Function, COUNT)),
    ("function_default", callback(Attribute, COUNT, COUNT)),
]
Source = struct("Source", ("ir_version", c.c_int64), ("opsets", c.POINTER(Opset)), ("opset_count", COUNT),
                ("function_count", COUNT), ("producer", c.c_char_p), ("producer_version", c.c_char_p),
                ("metadata", TEXTS), ("metadata_count", COUNT), ("graph", POINTER), ("context", POINTER), *CALLBACKS)
LoadOptions = struct("LoadOptions", ("name", c.c_char_p), *((f"unused{i}", POINTER) for i in range(16)))
SINK = c.CFUNCTYPE(None, POINTER, COUNT, c.c_char_p)
TEXT_SINK = c.CFUNCTYPE(None, POINTER, POINTER, COUNT)


class Library:
    """Functions of the table, by the order of the header."""

    def __init__(self):
        text = pathlib.Path("include/lathe/lathe.h").read_text()
        body = re.sub(r"/\*.*?\*/", "", re.search(r"typedef struct lathe_api \{(.*?)\n\} lathe_api;", text, re.S)[1],
                      flags=re.S)
        names = [m[1] for part in body.split(";") if (m := re.search(r"\(\*(\w+)\)\(", part))]
        library = c.CDLL(str(pathlib.Path(f"build/{PRESET}/lib/liblathe.so").resolve()))
        library.lathe_get_api.restype = POINTER
        table = library.lathe_get_api(int(re.search(r"LATHE_API_VERSION (\d+)u", text)[1]))
        self.addresses = dict(zip(names, (c.c_void_p * len(names)).from_address(table + 16)))

    def __getattr__(self, name):
        result = c.c_char_p if name == "error_message" else None if name.endswith("_free") else POINTER
        function = c.CFUNCTYPE(result)(self.addresses[name])
        function.argtypes = None
        setattr(self, name, function)
        return function

    def problem(self, error):
        """None, or the message of an error, which is freed."""
        if error is None:
            return None
        text = self.error_message(POINTER(error)).decode()
        self.error_free(POINTER(error))
        return text


def raw_bytes(tensor):
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return onnx.numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data


class Described:
    """A model as the source of callbacks."""

    def __init__(self, model):
        self.model, self.graphs, self.kept = model, [model.graph], []
        self.opsets = self.opset_list(model.opset_import)
        functions = {name: kind(self.guard(name)) for name, kind in CALLBACKS}
        self.kept.append(functions)
        self.source = Source(c.sizeof(Source), model.ir_version, self.opsets, len(model.opset_import),
                             len(model.functions), model.producer_name.encode(), model.producer_version.encode(),
                             self.texts([t for p in model.metadata_props for t in (p.key, p.value)]),
                             len(model.metadata_props), 1, None, *functions.values())

    def guard(self, name):
        def call(_, *arguments):
            try:
                # Kept: it owns the strings that the C struct points to.
                getattr(self, name)(*arguments[:-1], self.keep(arguments[-1].contents))
                return 0
            except Exception as error:  # noqa: BLE001 — cannot pass through C
                print(f"{name}: {error!r}")
                return 1

        return call

    def keep(self, value):
        self.kept.append(value)
        return value

    def texts(self, names):
        return self.keep((c.c_char_p * max(len(names), 1))(*(name.encode() for name in names)))

    def text_array(self, strings):
        return self.keep((Text * max(len(strings), 1))(*(Text(s, len(s)) for s in strings)))

    def opset_list(self, imports):
        return self.keep((Opset * max(len(imports), 1))(*(Opset(i.domain.encode(), i.version) for i in imports)))

    def handle(self, graph):
        self.graphs.append(graph)
        return len(self.graphs)  # NULL is none

    def type(self, proto):
        which = proto.WhichOneof("value")
        if which is None:
            return None
        out = self.keep(Type(c.sizeof(Type), KINDS[which], 0, -1))
        part = getattr(proto, which)
        if which == "map_type":
            out.element = part.key_type
        if which in ("sequence_type", "optional_type", "map_type"):
            item = self.type(part.value_type if which == "map_type" else part.elem_type)
            out.item = c.cast(c.pointer(item), POINTER) if item is not None else None
            return out
        out.element = part.elem_type
        if part.HasField("shape"):
            dims = part.shape.dim
            out.rank = len(dims)
            out.dims = self.keep((c.c_int64 * max(len(dims), 1))(
                *(d.dim_value if d.HasField("dim_value") else -1 for d in dims)))
            out.symbols = self.texts([d.dim_param for d in dims])
        return out

    def fill_tensor(self, tensor, out):
        out.name, out.type, out.rank = tensor.name.encode(), tensor.data_type, len(tensor.dims)
        out.dims = self.keep((c.c_int64 * max(len(tensor.dims), 1))(*tensor.dims))
        if tensor.data_type == onnx.TensorProto.STRING:
            out.strings = self.text_array(list(tensor.string_data))
            return
        data = self.keep(c.create_string_buffer(raw_bytes(tensor)))
        out.data, out.bytes = c.cast(data, POINTER), len(data) - 1

    def fill_attribute(self, attribute, out):
        out.name, out.kind = attribute.name.encode(), attribute.type
        out.reference = attribute.ref_attr_name.encode() or None
        A = onnx.AttributeProto
        lists = {A.FLOATS: attribute.floats, A.INTS: attribute.ints, A.STRINGS: attribute.strings,
                 A.TENSORS: attribute.tensors, A.GRAPHS: attribute.graphs, A.FLOAT: [attribute.f], A.INT: [attribute.i],
                 A.STRING: [attribute.s], A.TENSOR: [attribute.t], A.GRAPH: [attribute.g]}
        values = lists.get(attribute.type, [])
        out.count = len(values)
        if attribute.type in (A.FLOAT, A.FLOATS):
            out.floats = self.keep((c.c_float * max(len(values), 1))(*values))
        elif attribute.type in (A.INT, A.INTS):
            out.ints = self.keep((c.c_int64 * max(len(values), 1))(*values))
        elif attribute.type in (A.STRING, A.STRINGS):
            out.strings = self.text_array(list(values))
        elif attribute.type in (A.TENSOR, A.TENSORS):
            tensors = [self.keep(Tensor(c.sizeof(Tensor))) for _ in values]
            for value, tensor in zip(values, tensors):
                self.fill_tensor(value, tensor)
            out.tensors = self.keep((c.POINTER(Tensor) * max(len(tensors), 1))(*map(c.pointer, tensors)))
        elif attribute.type in (A.GRAPH, A.GRAPHS):
            out.graphs = self.keep((POINTER * max(len(values), 1))(*map(self.handle, values)))
        elif attribute.type == A.TYPE_PROTO:
            out.type = c.pointer(self.type(attribute.tp))

    def graph_info(self, handle, out):
        graph = self.graphs[handle - 1]
        out.node_count = len(graph.node)
        if isinstance(graph, onnx.FunctionProto):
            return
        out.name = graph.name.encode()
        out.input_count, out.output_count = len(graph.input), len(graph.output)
        out.value_count, out.initialiser_count = len(graph.value_info), len(graph.initializer)

    def fill_value(self, info, out):
        out.name = self.keep(info.name.encode())
        kind = self.type(info.type)
        if kind is not None:
            out.type = c.pointer(kind)

    def input(self, handle, index, out):
        self.fill_value(self.graphs[handle - 1].input[index], out)

    def output(self, handle, index, out):
        self.fill_value(self.graphs[handle - 1].output[index], out)

    def value(self, handle, index, out):
        self.fill_value(self.graphs[handle - 1].value_info[index], out)

    def initialiser(self, handle, index, out):
        self.fill_tensor(self.graphs[handle - 1].initializer[index], out)

    def node(self, handle, index, out):
        node = self.graphs[handle - 1].node[index]
        for field in ("name", "op_type", "domain", "overload"):
            setattr(out, field, getattr(node, field).encode())
        out.inputs, out.input_count = self.texts(node.input), len(node.input)
        out.outputs, out.output_count = self.texts(node.output), len(node.output)
        out.attribute_count = len(node.attribute)

    def attribute(self, handle, node, index, out):
        self.fill_attribute(self.graphs[handle - 1].node[node].attribute[index], out)

    def function(self, index, out):
        function = self.model.functions[index]
        for field in ("domain", "name", "overload"):
            setattr(out, field, getattr(function, field).encode())
        out.inputs, out.input_count = self.texts(function.input), len(function.input)
        out.outputs, out.output_count = self.texts(function.output), len(function.output)
        out.attributes, out.attribute_count = self.texts(function.attribute), len(function.attribute)
        out.default_count = len(function.attribute_proto)
        out.opsets, out.opset_count = self.opset_list(function.opset_import), len(function.opset_import)
        out.body = self.handle(function)

    def function_default(self, function, index, out):
        self.fill_attribute(self.model.functions[function].attribute_proto[index], out)


def text_of(lathe, program):
    pieces = []
    sink = TEXT_SINK(lambda _, data, size: pieces.append(c.string_at(data, size)))
    problem = lathe.problem(lathe.program_print(program, sink, None))
    return problem or b"".join(pieces).decode()


def check(lathe, data):
    """(whether texts are equal, whether both answers agree, what differs)."""
    options = LoadOptions(c.sizeof(LoadOptions), b"case")
    by_bytes, by_callbacks, plan = POINTER(), POINTER(), POINTER()
    refused = lathe.problem(lathe.program_load_memory(data, COUNT(len(data)), c.byref(options), c.byref(by_bytes)))
    model = Described(onnx.load_from_string(data))
    problem = lathe.problem(lathe.program_load_graph(c.byref(model.source), c.byref(options), c.byref(by_callbacks)))
    text = refused or text_of(lathe, by_bytes)
    other = problem or text_of(lathe, by_callbacks)
    compiles = refused
    if not refused:
        compiles = lathe.problem(lathe.plan_compile(by_bytes, None, c.byref(plan)))
    answers = []
    sink = SINK(lambda _, node, reason: answers.append(reason))
    model = Described(onnx.load_from_string(data))
    asked = lathe.problem(lathe.program_supports(c.byref(model.source), c.byref(options), sink, None))
    supported = asked is None and not any(answers)
    lathe.plan_free(plan)
    lathe.program_free(by_bytes)
    lathe.program_free(by_callbacks)
    return text == other, supported == (compiles is None), (text, other, compiles, asked, answers)


def main():
    if PRESET != "release" or not SUITE.exists():  # a plain Python cannot load a sanitized library
        return 77
    folder = pathlib.Path("build/backend")
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["tar", "--zstd", "-xf", str(SUITE), "-C", str(folder)], check=True)
    lathe, paths = Library(), sorted(folder.rglob("model.onnx"))
    paths = paths if sys.argv[1:] == ["all"] else paths[::10]
    failed = 0
    for path in paths:
        same, agree, found = check(lathe, path.read_bytes())
        if not (same and agree):
            failed += 1
            print(f"{path.parent.name}: {'' if same else 'other text '}{'' if agree else 'other answer '}{found}"[:600])
    print(f"{len(paths) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
