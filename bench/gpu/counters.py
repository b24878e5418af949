# SPDX-License-Identifier: MIT
"""Graphs whose inputs and outputs stay on the card: launches elsewhere, bytes that cross the bus in a run, whether two
runs are equal in every bit.

usage: counters.py GRAPH TARGET COMPUTE NAME=SIZE...
"""

import json
import pathlib
import sys
import tempfile

import package

GRAPHS = {
    "vit_b_16": ["batch=1"],
    "mobilenet_v3_large": ["batch=1"],
    "resnet50": ["batch=1"],
    "bert_base": ["batch=1", "sequence=128"],
    "minilm": ["batch_size=2", "sequence_length=64"],
}
# Sizes and views are no work on values.
NOT_ELSEWHERE = ("gpu.", "executor", "host.dims", "view")


def crossed(events):
    """(bytes between host and card, launches, copies on the card)"""
    copies = [event for event in events if event.get("cat") == "gpu_memcpy"]
    outside = [event for event in copies if "DtoD" not in event["name"]]
    return (sum(event["args"].get("bytes", 0) for event in outside),
            sum(event.get("cat") == "kernel" for event in events), len(copies) - len(outside))


def measure(graph, target, compute, *sizes):
    import lathe.onnxruntime as ort
    import numpy

    given = dict(size.split("=") for size in sizes)
    session = ort.InferenceSession(graph, providers=[("LatheExecutionProvider", {"target": target, "compute": compute})])
    place = target if target == "gpu:host" else "cuda"
    binding = session.io_binding()
    random = numpy.random.default_rng(1)
    kept = []
    for value in session.get_inputs():
        shape = [int(given.get(size, 1)) if isinstance(size, str) else size for size in value.shape]
        array = (random.standard_normal(shape, dtype=numpy.float32) if "float" in value.type
                 else numpy.ones(shape, numpy.int64) if "mask" in value.name
                 else random.integers(0, 2 if "type" in value.name else 1000, shape, dtype=numpy.int64))
        kept.append(ort.OrtValue.ortvalue_from_numpy(array, place))
        binding.bind_ortvalue_input(value.name, kept[-1])
    for value in session.get_outputs():
        binding.bind_output(value.name, place)
    results = []
    for _ in range(4):
        session.run_with_iobinding(binding)
        results.append([output.numpy() for output in binding.get_outputs()])
    equal = all(numpy.array_equal(a, b) for a, b in zip(results[0], results[-1]))
    out = {"equal": equal, "finite": all(bool(numpy.isfinite(array).all()) for array in results[0])}
    try:
        import torch

        if not torch.cuda.is_available():
            return out
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
            for _ in range(8):
                session.run_with_iobinding(binding)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            found.export_chrome_trace(file.name)
            events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
        total, launches, copies = crossed(events)
        out |= {"crossed_bytes": total / 8, "launches": launches / 8, "device_copies": copies / 8}
    except ImportError:
        pass
    return out


def compare(root, fill, run, target, results):
    """`fill(path)` makes a graph's weights."""
    entries = results["counters"] = {}
    for name, sizes in GRAPHS.items():
        path = root / "graphs" / f"{name}.onnx"
        if not path.exists():
            continue
        if not pathlib.Path(f"{path}.data").exists():
            fill(path)
        code, out, err, _ = run(["bin/lathe", "explain", str(path), "--target", target, "--json"], target)
        if code != 0:
            print(f"explain {name}: exit {code}\n{err[-800:]}", flush=True)
            continue
        kernels = [launch["kernel"] for launch in json.loads(out)["launches"]]
        others = sorted({kernel for kernel in kernels if not kernel.startswith(NOT_ELSEWHERE)})
        found = package.call("counters.py", [path, target, "f16", *sizes], run, target)
        entries[name] = {"planned": len(kernels), "elsewhere": others} | (found or {})
        print(f"{name} {' '.join(sizes)} f16 on {target}: {len(kernels)} launches planned, elsewhere {others or 'none'}; "
              f"a run: {found}", flush=True)


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
