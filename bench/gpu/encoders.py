# SPDX-License-Identifier: MIT
"""ResNet-50 and BERT-base in f16 beside torch.compile with CUDA graphs: once outputs are those of the CPU, rounds of one
and the other in turns, with inputs and outputs on the card."""

import json
import pathlib
import statistics
import tempfile
import time

# Graph, sizes of its symbols.
CASES = [
    ("resnet50", {"batch": 1}),
    ("resnet50", {"batch": 8}),
    ("resnet50", {"batch": 64}),
    ("bert_base", {"batch": 1, "sequence": 128}),
    ("bert_base", {"batch": 8, "sequence": 128}),
    ("bert_base", {"batch": 8, "sequence": 384}),
]
ROUNDS = 3
LIMIT = 1e-2  # largest error relative to the largest output


def make_peer(name, sizes):
    """A function that runs PyTorch's model once, without waiting."""
    import torch
    import torchvision
    import transformers

    torch.compiler.reset()
    if name == "resnet50":
        model = torchvision.models.resnet50().eval().cuda().half().to(memory_format=torch.channels_last)
        x = torch.randn(sizes["batch"], 3, 224, 224).cuda().half().to(memory_format=torch.channels_last)
    else:
        model = transformers.BertModel(transformers.BertConfig()).eval().cuda().half()
        x = torch.randint(0, 1000, (sizes["batch"], sizes["sequence"])).cuda()
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)

    def once():
        with torch.no_grad():
            compiled(x)

    for _ in range(5):  # compiles, then records
        once()
    torch.cuda.synchronize()
    return once


def time_peer(once):
    import torch

    times = []
    for _ in range(50):
        start = time.perf_counter()
        once()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def error_of(outputs_of, path, fills, target):
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        expected, _ = outputs_of(path, "cpu", "f32", fills, folder, target)
        found, _ = outputs_of(path, target, "f16", fills, folder, target)
    if expected is None or found is None:
        return None
    return max(float(numpy.abs(found[key] - value).max() / max(abs(value).max(), 1e-30)) for key, value in expected.items())


def compare(root, run, outputs_of, make_data, target, results, time_left):
    entries = results["encoders"] = []
    for name, sizes in CASES[3:4] if target == "gpu:host" else CASES:
        path = root / "graphs" / f"{name}.onnx"
        if not path.exists() or time_left() < 30:
            continue
        if not pathlib.Path(f"{path}.data").exists():
            make_data(path)
        shown = {"sequence": 16} if target == "gpu:host" else {}
        fills = [part for key, value in (sizes | shown).items() for part in ("--fill", f"{key}={value}")]
        error = error_of(outputs_of, path, fills, target)
        entry = {"graph": name, "sizes": sizes, "error": error, "rounds": []}
        entries.append(entry)
        if error is None or error > LIMIT:
            print(f"{name} {sizes}: error {error}: not timed", flush=True)
            continue
        once = None if target == "gpu:host" else make_peer(name, sizes)
        command = ["bin/lathe", "perf", str(path), "--target", target, "--json", "--device-io", "--compute", "f16", "-n",
                   "2" if target == "gpu:host" else "50", *fills]
        for _ in range(ROUNDS):
            code, out, err, _ = run(command, target)
            if code != 0:
                print(f"{name} {sizes}: exit {code}\n{err[-1500:]}", flush=True)
                break
            own = json.loads(out)["latency_ms"]["p50"]
            entry["rounds"].append({"lathe_ms": own, "torch_ms": time_peer(once) if once else None})
        rounds = [one for one in entry["rounds"] if one["torch_ms"]]
        text = " ".join(f"{key}={value}" for key, value in sizes.items())
        if rounds:
            entry["ratio"] = statistics.median(one["torch_ms"] / one["lathe_ms"] for one in rounds)
            own, theirs = (", ".join(f"{one[key]:.3f}" for one in rounds) for key in ("lathe_ms", "torch_ms"))
            print(f"{name} {text} f16: error {error:.1e}; Lathe {own} ms, PyTorch compiled, with graphs {theirs} ms: ratio "
                  f"{entry['ratio']:.2f}", flush=True)
        else:
            print(f"{name} {text} f16: error {error:.1e}", flush=True)
