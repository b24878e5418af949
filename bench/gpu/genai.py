# SPDX-License-Identifier: MIT
"""Stock ONNX Runtime GenAI with Lathe's plug-in on the GPU, beside `lathe generate` and `lathe perf` of the same folder.

usage: genai.py FOLDER LIBRARY TOKEN,... NEW     one generation: prints its tokens and the seconds of each, as JSON
"""

import json
import os
import pathlib
import statistics
import sys
import time

EP = "AMDGPUExecutionProvider"  # the registration whose values lie in the GPU's memory


def generate(folder, library, prompt, new):
    import numpy
    import onnxruntime_genai as og

    og.register_execution_provider_library(EP, library)
    config = og.Config(folder)
    config.clear_providers()
    config.append_provider("amdgpu")
    model = og.Model(config)
    for _ in range(2):  # The first compiles code and makes graphs.
        params = og.GeneratorParams(model)
        params.set_search_options(do_sample=False, min_length=len(prompt) + new, max_length=len(prompt) + new)
        generator = og.Generator(model, params)
        start = time.perf_counter()
        generator.append_tokens(numpy.array([prompt], numpy.int32))
        times = []
        while not generator.is_done():
            generator.generate_next_token()
            times.append(time.perf_counter() - start)
        tokens = [int(token) for token in generator.get_sequence(0)[len(prompt):]]
    return {"ids": tokens, "seconds": [b - a for a, b in zip(times, times[1:])], "first": times[0]}


def folders(root):
    """Folders of ONNX Runtime GenAI; those without weights get some."""
    for folder in sorted((root / "models").glob("*")):
        if not (folder / "genai_config.json").exists() or folder.name.endswith("-filled"):
            continue
        if any(folder.glob("*.data")) or (folder / "model.onnx").stat().st_size > 500_000:
            yield folder
            continue
        filled = folder.with_name(folder.name + "-filled")
        if not filled.exists():
            sys.path.insert(0, str(root / "bench" / "models"))
            import weightless

            weightless.fill(folder, filled)
        yield filled


def compare(root, run, target, results):
    new = 16 if target == "gpu:host" else 128
    library = root / "lib" / "liblathe_ort.so"
    entries = results["genai"] = []
    for folder in folders(root):
        if "int4" in folder.name and target == "gpu:host":
            continue
        vocabulary = json.loads((folder / "genai_config.json").read_text())["model"]["vocab_size"]
        prompt = [3 + i * 7 % (min(vocabulary, 900) - 5) for i in range(24)]
        ids = ",".join(map(str, prompt))
        code, out, err, seconds = run(
            ["env", f"LATHE_TARGET={target}", sys.executable, str(pathlib.Path(__file__)), str(folder), str(library), ids,
             str(new)], target, 200)
        if code != 0:
            print(f"GenAI, {folder.name}: exit {code}\n{out[-500:]}{err[-1500:]}", flush=True)
            continue
        theirs = json.loads(out.splitlines()[-1])
        own = ["--target", target, "--ids", ids, "--max-new-tokens", str(new), "--min-new-tokens", str(new), "--json"]
        code, out, err, _ = run(["bin/lathe", "generate", str(folder), *own], target, 200)
        if code != 0:
            print(f"lathe generate {folder.name}: exit {code}\n{err[-1500:]}", flush=True)
            continue
        ids = json.loads(out)["ids"]
        code, out, err, _ = run(["bin/lathe", "perf", str(folder), "--target", target, "--json", "--prompt-tokens",
                                 str(len(prompt)), "--new-tokens", str(new)], target, 200)
        rate = json.loads(out)["tokens_per_second"] if code == 0 else float("nan")
        step = statistics.median(theirs["seconds"])
        same = next((i for i, (a, b) in enumerate(zip(theirs["ids"], ids)) if a != b), len(ids))
        equal = len(theirs["ids"]) == len(ids) == same
        entry = {"model": folder.name, "equal": equal, "same": same, "step_ms": 1e3 * step, "lathe_ms": 1e3 / rate}
        entries.append(entry | {"ratio": 1 / step / rate, "seconds": seconds})
        print(f"GenAI with the plug-in, {folder.name} on {target}: {len(ids)} tokens "
              f"{'equal' if equal else f'DIFFER from number {same} on'}; a token {1e3 * step:.3f} ms, lathe perf "
              f"{1e3 / rate:.3f} ms: ratio {1 / step / rate:.2f}", flush=True)


if __name__ == "__main__":
    print(json.dumps(generate(sys.argv[1], os.path.abspath(sys.argv[2]), [int(x) for x in sys.argv[3].split(",")],
                              int(sys.argv[4]))))
