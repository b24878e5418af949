# SPDX-License-Identifier: MIT
"""The modules of onnxruntime.capi that programs import."""
