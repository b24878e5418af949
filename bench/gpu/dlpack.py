# SPDX-License-Identifier: MIT
"""A tensor of PyTorch's behind a kernel of 100 ms on its stream: taken over by DLPack, read in place by a run that
returns at once.

usage: dlpack.py TARGET
"""

import json
import pathlib
import sys
import tempfile
import threading
import time

import package

ROWS, COLUMNS = 256, 1024


def model():
    import numpy
    import onnx
    from onnx import TensorProto, helper

    weight = numpy.random.default_rng(1).standard_normal((COLUMNS, COLUMNS), dtype=numpy.float32) / 32
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", COLUMNS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])],
        [onnx.numpy_helper.from_array(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made.SerializeToString(), weight


def copied(torch, work):
    """Bytes that cross between host and card during `work`; None where PyTorch's profiler sees no card."""
    if not torch.cuda.is_available():
        work()
        return None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        found.export_chrome_trace(file.name)
        events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
    return sum(event["args"].get("bytes", 0) for event in events
               if event.get("cat") == "gpu_memcpy" and "DtoD" not in event["name"])


def measure(target):
    import lathe.onnxruntime as ort
    import torch

    text, weight = model()
    session = ort.InferenceSession(text, providers=[("LatheExecutionProvider", {"target": target})])
    card = torch.cuda.is_available()
    place = "cuda" if card else "cpu"
    w = torch.from_numpy(weight).to(place)
    x, y = torch.zeros(ROWS, COLUMNS, device=place), torch.zeros(ROWS, COLUMNS, device=place)
    side = torch.cuda.Stream() if card else None
    kilohertz = getattr(torch.cuda.get_device_properties(0), "clock_rate", 1_800_000) if card else 0
    cycles = kilohertz * 100
    times, errors, total = [], [], []

    def once(seed, stream):
        """From a kernel of PyTorch's to the end of our run."""
        source = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed)).to(place)
        expected = torch.relu(source.double() @ w.double())
        if card:
            torch.cuda.synchronize()
        done, failed = threading.Event(), []

        def finished(results, _, error):
            failed.extend([error] if error else [])
            done.set()

        def run():
            if card:
                torch.cuda._sleep(cycles)
            x.copy_(source)  # behind the kernel
            start = time.perf_counter()
            value = ort.OrtValue.from_dlpack(x)
            into = {"y": ort.OrtValue.from_dlpack(y)} if card else {}
            if into:
                bound(value, into["y"], finished)
            else:
                session.run_async(None, {"x": value._value}, finished, None)
            times.append(time.perf_counter() - start)
            done.wait(20)
            total.append(time.perf_counter() - start)

        def bound(value, to, callback):
            def work():
                try:
                    binding = session.io_binding()
                    binding.bind_ortvalue_input("x", value)
                    binding.bind_ortvalue_output("y", to)
                    session.run_with_iobinding(binding)
                    callback([], None, "")
                except Exception as error:  # noqa: BLE001 — the bench prints it
                    callback([], None, str(error))

            threading.Thread(target=work).start()

        if stream is not None:
            with torch.cuda.stream(stream):
                run()
        else:
            run()
        if failed or not done.is_set():
            errors.append(failed or ["not done"])
        elif card:
            errors.append(float((y.double() - expected).abs().max() / expected.abs().max()))

    for seed in range(3):
        once(seed, None)
        once(seed + 10, side)
    del times[:2]  # of the first runs, which load libraries
    crossed = copied(torch, lambda: once_more(session, ort, x, y, card))
    return {"returned_ms": [1e3 * min(times), 1e3 * max(times)], "ended_ms": [1e3 * min(total), 1e3 * max(total)],
            "errors": errors, "crossed_bytes": crossed}


def once_more(session, ort, x, y, card):
    """A run whose tensors stay where they are."""
    if not card:
        return
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.from_dlpack(x))
    binding.bind_ortvalue_output("y", ort.OrtValue.from_dlpack(y))
    session.run_with_iobinding(binding)


def compare(run, target, results):
    found = results["dlpack"] = package.call("dlpack.py", [target], run, target)
    if found:
        print(f"PyTorch's tensor by DLPack behind a kernel of 100 ms, on the default and another stream: returned after "
              f"{found['returned_ms']} ms, ended after {found['ended_ms']} ms, errors {found['errors']}, "
              f"{found['crossed_bytes']} bytes crossed", flush=True)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
