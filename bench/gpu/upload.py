# SPDX-License-Identifier: MIT
"""How fast weights reach the card, beside copies from pinned memory, and what a model takes there beyond its weights,
caches and the context.

usage: upload.py context|pinned|model FOLDER TARGET
"""

import ctypes
import json
import pathlib
import re
import subprocess
import sys
import time

import package


def used():
    """MiB in use on the first card."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                         capture_output=True, text=True, check=True).stdout
    return int(out.split()[0])


def context():
    """MiB of an empty context."""
    before = used()
    cuda = ctypes.CDLL("libcuda.so.1")
    place = ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(place), 0) or cuda.cuCtxSetCurrent(place):
        raise SystemExit("no context")
    return {"mib": used() - before}


def pinned():
    """Bytes a second of copies from pinned and from pageable memory."""
    import torch

    count = 1 << 30
    to = torch.empty(count, dtype=torch.uint8, device="cuda")
    rates = {}
    for name, block in (("pinned", torch.empty(count, dtype=torch.uint8, pin_memory=True)),
                        ("pageable", torch.ones(count, dtype=torch.uint8))):
        seconds = []
        for _ in range(4):
            torch.cuda.synchronize()
            start = time.perf_counter()
            to.copy_(block, non_blocking=True)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        rates[name] = count / min(seconds)
    return rates


def model(folder, target):
    import lathe.genai as og
    import lathe.onnxruntime as ort
    import numpy

    card = target != "gpu:host"
    at_start = used() if card else 0
    start = time.perf_counter()
    kept = ort.OrtValue.ortvalue_from_numpy(numpy.zeros(1, numpy.float32), target if not card else "cuda")
    opened = time.perf_counter() - start
    for file in pathlib.Path(folder).glob("*.safetensors"):  # from the disk into the page cache
        with open(file, "rb", buffering=0) as data:
            block = bytearray(1 << 24)
            while data.readinto(block):
                pass
    start = time.perf_counter()
    made = og.Model(folder, target=target, compute="bf16")
    loaded = time.perf_counter() - start
    settings = json.loads((pathlib.Path(folder) / "config.json").read_text())
    start = time.perf_counter()
    prompt = package.ids(40 if not card else 512, settings["vocab_size"])
    package.generate(made, prompt, 4 if not card else 64)
    ready = time.perf_counter() - start
    count = len(prompt) + (4 if not card else 64)
    cache = 4 * settings["num_hidden_layers"] * settings["num_key_value_heads"] * settings["head_dim"] * count
    status = pathlib.Path("/proc/self/status").read_text()
    del kept
    return {"device_s": opened, "load_s": loaded, "first_s": ready, "mib": used() - at_start if card else 0, "cache_mib": cache >> 20,
            "peak_host_mib": int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) >> 10}


def compare(folder, weight_bytes, run, target, results):
    found = package.call("upload.py", ["model", folder, target], run, target)
    if found is None:
        return
    if target == "gpu:host":
        print(f"upload: {found}")
        return
    own = package.call("upload.py", ["context", folder, target], run, target) or {"mib": 0}
    rates = package.call("upload.py", ["pinned", folder, target], run, target) or {"pinned": float("nan")}
    rate = weight_bytes / found["load_s"]
    beside = found["mib"] - own["mib"] - (weight_bytes >> 20) - found["cache_mib"]
    results["upload"] = found | rates | {"context_mib": own["mib"], "beside_mib": beside, "rate": rate}
    print(f"upload of {weight_bytes / 1e9:.2f} GB: device opened in {found['device_s']:.2f} s, model in {found['load_s']:.2f} s, {rate / 1e9:.1f} GB/s, "
          f"{rate / rates['pinned']:.2f} of pinned copies ({json.dumps(rates)}); first generation {found['first_s']:.2f} s", flush=True)
    print(f"memory in use {found['mib']} MiB: weights {weight_bytes >> 20}, caches {found['cache_mib']}, context "
          f"{own['mib']}, beside them {beside} MiB; of the host at most {found['peak_host_mib']} MiB", flush=True)


if __name__ == "__main__":
    part = {"context": context, "pinned": pinned}.get(sys.argv[1])
    print(json.dumps(part() if part else model(*sys.argv[2:4])))
