# SPDX-License-Identifier: MIT
"""Real models against ONNX Runtime: writes the references, then runs real_models_test.cpp on them.

Those of LATHE_TEST_DATA (or the folder `shared` beside the repository) run wherever it is present,
the others where LATHE_REAL_MODELS names the folder that its tools/real_models.py wrote.
"""

import json
import os
import pathlib
import subprocess
import sys

COUNT = 8


def finish(passed, failed, reasons):
    for reason in reasons:
        print(f"skipped {reason}")
    skipped = sum(int(reason.split(":")[0]) for reason in reasons)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def make_references(folder):
    """The folders of available models, and the reasons for skipping others."""
    data = os.environ.get("LATHE_TEST_DATA", "../shared")
    models = os.environ.get("LATHE_REAL_MODELS")
    script = pathlib.Path(__file__).with_name("make_references.py")
    command = [sys.executable, script, folder, data, *([models] if models else [])]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(made, end="")
    lines = [line.split(" ", 1) for line in made.splitlines()]
    return ([str(folder / rest) for word, rest in lines if word != "absent"],
            [f"1: {rest}" for word, rest in lines if word == "absent"])


def main():
    if os.environ["TEST_PRESET"] != "release":
        finish(0, 0, [f"{COUNT}: real models run in the preset release only"])
    folder = pathlib.Path("build/model-references").resolve()
    folders, reasons = make_references(folder)
    if not folders:
        finish(0, 0, reasons)
    program = pathlib.Path(os.environ["TEST_PROGRAM"]).parents[1] / "tests" / "models_tests"
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    code = subprocess.run([program, "--gtest_filter=*RealModels*", "--gtest_brief=1",
                           f"--gtest_output=json:{report}"],
                          env={**os.environ, "LATHE_MODEL_REFERENCES": ":".join(folders)}).returncode
    results = json.loads(report.read_text())
    for case in (case for suite in results["testsuites"] for case in suite["testsuite"]):
        for key, value in case.items():
            if key.startswith(("test_data_set", "sequence", "greedy", "divergence")):
                print(f"{case['name'].split('/')[-1]} {key}: {value}")
    passed = results["tests"] - results["failures"]
    failed = len(folders) - passed
    finish(passed, max(failed, int(code != 0)), reasons)


if __name__ == "__main__":
    main()
