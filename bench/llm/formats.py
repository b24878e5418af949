# SPDX-License-Identifier: MIT
"""One model in several forms: a GGUF file, a Hugging Face folder as it is and quantised on load, and ONNX Runtime GenAI
folders. Prefill of 512 tokens, decode of 32 after them and its share of what the memory bandwidth allows, the time from
process start to the first token, peak memory, and the bytes of weights that a token reads; and the speeds of ONNX
Runtime GenAI on genai-int4 and of llama.cpp (build/llama.cpp, by fetch_llama_cpp.sh) on the GGUF file, where they are
installed. Rounds are interleaved; ratios are medians of the rounds' own.

usage: formats.py LATHE DIR [--rounds=N] [--threads=N] [--only=TEXT] [--json]

DIR contains some of gguf/*.gguf, hf, hf-bf16, genai-fp32, genai-int4. --only: forms and peers whose names match a
regular expression.
"""

import functools
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
HERE = pathlib.Path(__file__).resolve().parent
PREFILL, DECODE = 512, 32
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
    run = subprocess.run([lathe, "perf", path, "--prompt-tokens", str(PREFILL), "--new-tokens", str(DECODE), "--json",
                          *options], stdout=subprocess.PIPE, check=True)
    found = json.loads(run.stdout)
    return {"prefill": found["prompt_tokens_per_second"], "decode": found["tokens_per_second"],
            "share": found["share_of_bandwidth"], "read": found["step_weight_bytes"]}


def llama_speeds(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(run.stdout)[0]["avg_ts"]


def llama(program, file, threads):
    """Decode after the prompt, as in the other engines."""
    common = [program, "-m", file, "-t", threads, "-r", "2", "-o", "json"]
    return {"prefill": llama_speeds([*common, "-p", str(PREFILL), "-n", "0"]),
            "decode": llama_speeds([*common, "-p", "0", "-n", str(DECODE), "-d", str(PREFILL)])}


def genai(folder, threads):
    """In a process of its own; the second prompt and decode count."""
    command = [sys.executable, HERE / "genai_peer.py", folder, threads]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # loaded
        walls = []
        for request in ("prompt " + " ".join(str(5 + i % 1000) for i in range(PREFILL)), f"next {DECODE}") * 2:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            walls.append(json.loads(process.stdout.readline())["wall"])
        process.stdin.write("quit\n")
        process.stdin.flush()
    return {"prefill": PREFILL / walls[2], "decode": DECODE / walls[3]}


def peers_of(folder, threads):
    """Name of each peer that has a form here, and a function that measures it; None where it is not installed."""
    program = HERE.parents[1] / "build/llama.cpp/llama-bench"
    for file in sorted((folder / "gguf").glob("*.gguf"))[:1]:
        yield "llama.cpp", functools.partial(llama, program, file, threads) if program.exists() else None
    if (folder / "genai-int4").is_dir():
        found = importlib.util.find_spec("onnxruntime_genai")
        measure = functools.partial(genai, folder / "genai-int4", threads)
        yield "ONNX Runtime GenAI, genai-int4", measure if found else None


def ratios(measured, peers):
    """Lathe's GGUF file over its own int4 folder and over the peers."""
    file = next((name for name in measured if name.startswith("gguf ")), None)
    others = {f"Lathe on {name}": measured[name] for name in ("genai-int4",) if name in measured}
    others |= {name: rows for name, rows in peers.items() if rows}
    out = []
    for name, rows in others.items() if file else ():
        rounds = list(zip(measured[file], rows))
        row = {"over": name, **{what: statistics.median(own[what] / other[what] for own, other in rounds)
                                for what in ("prefill", "decode")}}
        if "read" in rows[0]:
            row["decode_by_bytes"] = statistics.median(
                own["decode"] * own["read"] / (other["decode"] * other["read"]) for own, other in rounds)
        out.append(row)
    return out


def median_of(rows):
    return {what: statistics.median(row[what] for row in rows) for what in rows[0]}


def main():
    flags = dict(a[2:].split("=", 1) if "=" in a else (a[2:], "1") for a in sys.argv[1:] if a.startswith("--"))
    paths = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(paths) != 2:
        sys.exit(__doc__)
    lathe, folder = pathlib.Path(paths[0]).resolve(), pathlib.Path(paths[1])
    threads = ("--threads", flags.get("threads", "2"))
    wanted = re.compile(flags.get("only", ""))
    forms = [form for form in forms_of(folder) if wanted.search(form[0])]
    if not forms:
        sys.exit(f"error: {folder} has none of the forms gguf/*.gguf, hf, genai-fp32, genai-int4")
    measured = {name: [] for name, _, _ in forms}
    commands = {name: measure for name, measure in peers_of(folder, threads[1]) if wanted.search(name)}
    peers = {name: [] for name in commands}
    for _ in range(int(flags.get("rounds", "3"))):
        for name, path, options in forms:
            options = (*options, *threads)
            start, memory = first_token(lathe, path, options)
            measured[name].append({"first_token_s": start, "peak_mib": memory / MIB, **speeds(lathe, path, options)})
        for name, measure in commands.items():
            if measure is not None:
                peers[name].append(measure())
    rows = [{"form": name, "file_mib": file_bytes(path) / MIB, **median_of(measured[name])} for name, path, _ in forms]
    rows += [{"form": name, **(median_of(found) if found else {})} for name, found in peers.items()]
    over = ratios(measured, peers)
    if "json" in flags:
        print(json.dumps({"forms": rows, "ratios": over}, indent=1))
        return
    print(f"{'form':<30} {'file':>9} {'read':>9} {'peak':>9} {'first token':>12} {'prefill':>9} {'decode':>8} {'share':>6}")
    for row in rows:
        if "prefill" not in row:
            print(f"{row['form']:<30} is not installed")
        elif "file_mib" not in row:
            print(f"{row['form']:<30} {'':>42} {row['prefill']:>9.0f} {row['decode']:>8.1f}")
        else:
            print(f"{row['form']:<30} {row['file_mib']:>5.0f} MiB {row['read'] / MIB:>5.0f} MiB {row['peak_mib']:>5.0f} MiB "
                  f"{row['first_token_s']:>10.2f} s {row['prefill']:>9.0f} {row['decode']:>8.1f} {row['share']:>5.0%}")
    for row in over:
        by_bytes = f" ({row['decode_by_bytes']:.2f} by bytes read)" if "decode_by_bytes" in row else ""
        print(f"the GGUF file over {row['over']}: prefill {row['prefill']:.2f}, decode {row['decode']:.2f}{by_bytes}")


if __name__ == "__main__":
    main()
