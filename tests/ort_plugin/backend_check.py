# SPDX-License-Identifier: MIT
"""ONNX's backend suite through the execution provider, without fallback, beside ONNX Runtime's CPU EP.

usage: backend_check.py FOLDER     one folder below it per case, with model.onnx and test_data_set_0

Cases with types that NumPy cannot pass to ONNX Runtime, and with sequences or optionals as inputs or outputs, are
counted apart. Prints what fails here and passes with the CPU EP, and the counts.
"""

import collections
import pathlib
import sys

import host
import numpy as np
import onnx
from onnx import numpy_helper

PLAIN = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}


def tensors(folder, kind):
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def is_plain(model):
    values = [*model.graph.input, *model.graph.output]
    return all(v.type.WhichOneof("value") == "tensor_type" and v.type.tensor_type.elem_type in PLAIN for v in values)


def run(make, path, inputs, outputs):
    """passed, wrong, or the error."""
    try:
        session = make(str(path))
        given = [value.name for value in session.get_inputs()]
        got = session.run(None, dict(zip(given, inputs)))
        for a, b in zip(got, outputs, strict=True):
            if a.shape != b.shape:
                return f"shape {a.shape}, expected {b.shape}"
            if b.dtype.kind in "fc":
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-4)
            elif a.dtype.kind == "O" or b.dtype.kind in "OSU":
                texts = [x.decode() if isinstance(x, bytes) else str(x) for x in b.ravel()]
                if [str(x) for x in a.ravel()] != texts:
                    return "other strings"
            elif not np.array_equal(a, b):
                return "other values"
        return "passed"
    except AssertionError as error:
        return "wrong: " + " ".join(str(error).split())[:120]
    except Exception as error:  # noqa: BLE001 — whatever the host throws
        return str(error)[:400]


def main():
    counts = collections.Counter()
    lost = []
    for path in sorted(pathlib.Path(sys.argv[1]).rglob("model.onnx")):
        model = onnx.load(path, load_external_data=False)
        if not is_plain(model):
            counts["not plain tensors"] += 1
            continue
        data = path.parent / "test_data_set_0"
        inputs, outputs = tensors(data, "input"), tensors(data, "output")
        ours = run(host.session, path, inputs, outputs)
        theirs = run(host.cpu_session, path, inputs, outputs)
        counts["passed here"] += ours == "passed"
        counts["passed with the CPU EP"] += theirs == "passed"
        counts["cases"] += 1
        if ours != "passed" and theirs == "passed":
            lost.append(path.parent.name)
            print(f"{path.parent.name}: {ours}", flush=True)
    print("backend:", ", ".join(f"{count} {name}" for name, count in counts.items()), f"; {len(lost)} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
