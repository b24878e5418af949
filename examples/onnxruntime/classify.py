# SPDX-License-Identifier: MIT
"""Recognises a digit with ONNX Runtime on Lathe.

usage: classify.py MODEL.onnx NUMBERS.txt     e.g. examples/digits/digits.onnx examples/embed/seven.txt
"""

import pathlib
import sys

import numpy as np
import onnxruntime
import onnxruntime_ep_lathe

onnxruntime_ep_lathe.register()
options = onnxruntime.SessionOptions()
devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == onnxruntime_ep_lathe.get_ep_name()]
options.add_provider_for_devices(devices, {"strict": "1"})
session = onnxruntime.InferenceSession(sys.argv[1], options)
given = session.get_inputs()[0]
shape = [size if isinstance(size, int) else 1 for size in given.shape]
pixels = np.array(pathlib.Path(sys.argv[2]).read_text().split(), np.float32).reshape(shape)
scores = session.run(None, {given.name: pixels})[0].ravel()
print(f"digit {scores.argmax()}")
