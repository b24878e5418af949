# SPDX-License-Identifier: MIT
"""The linear layers of an 8B model with int4 weights (blocks of 128), beside PyTorch's int4 product in one CUDA graph.

Layers take the weights of four in turns, more than a cache holds. Both have four products a layer; Lathe's also have what
follows them in the model (SiLU times the other half, residuals)."""

import json
import statistics
import time

SHAPE = {"hidden": 4096, "heads": 6144, "inner": 14336, "layers": 32, "weights": 4, "block": 128}
SMALL = {"hidden": 256, "heads": 384, "inner": 512, "layers": 2, "weights": 1, "block": 128}
ROWS = (1, 8, 16)
MOST_DIFFERENCE = 0.02  # root mean square, of activations of 8 and 16 bits


def products(shape):
    h, inner = shape["hidden"], shape["inner"]
    return {"qkv": (h, shape["heads"]), "o": (h, h), "gate": (h, inner), "up": (h, inner), "down": (inner, h)}


def program(shape, rows):
    """Text of a program whose weights are inputs."""
    block, hidden = shape["block"], shape["hidden"]
    inputs, lines = [f"%x: f16[{rows}, {hidden}]"], ["    %begin = literal i64[1] {0}", "    %step = literal i64[1] {1}",
                                                    "    %axis = literal i64[1] {1}",
                                                    f"    %end = literal i64[1] {{{hidden}}}"]
    for w in range(shape["weights"]):
        for name, (k, n) in products(shape).items():
            inputs.append(f"%{name}{w}: u8[{n}, {k // block}, {block // 2}]")
            inputs.append(f"%{name}{w}s: f16[{n}, {k // block}]")
    x = "%x"
    for i in range(shape["layers"]):
        w = i % shape["weights"]

        def product(name, a):
            k, n = products(shape)[name]
            result = f"%{name}_{i}"
            lines.append(f"    {result} = matmul_n_bits({a}, %{name}{w}, %{name}{w}s) {{k = {k}, n = {n}, bits = 4, "
                         f'block_size = {block}, compute_type = "int8"}}')
            return result

        qkv = product("qkv", x)
        lines.append(f"    %q{i} = slice({qkv}, %begin, %end, %axis, %step)")
        lines.append(f"    %y{i} = add({product('o', f'%q{i}')}, {x})")
        gate, up = product("gate", f"%y{i}"), product("up", f"%y{i}")
        lines.append(f"    %g{i} = sigmoid({gate})")
        lines.append(f"    %h{i} = mul({gate}, %g{i})")
        lines.append(f"    %m{i} = mul(%h{i}, {up})")
        lines.append(f"    %z{i} = add({product('down', f'%m{i}')}, %y{i})")
        x = f"%z{i}"
    body = "\n".join(lines)
    return (f'program "int4" stage imported {{\n  module @main({", ".join(inputs)}) {{\n{body}\n'
            f'    return {x} as "y"\n  }}\n}}\n')


def weights(shape, folder):
    """Codes of mean 8, which is 0, and scales that keep activations near 1; files."""
    import numpy

    random = numpy.random.default_rng(3)
    for w in range(shape["weights"]):
        for name, (k, n) in products(shape).items():
            low, high = random.integers(1, 16, (2, n, k // shape["block"], shape["block"] // 2), numpy.uint8)
            codes = low | high << 4
            scales = (random.random((n, k // shape["block"])) + 0.5) * 0.05 / k**0.5
            numpy.save(folder / f"{name}{w}.npy", codes)
            numpy.save(folder / f"{name}{w}s.npy", scales.astype(numpy.float16))


def torch_layers(shape, folder):
    """A function of rows: the layers' products, and one that has the model's results."""
    import numpy
    import torch

    layers = []
    for w in range(shape["weights"]):
        own = []
        for names in (("qkv",), ("o",), ("gate", "up"), ("down",)):
            codes = numpy.concatenate([numpy.load(folder / f"{name}{w}.npy") for name in names])
            scales = numpy.concatenate([numpy.load(folder / f"{name}{w}s.npy") for name in names])
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
    weights(shape, folder)
    files = [part for path in sorted(folder.glob("*[0-9]*.npy")) for part in ("-i", f"{path.stem}={path}")]
    layers = None
    if not small:
        import torch

        layers = torch_layers(shape, folder)
    results["int4"] = {}
    for rows in ROWS:
        path = folder / f"rows-{rows}.txt"
        path.write_text(program(shape, rows))
        x = numpy.random.default_rng(4).standard_normal((rows, shape["hidden"])).astype(numpy.float16)
        numpy.save(folder / "x.npy", x)
        inputs = [*files, "-i", f"x={folder / 'x.npy'}"]
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
        code, out, err, _ = run(command + ["-n", "2" if small else "30"], target)
        if code != 0:
            print(f"int4, {rows} rows: exit {code}\n{err[-1000:]}")
            continue
        entry["ms"] = json.loads(out)["latency_ms"]["p50"]
        line = f"int4, linear layers, {rows} rows: {entry['ms']:.3f} ms"
        if layers:
            with torch.no_grad():
                entry["torch"] = time_torch(shape, rows, layers[1])
            line += (f", PyTorch {entry['torch']:.3f}, ratio {entry['torch'] / entry['ms']:.2f}, difference of results "
                     f"{entry['difference']:.1e}")
        print(line, flush=True)
