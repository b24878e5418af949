# SPDX-License-Identifier: MIT
"""The build backend: scikit-build-core, after a check of the tools of the system."""

import pathlib
import shutil

from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.build import build_wheel as _build_wheel

_TOOLS = ["clang++-19", "ld.lld-19"]
_HEADERS = ["fmt/core.h", "spdlog/spdlog.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "xxhash.h", "zstd.h",
            "zlib.h", "protozero/pbf_reader.hpp", "zip.h", "simdjson.h",
            "asmjit/x86.h"]
_FOLDERS = [pathlib.Path("/usr/include"), pathlib.Path("/usr/local/include"),
            pathlib.Path("/usr/include/x86_64-linux-gnu")]


def _check_tools():
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    missing += [header for header in _HEADERS
                if not any((folder / header).exists() for folder in _FOLDERS)]
    if missing:
        raise SystemExit(
            f"error: missing: {', '.join(missing)}. Run scripts/setup.sh demo, which installs the "
            "Debian packages that Lathe is built with")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _check_tools()
    return _build_wheel(wheel_directory, config_settings, metadata_directory)
