# SPDX-License-Identifier: MIT
"""The smallest model of each operator with one thing wrong: a result or a clear error, in bounded time and memory.

MUTANTS is how many are drawn, by MUTANT_SEED; 0: all, about 18,000.
"""

import concurrent.futures
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))
from make_onnx_seeds import smallest_models  # noqa: E402
from model_mutations import mutants  # noqa: E402

COUNT = int(os.environ.get("MUTANTS", "100"))
SEED = int(os.environ.get("MUTANT_SEED", "0"))
INTERNAL = 70
SECONDS = 60


def problem_of(folder, number, name, what, model):
    """What is wrong with the run of a mutant, or None."""
    path = pathlib.Path(folder) / f"{number}.onnx"
    path.write_bytes(model.SerializeToString())
    command = [os.environ["TEST_PROGRAM"], "run", path, "--memory-limit", "512M", "--timeout", "10", "--threads", "1"]
    try:
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"{name}: {what}: no end within {SECONDS} s"
    path.unlink()
    if 0 <= run.returncode < INTERNAL:
        return None
    return f"{name}: {what}: exit {run.returncode}: {run.stderr.decode(errors='replace')[:300]}"


def main():
    drawn = [(name, what, mutant) for name, model in sorted(smallest_models().items())
             for what, mutant in mutants(onnx.load_from_string(model))]
    if COUNT > 0:
        drawn = random.Random(SEED).sample(drawn, COUNT)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [problem for problem in pool.map(lambda item: problem_of(folder, item[0], *item[1]), enumerate(drawn))
                 if problem is not None]
    for problem in found:
        print(f"wrong: {problem}", file=sys.stderr)
    print(f"{len(drawn) - len(found)} passed, {len(found)} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
