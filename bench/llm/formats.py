# SPDX-License-Identifier: MIT
"""One model in several forms: a GGUF file, a Hugging Face folder as it is and quantised on load, and ONNX Runtime GenAI
folders. Prefill of 512 tokens, decode of 32 and its share of what the memory bandwidth allows, the time from process
start to the first token, and peak memory; and the speeds of ONNX Runtime GenAI on genai-int4 and of llama.cpp on the
GGUF file, where they are installed. Rounds are interleaved; ratios are of speeds in one round.

usage: formats.py LATHE DIR [--rounds=N] [--threads=N] [--json]

DIR contains some of gguf/*.gguf, hf, hf-bf16, genai-fp32, genai-int4.
"""

import importlib.util
import json
import os
import pathlib
import re
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
    for name in ("hf-bf16", "genai-fp32", "genai-int4"):
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


def share(lathe, path, options):
    """The percentage of the memory bandwidth that decode uses."""
    run = subprocess.run([lathe, "generate", path, "-p", PROMPT, "--rates", "--max-new-tokens", "64", "--min-new-tokens",
                          "64", *options], stdout=subprocess.PIPE, check=True, text=True, errors="replace")
    return float(re.search(r"(\d+) % of what the memory allows", run.stdout)[1])


def peers_of(folder):
    """Name and command of each peer that has a form here; the command of one that is not installed is None."""
    here = pathlib.Path(__file__)
    venv = here.parents[2] / "build/venv-llama-cpp"
    llama = venv / "bin/python"
    for file in sorted((folder / "gguf").glob("*.gguf"))[:1]:
        found = any(venv.glob("lib/*/site-packages/llama_cpp"))
        yield "llama.cpp", [llama, here.with_name("llama_peer.py"), file] if found else None
    if (folder / "genai-int4").is_dir():
        found = importlib.util.find_spec("onnxruntime_genai")
        command = [sys.executable, here.with_name("genai_peer.py"), folder / "genai-int4"]
        yield "ONNX Runtime GenAI, genai-int4", command if found else None


def peer_speeds(command, threads):
    """In a process of its own; the second prompt and decode count."""
    with subprocess.Popen([*command, threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # loaded
        walls = []
        for request in ("prompt " + " ".join(str(5 + i % 1000) for i in range(512)), "next 32") * 2:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            walls.append(json.loads(process.stdout.readline())["wall"])
        process.stdin.write("quit\n")
        process.stdin.flush()
    return 512 / walls[2], 32 / walls[3]


def ratios(measured, peers):
    """Lathe's GGUF file over its own int4 folder and over the peers: medians of the rounds' ratios."""
    file = next((name for name in measured if name.startswith("gguf ")), None)
    others = [(f"Lathe on {name}", [row[2:4] for row in measured[name]]) for name in ("genai-int4",) if name in measured]
    others += [(name, rows) for name, rows in peers.items() if rows]
    out = []
    for name, rows in others if file else ():
        found = [(own[2] / other[0], own[3] / other[1]) for own, other in zip(measured[file], rows)]
        out.append({"over": name, "prefill": statistics.median(p for p, _ in found),
                    "decode": statistics.median(d for _, d in found)})
    return out


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
    commands = {name: command for name, command in peers_of(folder)}
    peers = {name: [] for name in commands}
    for _ in range(int(flags.get("rounds", "3"))):
        for name, path, options in forms:
            options = (*options, *threads)
            measured[name].append((*first_token(lathe, path, options), *speeds(lathe, path, options),
                                   share(lathe, path, options)))
        for name, command in commands.items():
            if command is not None:
                peers[name].append(peer_speeds(command, threads[1]))
    rows = []
    for name, path, _ in forms:
        start, memory, prefill, decode, of_bandwidth = (statistics.median(column) for column in zip(*measured[name]))
        rows.append({"form": name, "file_mib": file_bytes(path) / MIB, "peak_mib": memory / MIB, "first_token_s": start,
                     "prefill": prefill, "decode": decode, "bandwidth_percent": of_bandwidth})
    for name, found in peers.items():
        speed = [statistics.median(column) for column in zip(*found)]
        rows.append({"form": name, "prefill": speed[0], "decode": speed[1]} if found else {"form": name})
    over = ratios(measured, peers)
    if "json" in flags:
        print(json.dumps({"forms": rows, "ratios": over}, indent=1))
        return
    print(f"{'form':<30} {'file':>9} {'peak':>9} {'first token':>12} {'prefill':>9} {'decode':>8} {'share':>6}")
    for row in rows:
        if "prefill" not in row:
            print(f"{row['form']:<30} is not installed")
            continue
        if "file_mib" not in row:
            print(f"{row['form']:<30} {'':>32} {row['prefill']:>9.0f} {row['decode']:>8.1f}")
            continue
        print(f"{row['form']:<30} {row['file_mib']:>5.0f} MiB {row['peak_mib']:>5.0f} MiB {row['first_token_s']:>10.2f} s "
              f"{row['prefill']:>9.0f} {row['decode']:>8.1f} {row['bandwidth_percent']:>4.0f} %")
    for row in over:
        print(f"the GGUF file over {row['over']}: prefill {row['prefill']:.2f}, decode {row['decode']:.2f}")


if __name__ == "__main__":
    main()
