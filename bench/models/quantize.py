# SPDX-License-Identifier: MIT
"""Writes QDQ int8 models by ONNX Runtime's quantiser: u8 activations, i8 weights per channel.

usage: quantize.py OUT MODEL... [--fill=NAME=SIZE]...

OUT/STEM/STEM-qdq.onnx is written for each MODEL whose file does not exist yet. Calibration inputs are the
random inputs of compare.py: the files are for comparing engines on the same work, not for accuracy.
"""

import pathlib
import sys
import tempfile

import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from arguments import Parser
from compare import check_fill, inputs_of


class Inputs(CalibrationDataReader):
    """One set of inputs, once."""

    def __init__(self, inputs):
        self.left = [inputs]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantize(model, out, fill):
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.onnx"
        loaded = onnx.load(model)
        for value in loaded.graph.input:  # dims of symbols, by their size
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_value = fill.get(dim.dim_param, 1)
        fixed = pathlib.Path(folder) / "fixed.onnx"
        onnx.save(loaded, fixed)
        quant_pre_process(fixed, prepared, skip_symbolic_shape=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part")
        quantize_static(prepared, part, Inputs(inputs_of(prepared, fill)), quant_format=QuantFormat.QDQ,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
        part.rename(out)


def main():
    parser = Parser(__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_fill()
    options = parser.options_of(sys.argv[1:])
    check_fill(options["models"], options["fill"])
    for model in options["models"]:
        names = (model.stem, model.parent.name, model.parent.parent.name)
        stem = next(name for name in names if name not in ("model", "onnx"))
        out = options["out"] / stem / f"{stem}-qdq.onnx"
        if not out.exists():
            quantize(model, out, options["fill"])
        print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
