# SPDX-License-Identifier: MIT
"""The linear layers of an 8B model with int4 weights (blocks of 128), beside PyTorch's int4 product in one CUDA graph.

Weights are a model's constants, so launches overlap as they do in a whole model; layers take those of four in turns, more
than a cache holds. Both have four products a layer; Lathe's also have what follows them in the model (SiLU times the other
half, residuals)."""

import json
import statistics
import time

SHAPE = {"hidden": 4096, "heads": 6144, "inner": 14336, "layers": 32, "weights": 4, "block": 128}
SMALL = {"hidden": 256, "heads": 384, "inner": 512, "layers": 2, "weights": 1, "block": 128}
ROWS = (1, 8, 16)
WEIGHTS = "weights.data"
MOST_DIFFERENCE = 0.02  # root mean square, of activations of 8 and 16 bits


def products(shape):
    h, inner = shape["hidden"], shape["inner"]
    return {"qkv": (h, shape["heads"]), "o": (h, h), "gate": (h, inner), "up": (h, inner), "down": (inner, h)}


def tensors(shape):
    """Name, type of elements, sizes and place in the file of each tensor of weights."""
    block, at = shape["block"], 0
    for w in range(shape["weights"]):
        for name, (k, n) in products(shape).items():
            for tensor, kind, dims, size in ((f"{name}{w}", "uint8", (n, k // block, block // 2), n * k // 2),
                                             (f"{name}{w}s", "float16", (n, k // block), 2 * n * k // block)):
                yield tensor, kind, dims, at
                at += (size + 4095) // 4096 * 4096


def write_model(shape, rows, path):
    """An ONNX model of `rows` rows whose weights `write_weights` wrote beside it."""
    import onnx
    from onnx import TensorProto, helper

    def initializer(name, kind, dims, at):
        kind = {"uint8": TensorProto.UINT8, "float16": TensorProto.FLOAT16}[kind]
        tensor = onnx.TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", WEIGHTS), ("offset", str(at))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        return tensor

    initializers = [initializer(*tensor) for tensor in tensors(shape)]
    for name, value in (("begin", 0), ("end", shape["hidden"]), ("one", 1)):
        initializers.append(helper.make_tensor(name, TensorProto.INT64, [1], [value]))
    nodes = []

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    x = "x"
    for i in range(shape["layers"]):
        w = i % shape["weights"]

        def product(name, a):
            k, n = products(shape)[name]
            return add("MatMulNBits", [a, f"{name}{w}", f"{name}{w}s"], f"{name}_{i}", domain="com.microsoft", K=k, N=n,
                       bits=4, block_size=shape["block"], accuracy_level=4)

        query = add("Slice", [product("qkv", x), "begin", "end", "one", "one"], f"query_{i}")
        y = add("Add", [product("o", query), x], f"y_{i}")
        gate, up = product("gate", y), product("up", y)
        silu = add("Mul", [gate, add("Sigmoid", [gate], f"sigmoid_{i}")], f"silu_{i}")
        down = product("down", add("Mul", [silu, up], f"inner_{i}"))
        x = add("Add", [down, y], "y" if i + 1 == shape["layers"] else f"x_{i}")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, [rows, shape["hidden"]]) for name in "xy")
    graph = helper.make_graph(nodes, "int4", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def write_weights(shape, folder):
    """Codes of mean 8, which is 0, and scales that keep activations near 1."""
    import numpy

    random = numpy.random.default_rng(3)
    with open(folder / WEIGHTS, "wb") as file:
        for name, kind, dims, at in tensors(shape):
            file.seek(at)
            if kind == "uint8":
                low, high = random.integers(1, 16, (2, *dims), numpy.uint8)
                (low | high << 4).tofile(file)
            else:
                k = dims[1] * shape["block"]
                ((random.random(dims) + 0.5) * 0.05 / k**0.5).astype(numpy.float16).tofile(file)


def torch_layers(shape, folder):
    """A function of rows: the layers' products, and one that has the model's results."""
    import numpy
    import torch

    read = {name: numpy.fromfile(folder / WEIGHTS, kind, int(numpy.prod(dims)), offset=at).reshape(dims)
            for name, kind, dims, at in tensors(shape)}
    layers = []
    for w in range(shape["weights"]):
        own = []
        for names in (("qkv",), ("o",), ("gate", "up"), ("down",)):
            codes = numpy.concatenate([read[f"{name}{w}"] for name in names])
            scales = numpy.concatenate([read[f"{name}{w}s"] for name in names])
            n = codes.shape[0]
            # PyTorch has the first of two codes in the high bits.
            swapped = torch.from_numpy(codes.reshape(n, -1)).cuda()
            swapped = (swapped >> 4 | swapped << 4).contiguous()
            packed = torch.ops.aten._convert_weight_to_int4pack(swapped, 8)
            pair = torch.stack([torch.from_numpy(scales).cuda().t(), torch.zeros_like(torch.from_numpy(scales).t()).cuda()], -1)
            own.append((packed, pair.to(torch.bfloat16).contiguous()))
        layers.append(own)

    def product(x, own):
        return torch.ops.aten._weight_int4pack_mm(x, own[0], shape["block"], own[1])

    def model(x):
        for i in range(shape["layers"]):
            qkv, o, gates, down = layers[i % shape["weights"]]
            x = x + product(product(x, qkv)[:, : shape["hidden"]].contiguous(), o)
            gate, up = product(x, gates).chunk(2, -1)
            x = x + product(torch.nn.functional.silu(gate) * up, down)
        return x

    def only_products(x, inner):
        for i in range(shape["layers"]):
            qkv, o, gates, down = layers[i % shape["weights"]]
            product(x, qkv), product(x, o), product(x, gates), product(inner, down)

    return model, only_products


def time_torch(shape, rows, only_products):
    import torch

    x = torch.randn(rows, shape["hidden"], device="cuda", dtype=torch.bfloat16)
    inner = torch.randn(rows, shape["inner"], device="cuda", dtype=torch.bfloat16)
    only_products(x, inner)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        only_products(x, inner)
    times = []
    for _ in range(33):
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[3:])


def measure(root, run, target, results):
    import numpy

    small = target == "gpu:host"
    shape = SMALL if small else SHAPE
    folder = root / "int4"
    folder.mkdir(exist_ok=True)
    write_weights(shape, folder)
    layers = None
    if not small:
        import torch

        layers = torch_layers(shape, folder)
    results["int4"] = {}
    for rows in ROWS:
        path = folder / f"rows-{rows}.onnx"
        write_model(shape, rows, path)
        x = numpy.random.default_rng(4).standard_normal((rows, shape["hidden"])).astype(numpy.float16)
        numpy.save(folder / "x.npy", x)
        inputs = ["-i", f"x={folder / 'x.npy'}"]
        entry = results["int4"][rows] = {}
        found = folder / "y.npz"
        code, out, err, _ = run(["bin/lathe", "run", str(path), "--target", target, *inputs, "-o", str(found)], target)
        if code != 0:
            print(f"int4, {rows} rows: exit {code}\n{err[-1000:]}")
            continue
        y = numpy.load(found)["y"].astype(numpy.float64)
        if layers:
            with torch.no_grad():
                expected = layers[0](torch.from_numpy(x).cuda().to(torch.bfloat16)).double().cpu().numpy()
            entry["difference"] = float(numpy.sqrt(((y - expected) ** 2).mean() / (expected**2).mean()))
            if not entry["difference"] < MOST_DIFFERENCE:
                print(f"int4, {rows} rows: results differ by {entry['difference']:.1e} of their size: not timed")
                continue
        command = ["bin/lathe", "perf", str(path), "--target", target, "--json", "--device-io", *inputs]
        command += ["-n", "2" if small else "50"]
        times = []
        for _ in range(2 if layers else 1):
            code, out, err, _ = run(command, target)
            if code != 0:
                print(f"int4, {rows} rows: exit {code}\n{err[-1000:]}")
                break
            times.append(json.loads(out)["latency_ms"]["p50"])
            if layers and "torch" not in entry:
                with torch.no_grad():
                    entry["torch"] = time_torch(shape, rows, layers[1])
        if code != 0:
            continue
        entry["ms"] = sum(times) / len(times)
        line = f"int4, linear layers, {rows} rows: {', '.join(f'{ms:.3f}' for ms in times)} ms"
        if layers:
            line += (f", PyTorch between them {entry['torch']:.3f}, ratio {entry['torch'] / entry['ms']:.2f}, difference of "
                     f"results {entry['difference']:.1e}")
        print(line, flush=True)
