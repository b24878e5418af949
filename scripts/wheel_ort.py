# SPDX-License-Identifier: MIT
"""Packs the execution provider into FOLDER/onnxruntime_ep_lathe-VERSION-….whl, without the libraries it needs.

usage: wheel_ort.py LIBRARY FOLDER
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAG = "py3-none-manylinux_2_36_x86_64"


def main():
    library = pathlib.Path(sys.argv[1])
    version = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    package = ROOT / "python/onnxruntime_ep_lathe"
    info = f"onnxruntime_ep_lathe-{version}.dist-info"
    files = {
        "onnxruntime_ep_lathe/__init__.py": (package / "__init__.py").read_bytes(),
        "onnxruntime_ep_lathe/liblathe_ort.so": library.read_bytes(),
        "onnxruntime_ep_lathe/liblathe_gpu.so": library.with_name("liblathe_gpu.so").read_bytes(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.4\nName: onnxruntime-ep-lathe\nVersion: {version}\n"
            "Summary: Lathe as an execution provider of ONNX Runtime\nLicense-Expression: MIT\n"
            "License-File: LICENSE\nRequires-Python: >=3.10\nRequires-Dist: onnxruntime>=1.23.1\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: lathe\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
    }
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = pathlib.Path(sys.argv[2]) / f"onnxruntime_ep_lathe-{version}-{TAG}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # A fixed time: equal contents make equal wheels.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(wheel)


if __name__ == "__main__":
    main()
