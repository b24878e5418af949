# SPDX-License-Identifier: MIT
"""One model in several forms: a GGUF file, a Hugging Face folder as it is and quantised on load, and ONNX Runtime GenAI
folders. Prefill of 512 tokens, decode of 32, the time from process start to the first token, and peak memory; rounds
are interleaved.

usage: formats.py LATHE DIR [--rounds=N] [--threads=N] [--json]

DIR contains some of gguf/*.gguf, hf, genai-fp32, genai-int4.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
PROMPT = "What is the capital of France?"


def forms_of(folder):
    """Name, path and options of each form."""
    for file in sorted((folder / "gguf").glob("*.gguf")):
        yield f"gguf {file.stem}", file, ()
    if (folder / "hf").is_dir():
        for quantise in ("none", "int8", "int4"):
            yield f"hf {quantise}", folder / "hf", ("--quantize", quantise)
    for name in ("genai-fp32", "genai-int4"):
        if (folder / name).is_dir():
            yield name, folder / name, ()


def file_bytes(path):
    files = [path] if path.is_file() else [f for f in path.iterdir() if f.is_file()]
    weights = [f for f in files if f.suffix in (".gguf", ".safetensors", ".onnx", ".data")]
    return sum(f.stat().st_size for f in weights)


def first_token(lathe, path, options):
    """Seconds of a process that generates one token, and its peak memory."""
    start = time.monotonic()
    process = subprocess.Popen([lathe, "generate", path, "--chat", "-p", PROMPT, "--max-new-tokens", "1", *options],
                               stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        sys.exit(f"error: lathe generate {path} failed")
    return seconds, usage.ru_maxrss * 1024


def speeds(lathe, path, options):
    run = subprocess.run([lathe, "perf", path, "--prompt-tokens", "512", "--new-tokens", "32", "--json", *options],
                         stdout=subprocess.PIPE, check=True)
    found = json.loads(run.stdout)
    return found["prompt_tokens_per_second"], found["tokens_per_second"]


def main():
    flags = dict(a[2:].split("=", 1) if "=" in a else (a[2:], "1") for a in sys.argv[1:] if a.startswith("--"))
    paths = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(paths) != 2:
        sys.exit(__doc__)
    lathe, folder = pathlib.Path(paths[0]).resolve(), pathlib.Path(paths[1])
    threads = ("--threads", flags.get("threads", "2"))
    forms = list(forms_of(folder))
    if not forms:
        sys.exit(f"error: {folder} has none of gguf/*.gguf, hf, genai-fp32, genai-int4")
    measured = {name: [] for name, _, _ in forms}
    for _ in range(int(flags.get("rounds", "3"))):
        for name, path, options in forms:
            measured[name].append((*first_token(lathe, path, (*options, *threads)),
                                   *speeds(lathe, path, (*options, *threads))))
    rows = []
    for name, path, _ in forms:
        start, memory, prefill, decode = (statistics.median(column) for column in zip(*measured[name]))
        rows.append({"form": name, "file_mib": file_bytes(path) / MIB, "peak_mib": memory / MIB, "first_token_s": start,
                     "prefill": prefill, "decode": decode})
    if "json" in flags:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'form':<16} {'file':>9} {'peak':>9} {'first token':>12} {'prefill':>9} {'decode':>8}")
    for row in rows:
        print(f"{row['form']:<16} {row['file_mib']:>5.0f} MiB {row['peak_mib']:>5.0f} MiB {row['first_token_s']:>10.2f} s "
              f"{row['prefill']:>9.0f} {row['decode']:>8.1f}")


if __name__ == "__main__":
    main()
