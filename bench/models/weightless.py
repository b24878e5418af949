# SPDX-License-Identifier: MIT
"""Takes the weights out of an ONNX Runtime GenAI folder, and makes others in their place elsewhere.

usage: weightless.py strip FOLDER OUT      OUT: the folder without tensors above 4 KiB, a few MB
                                        (models whose external data is absent stay as they are)
       weightless.py fill FOLDER OUT       OUT: the folder with pseudo-random weights of the same types and shapes

Engines that load one filled folder can be compared with each other: speed does not depend on values. The scale
of the values keeps activations finite: matrices have a deviation of 0.02, scales of quantised blocks a
sixteenth of it.
"""

import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALL = 4096
DATA = "weights.bin"


def models_of(folder):
    return sorted(folder.glob("*.onnx"))


def copy_others(folder, out):
    out.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.suffix not in (".onnx", ".data", ".bin"):
            shutil.copy(file, out)


def has_no_weights(file):
    """True if a file of external data is absent."""
    model = onnx.load(str(file), load_external_data=False)
    return any(not (file.parent / entry.value).exists() for tensor in model.graph.initializer
               for entry in tensor.external_data if entry.key == "location")


def strip(folder, out):
    copy_others(folder, out)
    for file in models_of(folder):
        if has_no_weights(file):
            shutil.copy(file, out)
            continue
        model = onnx.load(str(file))
        for tensor in model.graph.initializer:
            bytes_of = numpy_helper.to_array(tensor).nbytes
            if bytes_of <= SMALL or tensor.data_type in (TensorProto.INT32, TensorProto.INT64):
                continue
            stub = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims,
                               data_location=TensorProto.EXTERNAL)
            for key, value in (("location", DATA), ("offset", "0"), ("length", str(bytes_of))):
                stub.external_data.add(key=key, value=value)
            tensor.CopyFrom(stub)
        (out / file.name).write_bytes(model.SerializeToString())


def values(tensor, rng):
    shape = tuple(tensor.dims)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.kind == "u":
        return rng.integers(0, 256, shape, dtype=dtype)
    if dtype.kind == "i":
        return rng.integers(-64, 64, shape, dtype=dtype)
    name = tensor.name.lower()
    if "cos" in name or "sin" in name:
        return rng.uniform(-1, 1, shape).astype(dtype)
    if len(shape) == 1 and not name.endswith("scales"):
        return (1 + 0.02 * rng.standard_normal(shape, dtype=np.float32)).astype(dtype)
    if name.endswith("scales"):
        return np.full(shape, 0.02 / 16, dtype)
    return (0.02 * rng.standard_normal(shape, dtype=np.float32)).astype(dtype)


def fill(folder, out):
    copy_others(folder, out)
    for file in models_of(folder):
        rng = np.random.default_rng(0)
        model = onnx.load(str(file), load_external_data=False)
        with open(out / (file.name + ".data"), "wb") as data:
            for tensor in model.graph.initializer:
                if tensor.data_location != TensorProto.EXTERNAL:
                    continue
                data.seek(-(-data.tell() // 4096) * 4096)
                begin = data.tell()
                data.write(np.ascontiguousarray(values(tensor, rng)).tobytes())
                del tensor.external_data[:]
                for key, value in (("location", file.name + ".data"), ("offset", str(begin)),
                                   ("length", str(data.tell() - begin))):
                    tensor.external_data.add(key=key, value=value)
        (out / file.name).write_bytes(model.SerializeToString())


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("strip", "fill"):
        raise SystemExit(__doc__)
    {"strip": strip, "fill": fill}[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))


if __name__ == "__main__":
    main()
