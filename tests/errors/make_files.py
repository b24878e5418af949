# SPDX-License-Identifier: MIT
"""Makes the broken files of tests/errors, and a few valid ones.

usage: make_files.py FOLDER
"""

import gzip
import io
import os
import pathlib
import struct
import sys
import zipfile
import zlib

import make_folders
import make_llm_files
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
I = TensorProto.INT64


def model(nodes, inputs, outputs, initializers=(), opset=17, **more):
    """The bytes of a model; inputs and outputs are (name, type, dims). Checks nothing."""
    def infos(values):
        return [helper.make_tensor_value_info(n, t, d) for n, t, d in values]

    graph = helper.make_graph(list(nodes), "g", infos(inputs), infos(outputs), list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    for name, value in more.items():
        if name == "functions":
            made.functions.extend(value)
            made.opset_import.extend([helper.make_opsetid("my", 1)])
        else:
            setattr(made, name, value)
    return made.SerializeToString()


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"{op.lower()}_node", **attributes)


def weight(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def raw_weight(name, dims, data, data_type=F):
    tensor = TensorProto(name=name, data_type=data_type, raw_data=data)
    tensor.dims.extend(dims)
    return tensor


def external(name, dims, location, offset=None, length=None):
    tensor = TensorProto(name=name, data_type=F, data_location=TensorProto.EXTERNAL)
    tensor.dims.extend(dims)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


X = ("x", F, ["n", 4])
Y = ("y", F, None)


def good():
    return model([node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
                 [X], [Y], [weight("w", np.arange(12, dtype=np.float32).reshape(4, 3))])


def with_weight(tensor):
    return model([node("Add", ["x", "w"], ["y"])], [X], [Y], [tensor])


def field(number, content):
    """A length-delimited protobuf field."""
    def varint(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out + bytes([value]))

    return varint(number << 3 | 2) + varint(len(content)) + content


def nested(depth):
    """Nested If nodes, deeper than protobuf libraries write them."""
    graph = field(1, node("Identity", ["x"], ["r"]).SerializeToString()) + field(2, b"leaf")
    graph += field(12, helper.make_tensor_value_info("r", F, None).SerializeToString())
    for _ in range(depth):
        branch = b"".join(field(5, field(1, name) + field(6, graph) + b"\xa0\x01\x05")
                          for name in (b"then_branch",))
        inner = field(1, b"c") + field(2, b"r") + field(3, b"if_node") + field(4, b"If") + branch
        graph = field(1, inner) + field(2, b"level")
        graph += field(12, helper.make_tensor_value_info("r", F, None).SerializeToString())
    empty = model([], [X, ("c", TensorProto.BOOL, [])], [("r", F, None)])
    return empty + field(7, graph)  # parsers merge a repeated message


def recursive_functions():
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    a = helper.make_function("my", "A", ["x"], ["y"],
                             [helper.make_node("B", ["x"], ["y"], domain="my")], imports)
    b = helper.make_function("my", "B", ["x"], ["y"],
                             [helper.make_node("A", ["x"], ["y"], domain="my")], imports)
    return model([helper.make_node("A", ["x"], ["y"], domain="my")], [X], [Y], functions=[a, b])


def models():
    whole = good()
    relu = [node("Relu", ["x"], ["y"])]
    return {
        "good.onnx": whole,
        "cut.onnx": whole[:len(whole) // 2],
        "cut_weight.onnx": whole[:whole.index(b"w" * 1 + b"") + 40],
        "empty.onnx": b"",
        "garbage.onnx": bytes(range(256)) * 16,
        "wire_type.onnx": b"\x3d\x00\x00\x00\x00",
        "long_length.onnx": b"\x3a\xff\xff\xff\xff\x07abc",
        "endless_varint.onnx": b"\x08" + b"\xff" * 40,
        "tensor.onnx": weight("w", np.zeros(3, np.float32)).SerializeToString(),
        "page.onnx": b"<!DOCTYPE html><html><body>404</body></html>",
        "pointer.onnx": b"version https://git-lfs" b".github.com/spec/v1\noid sha256:00\nsize 12345\n",
        "packed.onnx": gzip.compress(whole, mtime=0),
        "no_graph.onnx": helper.make_model(helper.make_graph([], "g", [], []),
                                           ir_version=10).SerializeToString()[:4],
        "future_ir.onnx": model(relu, [X], [Y], ir_version=99),
        "future_opset.onnx": model(relu, [X], [Y], opset=99),
        "no_opset.onnx": onnx.ModelProto(ir_version=10, graph=helper.make_graph(
            relu, "g", [helper.make_tensor_value_info(*X)],
            [helper.make_tensor_value_info(*Y)])).SerializeToString(),
        "cycle.onnx": model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]),
                             node("Relu", ["b"], ["y"])], [X], [Y]),
        "undefined.onnx": model([node("Add", ["x", "bias"], ["y"])], [X], [Y]),
        "twice.onnx": model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], [X], [Y]),
        "no_output.onnx": model(relu, [X], [("z", F, None)]),
        "unknown_ops.onnx": model([node("Frobnicate", ["x"], ["a"]), node("Relu", ["a"], ["b"]),
                                   helper.make_node("Twiddle", ["b"], ["y"], domain="com.example")],
                                  [X], [Y]),
        "unknown_attribute.onnx": model([node("LeakyRelu", ["x"], ["y"], alhpa=0.1)], [X], [Y]),
        "attribute_type.onnx": model([node("LeakyRelu", ["x"], ["y"], alpha="a lot")], [X], [Y]),
        "missing_input.onnx": model([node("MatMul", ["x"], ["y"])], [X], [Y]),
        "mixed_types.onnx": model([node("Add", ["x", "k"], ["y"])], [X, ("k", I, [4])], [Y]),
        "channels.onnx": model([node("Conv", ["x", "w"], ["y"])], [("x", F, [1, 64, 8, 8])], [Y],
                               [weight("w", np.zeros((8, 3, 3, 3), np.float32))]),
        "columns.onnx": model([node("MatMul", ["x", "w"], ["y"])], [X], [Y],
                              [weight("w", np.zeros((5, 2), np.float32))]),
        "reshape.onnx": model([node("Reshape", ["x", "s"], ["y"])], [("x", F, [2, 3])], [Y],
                              [weight("s", np.array([4, 2]))]),
        "axis.onnx": model([node("Softmax", ["x"], ["y"], axis=7)], [X], [Y]),
        "axes_twice.onnx": model([node("Transpose", ["x"], ["y"], perm=[0, 0])], [X], [Y]),
        "shared_dim.onnx": model([node("Concat", ["a", "b"], ["y"], axis=1)],
                                 [("a", F, ["n", 2]), ("b", F, ["m", 2])], [Y]),
        "volume.onnx": model(relu, [("x", F, [1, 1, 2, 2, 2])], [Y]),
        "model.pb": whole,
        "gather.onnx": model([node("Gather", ["x", "i"], ["y"])], [X, ("i", I, [1])], [Y]),
        "name.onnx": model([node("Add", ["x", "evil\x1b[31m\u202ename"], ["y"])], [X], [Y]),
        "short_weight.onnx": with_weight(raw_weight("w", [4], b"\0" * 12)),
        "long_weight.onnx": with_weight(raw_weight("w", [4], b"\0" * 17)),
        "missing_data.onnx": with_weight(raw_weight("w", [4], b"")),
        "negative.onnx": with_weight(raw_weight("w", [-4], b"\0" * 16)),
        "huge.onnx": with_weight(raw_weight("w", [1 << 40, 1 << 40], b"\0" * 16)),
        "huge_alone.onnx": with_weight(raw_weight("w", [1 << 36], b"")),
        "rank.onnx": with_weight(raw_weight("w", [1] * 40, b"\0" * 4)),
        "data_type.onnx": with_weight(raw_weight("w", [4], b"\0" * 16, data_type=99)),
        "filled.onnx": model([node("ConstantOfShape", ["s"], ["y"])], [], [Y],
                             [weight("s", np.array([1 << 30, 1 << 30]))]),
        "large_fill.onnx": model([node("ConstantOfShape", ["s"], ["y"])], [], [Y],
                                 [weight("s", np.array([1 << 20, 1 << 20]))]),
        "window.onnx": model([node("HannWindow", ["n"], ["y"])], [], [Y], [weight("n", np.int32(2**31 - 1))]),
        "range.onnx": model([node("Range", ["a", "n", "d"], ["y"])], [("n", F, [])], [Y],
                            [weight("a", np.float32(0)), weight("d", np.float32(1))]),
        "endless.onnx": model(
            [node("Loop", ["", "", "x"], ["y"], body=helper.make_graph(
                [node("Constant", [], ["go"], value=weight("t", np.array(True))),
                 node("Neg", ["v"], ["w"])], "body",
                [helper.make_tensor_value_info("i", I, []),
                 helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                 helper.make_tensor_value_info("v", F, ["n", 4])],
                [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                 helper.make_tensor_value_info("w", F, ["n", 4])]))], [X], [Y]),
        "nested.onnx": nested(70),
        "recursive.onnx": recursive_functions(),
        "up.onnx": with_weight(external("w", [4], "../outside.bin")),
        "absolute.onnx": with_weight(external("w", [4], "/etc/passwd")),
        "linked.onnx": with_weight(external("w", [4], "link.bin")),
        "device.onnx": with_weight(external("w", [4], "folder")),
        "absent.onnx": with_weight(external("w", [4], "absent.bin")),
        "beyond.onnx": with_weight(external("w", [4], "weights.bin", offset=8)),
        "wrapped.onnx": with_weight(external("w", [4], "weights.bin", offset=(1 << 64) - 8)),
        "no_location.onnx": with_weight(external("w", [4], None)),
        "external_length.onnx": with_weight(external("w", [4], "weights.bin", length=12)),
    }


def branches(then_nodes, then_info, else_nodes, else_info, condition=None):
    """A model with one If; without `condition` its condition is input 'c'."""
    def graph(name, nodes, info):
        return helper.make_graph(nodes, name, [], [info])

    choice = node("If", ["c"], ["y"], then_branch=graph("then", then_nodes, then_info),
                  else_branch=graph("else", else_nodes, else_info))
    if condition is None:
        return model([choice], [X, ("c", TensorProto.BOOL, [])], [Y])
    return model([choice], [X], [Y], [weight("c", np.array(condition))])


def search(op, presents=1, beams=None, returned=None):
    """A search over a decoder of 7 equal logits; with `presents` below 0 it has no outputs."""
    def info(name, kind, *dims):
        return helper.make_tensor_value_info(name, kind, dims)

    i32 = TensorProto.INT32
    names = ["input_ids", "position_ids", "attention_mask"]
    outputs = [info("logits", F, "b", "s", 7), *[info(f"present_{i}", F) for i in range(presents)]]
    decoder = helper.make_graph(
        [node("Cast", ["input_ids"], ["rows"], to=F), node("Unsqueeze", ["rows", "last"], ["columns"]),
         node("Concat", ["columns"] * 7, ["logits"], axis=2),
         *[node("Identity", [f"past_{i}"], [f"present_{i}"]) for i in range(presents)]], "decoder",
        [*[info(name, i32, "b", "s") for name in names],
         *[info(f"past_{i}", F, 2, "b", 2, "p", 3) for i in range(presents)]],
        outputs if presents >= 0 else [], [weight("last", np.array([2]))])
    counts = {"beams": beams, "returned": returned}
    inputs = ["ids", "length"] + (["", *counts] if op == "BeamSearch" else [])
    made = onnx.load_from_string(model(
        [node(op, inputs, ["y"], decoder=decoder, eos_token_id=1, pad_token_id=0)],
        [("ids", i32, ["b", "s"]), ("length", i32, [1]), *[(k, i32, [1]) for k, v in counts.items() if v is None]],
        [("y", i32, None)], [weight(k, np.array([v], np.int32)) for k, v in counts.items() if v is not None]))
    made.graph.node[0].domain = "com.microsoft"
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made.SerializeToString()


def imports():
    """Models that are refused, or bounded in memory."""
    relu = [node("Relu", ["x"], ["y"])]
    plain = model(relu, [X], [Y])
    one = [node("Identity", ["x"], ["a"])], helper.make_tensor_value_info("a", F, None)
    several = [node("SequenceConstruct", ["x", "x"], ["b"])], helper.make_tensor_sequence_value_info("b", F, None)
    integers = [node("Shape", ["x"], ["b"])], helper.make_tensor_value_info("b", I, None)
    function = helper.make_function("my", "A", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])],
                                    [helper.make_opsetid("", 999)])
    large = 1 << 62
    return {
        "beam_search_no_outputs.onnx": search("BeamSearch", -1),
        "greedy_search_no_outputs.onnx": search("GreedySearch", -1),
        "beam_search_no_pasts.onnx": search("BeamSearch", 0),
        "beam_search_returned.onnx": search("BeamSearch", 1, 2, 3),
        "beam_search_no_beams.onnx": search("BeamSearch", 1, 0),
        "beam_search.onnx": search("BeamSearch"),
        "if_kinds.onnx": branches(*one, *several),
        "if_known.onnx": branches(*one, *several, condition=True),
        "if_types.onnx": branches(*one, *integers),
        "opset_33.onnx": model(relu, [X], [Y], opset=33),
        "opset_34.onnx": model(relu, [X], [Y], opset=34),
        "opset_999.onnx": model(relu, [X], [Y], opset=999),
        "function_999.onnx": model([helper.make_node("A", ["x"], ["y"], domain="my")], [X], [Y],
                                   functions=[function]),
        "empty_weight.onnx": model([node("Relu", ["w"], ["y"])], [], [Y], [raw_weight("w", [large, 0], b"")]),
        "empty_fill.onnx": model([node("ConstantOfShape", ["s"], ["y"])], [], [Y],
                                 [weight("s", np.array([large, 0]))]),
        "empty_input.onnx": model(relu, [("x", F, [large, 0])], [Y]),
        "metadata_value.onnx": plain + field(14, field(1, b"k") + field(2, b"v" * 20_000_000)),
        "metadata_keys.onnx": plain + b"".join(
            field(14, field(1, b"%d" % i) + field(2, b"v")) for i in range(1_200_000)),
        "metadata_empty.onnx": plain + field(14, b"") * 10_000_000,
        "external_pointer.onnx": with_weight(external("w", [4], "pointer.bin")),
        "pointer.bin": make_llm_files.POINTER,
        "pointer.npy": make_llm_files.POINTER,
        "pointer.lathe": make_llm_files.POINTER,
    }


def texts():
    def program(body, parameters="%x: f32[n, 4]", stage="imported"):
        return (f'program "t" stage {stage} {{\n  symbol n bound 1..*\n'
                f"  module @main({parameters}) {{\n{body}\n  }}\n}}\n").encode()

    return {
        "good.lathe": program("    %y = relu(%x)\n    return %y as \"y\""),
        "syntax.lathe": program("    %y = relu(%x\n    return %y"),
        "unknown_op.lathe": program("    %y = rleu(%x)\n    return %y"),
        "unknown_value.lathe": program("    %y = relu(%z)\n    return %y"),
        "unknown_attribute.lathe": program("    %y = leaky_relu(%x) {alhpa = 1.0}\n    return %y"),
        "wrong_type.lathe": program("    %y = relu(%x) : f32[n, 5]\n    return %y"),
        "no_literal.lathe": program("    %w = literal f32[400] #0123456789abcdef\n"
                                    "    %y = add(%x, %w)\n    return %y"),
        "far_literal.lathe": program('    %w = literal f32[4] file "/etc/hostname" offset 0\n'
                                     "    %y = add(%x, %w)\n    return %y"),
        "cut.lathe": program("    %y = relu(%x)\n    return %y")[:60],
    }


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def png(width, height, data):
    def chunk(kind, content):
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def archive(members, damage=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    content = bytearray(out.getvalue())
    if damage:
        content[60] ^= 0xFF
    return bytes(content)


def archive_bomb(header):
    """An archive whose member has 400 MB of zeros after its header."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made, made.open("x.npy", "w") as member:
        member.write(header)
        for _ in range(400):
            member.write(b"\0" * 1_000_000)
    return out.getvalue()


def saved(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def tensors():
    x = saved(np.ones((2, 4), np.float32))
    picture = png(4, 4, zlib.compress(b"\0\0\0\0\0" * 4))
    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
    return {
        "x.npy": x,
        "x3.npy": saved(np.ones((2, 3), np.float32)),
        "double.npy": saved(np.ones((2, 4))),
        "flat.npy": saved(np.ones(4, np.float32)),
        "cut.npy": x[:-5],
        "cut_header.npy": x[:30],
        "pickle.npy": npy(shape.replace("<f4", "|O") % "(2, 4)", b"\x80\x04."),
        "records.npy": npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", b"\0" * 8),
        "huge.npy": npy(shape % "(4611686018427387904, 4)"),
        "large.npy": npy(shape % "(1099511627776, 4)", b"\0" * 64),
        "no_shape.npy": npy("{'descr': '<f4', 'fortran_order': False, }"),
        "wrong_name.npz": archive({"xx.npy": x}),
        "damaged.npz": archive({"x.npy": x}, damage=True),
        "no_arrays.npz": archive({"readme.txt": b"nothing"}),
        "cut.npz": archive({"x.npy": x})[:60],
        "cut.png": picture[:50],
        "text.png": b"these are only words\n",
        "text.npy": b"these are only words\n",
        "text.npz": b"these are only words\n",
        "empty.npy": b"",
        "table.csv": b"1,2,3\n4,5,6\n",
        "cut_member.npz": archive({"x.npy": x[:-5]}),
        "text_member.npz": archive({"x.npy": b"these are only words\n"}),
        "bomb.npz": archive_bomb(npy(shape % "(2, 4)")),
        "no_utf8.txt": b"one \xff two\n",
        "bomb.png": png(4, 4, zlib.compress(b"\0" * 50_000_000)),
        "enormous.png": png(1 << 20, 1 << 20, zlib.compress(b"\0" * 100)),
        "picture.png": picture,
        "cut.pb": weight("x", np.ones((2, 4), np.float32)).SerializeToString()[:-3],
        "weights.bin": np.zeros(4, np.float32).tobytes(),
        "labels.txt": b"one\ntwo\n",
        "words.txt": b"these are only words\n",
    }


def make(folder):
    for name, content in {**models(), **imports(), **texts(), **tensors()}.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    data = folder / "broken_data" / "test_data_set_0"
    data.mkdir(parents=True)
    (data.parent / "model.onnx").write_bytes(good())
    (data / "input_0.pb").write_bytes(tensors()["cut.pb"])
    os.symlink("/etc/hostname", folder / "link.bin")
    os.symlink("/dev/full", folder / "full.npz")
    os.mkfifo(folder / "pipe.onnx")
    make_folders.make(folder)
    make_llm_files.make(folder)
    os.symlink("absent", folder / "checkpoints" / "dangling" / "model.safetensors")
    os.mkfifo(folder / "checkpoints" / "pipe.gguf")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make(target)
