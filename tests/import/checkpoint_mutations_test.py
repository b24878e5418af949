# SPDX-License-Identifier: MIT
"""Hugging Face folders of the zoo with changed configurations and tensor headers: each opens or is refused with a message
that names a cause; nothing crashes or takes much memory. ALL_MUTATIONS=1 runs every change."""

import concurrent.futures
import json
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.environ["TEST_PROGRAM"]
ZOO = pathlib.Path("../shared/models/zoo")
KINDS = ("llama", "lfm2", "gemma2", "qwen3", "gpt_oss")
VALUES = (0, -1, 1, 3, 2**31, 2**63 - 1, 1e300, float("nan"), "x", None, [], [0], {}, True)
MEMORY = 1 << 30  # address space beside what the program itself maps
SANITIZED = os.environ.get("TEST_PRESET") not in (None, "release", "gcc")  # shadow memory exceeds any limit
USUAL = {0, 2, 3, 4, 5, 6, 7, 8}  # exit codes; 1 is an internal error


def paths(value, at=()):
    """The places of all values in a configuration."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield at + (key,)
        if isinstance(child, (dict, list)):
            yield from paths(child, at + (key,))


def changed(value, path, new):
    value = json.loads(json.dumps(value))
    at = value
    for key in path[:-1]:
        at = at[key]
    if new == "absent":
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


def header_of(data):
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def mutations(folder):
    """Files of a folder, changed: (what, {name: bytes})."""
    config = json.loads((folder / "config.json").read_text())
    for path in paths(config):
        for new in (*VALUES, "absent"):
            yield f"{path} = {new}", {"config.json": json.dumps(changed(config, path, new)).encode()}
    header, data = header_of((folder / "model.safetensors").read_bytes())
    for name in header:
        for path, news in ((("shape",), ([], [1], [0, 0], [2**62, 4], [-1], "x")), (("dtype",), ("F8_E4M3", "I64", "Q4", 3)),
                           (("data_offsets",), ([0, 0], [2**63, 2**64], [5, 1])), ((), ("absent",))):
            for new in news:
                text = json.dumps(changed(header, (name, *path), new)).encode()
                yield f"{name}{path} = {new}", {"model.safetensors": struct.pack("<Q", len(text)) + text + data}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run_one(job):
    folder, what, files = job
    with tempfile.TemporaryDirectory() as made:
        for file in folder.iterdir():
            if file.name in ("config.json", "model.safetensors"):
                shutil.copy(file, made)
        for name, content in files.items():
            (pathlib.Path(made) / name).write_bytes(content)
        run = subprocess.run([PROGRAM, "inspect", made, "--stop-after", "imported"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, timeout=120, preexec_fn=None if SANITIZED else limit_memory)
    message = run.stderr.decode(errors="replace")
    if run.returncode not in USUAL or "internal" in message or (run.returncode != 0 and "error: " not in message):
        return f"{folder.parent.name}: {what[:200]}: exit code {run.returncode}: {message[:300]}"
    return None


def main():
    if not ZOO.exists():
        print(f"skipped: missing {ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    jobs = [(ZOO / kind / "hf", what, files) for kind in KINDS for what, files in mutations(ZOO / kind / "hf")]
    if not os.environ.get("ALL_MUTATIONS"):
        jobs = random.Random(1).sample(jobs, 50)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [problem for problem in pool.map(run_one, jobs) if problem]
    for problem in wrong:
        print(f"wrong: {problem}", file=sys.stderr)
    print(f"{len(jobs) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
