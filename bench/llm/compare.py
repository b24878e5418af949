# SPDX-License-Identifier: MIT
"""Times decoders beside ONNX Runtime GenAI (and llama.cpp), interleaved, on one prompt. Compares their tokens first.

usage: compare.py WORKER MODELS [--prompt=512] [--tokens=32] [--rounds=7] [--threads=2] [--compute=as_model] [--json]

WORKER is bench_decoder. MODELS contains at least one folder of FOLDERS, and optionally gguf/model.gguf. Rates are
medians over the rounds. Ratios are Lathe's rate over GenAI's, by wall time and by CPU time; other processes disturb CPU
time less. 'of limit' is the share of the GEMM peak in prefill and of the read bandwidth in decode, measured in the same
run. Exits with 1 if any token of a float model, or the first token of another model, differs.
"""

import json
import pathlib
import statistics
import subprocess
import sys

FOLDERS = {"genai-fp32": "f32", "genai-int4-level1": "f32", "genai-int4": "int8"}
HERE = pathlib.Path(__file__).resolve().parent
TEXT = ("The lathe is one of the oldest machine tools. A workpiece turns about its axis while a tool that does not turn "
        "takes off what is not wanted, so that whatever comes out is round. Wood was the first material, soft metals "
        "followed, and with the screw-cutting lathe of the eighteenth century parts could for the first time be made "
        "alike. What had been the work of a patient hand became the work of a wheel, a belt and a slide rest. ")


class Process:
    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        if not line:
            raise OSError(f"{command[0]} did not start")
        self.opened = json.loads(line)

    def request(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise OSError(f"{self.process.args[0]} exited with {self.process.wait()} at '{line[:20]}'")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def options_of(arguments):
    options = {"prompt": 512, "tokens": 32, "rounds": 7, "threads": 2, "compute": "as_model", "json": False}
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name not in options:
            raise SystemExit(__doc__)
        options[name] = (value or True) if name in ("compute", "json") else int(value)
    return options


def prompt_of(folder, count):
    import onnxruntime_genai as genai
    ids = [int(token) for token in genai.Tokenizer(genai.Model(str(folder))).encode(TEXT * (count // 40 + 1))]
    return ids[:count]


def measure(engines, prompt, options):
    """Median seconds of prefill and decode for each engine."""
    times = {name: {"prompt": [], "next": []} for name in engines}
    line = "prompt " + " ".join(str(token) for token in prompt)
    for number in range(options["rounds"] + 1):
        for name, engine in engines.items():
            answers = {"prompt": engine.request(line), "next": engine.request(f"next {options['tokens']}")}
            for kind, answer in answers.items() if number > 0 else ():
                times[name][kind].append((answer["wall"], answer["cpu"]))
    return {name: {kind: [statistics.median(column) for column in zip(*pairs)] for kind, pairs in kinds.items()}
            for name, kinds in times.items()}


def first_answers(engines, prompt, count):
    answers = {}
    for name, engine in engines.items():
        tokens = engine.request("prompt " + " ".join(str(token) for token in prompt[:97]))["tokens"]
        answers[name] = tokens + engine.request(f"next {count}")["tokens"]
    return answers


def same(ours, theirs):
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), len(ours))


def open_engines(worker, folder, models, options):
    engines = {"lathe": Process(worker, folder, "cpu", options["threads"], options["compute"]),
               "genai": Process(sys.executable, HERE / "genai_peer.py", folder, options["threads"])}
    gguf = models / "gguf" / "model.gguf"
    if gguf.exists() and folder.name == "genai-fp32":
        try:
            peer = Process(sys.executable, HERE / "llama_peer.py", gguf, options["threads"])
            peer.request("prompt 1 2 3")
            engines["llama.cpp"] = peer
        except OSError as error:
            print(f"llama-cpp-python is missing or does not run ({error}): skipping llama.cpp", file=sys.stderr)
    return engines


def compare(worker, folder, models, options):
    engines = open_engines(worker, folder, models, options)
    prompt = prompt_of(folder, options["prompt"])
    answers = first_answers(engines, prompt, options["tokens"])
    equal = same(answers["lathe"], answers["genai"])
    is_float = FOLDERS[folder.name] == "f32" and options["compute"] in ("as_model", "f32")
    limits = engines["lathe"].request("limits")
    times = measure(engines, prompt, options)
    opened = engines["lathe"].opened
    ours, theirs = times["lathe"], times["genai"]
    rate = {name: {"prompt": len(prompt) / t["prompt"][0], "decode": options["tokens"] / t["next"][0]}
            for name, t in times.items()}
    peak = limits["int8" if options["compute"] == "int8" else FOLDERS[folder.name]]
    result = {
        "model": folder.name, "equal_tokens": equal, "compared_tokens": len(answers["lathe"]), "rates": rate,
        "load_seconds": {name: engine.opened["wall"] for name, engine in engines.items()},
        "ratio": {kind: rate["lathe"][kind] / rate["genai"][kind] for kind in ("prompt", "decode")},
        "cpu_ratio": {"prompt": theirs["prompt"][1] / ours["prompt"][1], "decode": theirs["next"][1] / ours["next"][1]},
        "share": {"prompt": 2 * opened["products"] * rate["lathe"]["prompt"] / peak,
                  "decode": opened["weight_bytes"] * rate["lathe"]["decode"] / limits["read"]},
        "limits": limits,
        "ok": equal == len(answers["lathe"]) if is_float else equal > 0,
    }
    for engine in engines.values():
        engine.close()
    return result


def show(result):
    limits = result["limits"]
    print(f"\n{result['model']}: {result['equal_tokens']} of {result['compared_tokens']} tokens equal"
          f"{'' if result['ok'] else ', WRONG'}; peaks {limits['f32'] / 1e9:.0f} GFLOP/s f32, "
          f"{limits['int8'] / 1e9:.0f} GOP/s int8, read {limits['read'] / 1e9:.1f} GB/s")
    print(f"  {'':10} {'prefill tok/s':>13} {'decode tok/s':>13} {'load s':>8}")
    for name, rates in result["rates"].items():
        print(f"  {name:10} {rates['prompt']:13.1f} {rates['decode']:13.1f} {result['load_seconds'][name]:8.2f}")
    for title, key in (("ratio", "ratio"), ("by cpu s", "cpu_ratio"), ("of limit", "share")):
        print(f"  {title:10} {result[key]['prompt']:13.2f} {result[key]['decode']:13.2f}")


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    worker, models, options = sys.argv[1], pathlib.Path(sys.argv[2]), options_of(sys.argv[3:])
    folders = [models / name for name in FOLDERS if (models / name / "genai_config.json").exists()]
    if not folders:
        raise SystemExit(f"'{models}' contains none of {', '.join(FOLDERS)}")
    results = [compare(worker, folder, models, options) for folder in folders]
    if options["json"]:
        print(json.dumps(results))
    else:
        for result in results:
            show(result)
    return 0 if all(result["ok"] for result in results) else 1


sys.exit(main())
