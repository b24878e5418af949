# SPDX-License-Identifier: MIT
"""Memory of sessions on the execution provider beside ONNX Runtime's CPU EP.

usage: memory.py LIBRARY MODEL.onnx...

Each EP runs in a process of its own: resident and peak megabytes once a session is made, what of the model's files
stays mapped and resident, and what a second session and, where GenAI is installed, one of its own copy of ONNX Runtime
adds. Ratios are against the CPU EP.
"""

import json
import pathlib
import subprocess
import sys


def resident():
    """Resident megabytes: all, and of files in the model's folder."""
    total, files, name = 0, 0, ""
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            name = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:":
            total += int(words[1])
            files += int(words[1]) if name.startswith(str(FOLDER)) else 0
    return total / 1024, files / 1024


def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def measure(provider, library, model):
    import onnxruntime

    if provider == "lathe":
        onnxruntime.register_execution_provider_library("lathe", library)

    def session():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        if provider == "lathe":
            devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "lathe"]
            options.add_provider_for_devices(devices, {"threads": "2"})
            return onnxruntime.InferenceSession(model, options)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    kept = [session()]
    (one, files), most = resident(), peak()
    kept.append(session())
    two = resident()[0]
    out = {"resident": one, "peak": most, "files": files, "second": two - one}
    if (FOLDER / "genai_config.json").exists():
        try:
            import onnxruntime_genai as genai
        except ImportError:
            return out
        before = resident()[0]
        config = genai.Config(str(FOLDER))
        config.clear_providers()
        if provider == "lathe":
            genai.register_execution_provider_library("lathe", library)
            config.append_provider("lathe")
            config.set_provider_option("lathe", "threads", "2")
        kept.append(genai.Model(config))
        out["other host"] = resident()[0] - before
    return out


def main():
    library, *models = sys.argv[1:]
    for model in models:
        found = {}
        for provider in ("lathe", "cpu"):
            command = [sys.executable, __file__, "--one", provider, str(pathlib.Path(library).resolve()), model]
            found[provider] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        ours, theirs = found["lathe"], found["cpu"]
        print(f"{model}:")
        for key in ("resident", "peak"):
            print(f"  {key} {ours[key]:.0f} / {theirs[key]:.0f} MB = {ours[key] / theirs[key]:.2f}")
        for key in ("files", "second", "other host"):
            if key in ours and key in theirs:
                print(f"  {key} {ours[key]:.0f} / {theirs[key]:.0f} MB", flush=True)


if sys.argv[1] == "--one":
    FOLDER = pathlib.Path(sys.argv[4]).resolve().parent
    print(json.dumps(measure(*sys.argv[2:])))
else:
    main()
