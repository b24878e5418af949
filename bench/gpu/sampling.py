# SPDX-License-Identifier: MIT
"""The time of one choice of tokens from 32 rows of 128,256 logits."""

import json

PROGRAM = """program "sampling" stage imported {
  module @main(%logits: f32[32, VOCABULARY], %integers: i64[32, 8], %numbers: f64[32, 6], %bounds: i32[33]) {
    %edits = literal i32[0, 2] {}
    %values = literal f64[0] {}
    %ranks = literal i32[0] {}
    %t, %p, %l, %q = choose_tokens(%logits, %integers, %numbers, %bounds, %edits, %values, %ranks, _)
    return %t as "t"
  }
}
"""
# Name, sample, top-k, top-p.
WAYS = [("greedy", 0, 0, 0), ("top-k 50, top-p 0.9", 1, 50, 0.9), ("top-p 0.9", 1, 0, 0.9), ("all", 1, 0, 0)]


def measure(root, run, target, results):
    import numpy

    vocabulary = 1000 if target == "gpu:host" else 128256
    folder = root / "sampling"
    folder.mkdir(exist_ok=True)
    (folder / "program.txt").write_text(PROGRAM.replace("VOCABULARY", str(vocabulary)))
    random = numpy.random.default_rng(1)
    numpy.save(folder / "logits.npy", 3 * random.standard_normal((32, vocabulary), dtype=numpy.float32))
    numpy.save(folder / "bounds.npy", numpy.zeros(33, numpy.int32))
    results["sampling"] = {}
    for name, sample, top_k, top_p in WAYS:
        integers = [[row, sample, top_k, 7, row, 3, -1, -1] for row in range(32)]
        numpy.save(folder / "integers.npy", numpy.array(integers, numpy.int64))
        numpy.save(folder / "numbers.npy", numpy.array([[1, top_p, 0, 1, 0, 0]] * 32, numpy.float64))
        command = ["bin/lathe", "perf", str(folder / "program.txt"), "--target", target, "--json", "--all"]
        command += ["-n", "2" if target == "gpu:host" else "30"]
        for value in ("logits", "integers", "numbers", "bounds"):
            command += ["-i", f"{value}={folder / value}.npy"]
        code, out, err, _ = run(command, target)
        if code != 0:
            print(f"sampling, {name}: exit {code}\n{err[-1000:]}")
            continue
        calls = json.loads(out).get("instructions", [])
        times = [call["ms"] for call in calls if "choose_tokens" in call["name"]]
        results["sampling"][name] = times
        print(f"sampling of 32 x {vocabulary}, {name}: {times} ms", flush=True)
