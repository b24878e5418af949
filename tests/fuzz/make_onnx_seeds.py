# SPDX-License-Identifier: MIT
"""Writes seeds of the ONNX fuzz targets: the smallest test model of each operator of the `onnx` package, and of
com.microsoft.

usage: make_onnx_seeds.py FOLDER
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "import"))
from contrib_models import make_model  # noqa: E402
from onnx_beam_search_test import rows as search_rows  # noqa: E402
from onnx_cases import generated_cases  # noqa: E402
from onnx_contrib_saved_test import rows as saved_rows  # noqa: E402
from onnx_contrib_test import rows  # noqa: E402

import onnx  # noqa: E402

MOST_BYTES = 8192


def smallest_models():
    """The bytes of a model by operator."""
    models = [path.read_bytes() for path in generated_cases().rglob("model.onnx")]
    models += [make_model(*row[:5])[0].SerializeToString() for row in [*rows(), *saved_rows(), *search_rows()]]
    smallest = {}
    for model in models:
        for node in onnx.load_from_string(model).graph.node:
            name = f"{node.domain or 'onnx'}.{node.op_type}"
            if len(model) < len(smallest.get(name, bytes(MOST_BYTES))):
                smallest[name] = model
    return smallest


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    models = smallest_models()
    for name, model in models.items():
        (folder / f"{name}.onnx").write_bytes(model)
    print(f"seeds of {len(models)} operators in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
