#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: haswell.sh PROGRAM [ARGUMENT...]
# Runs a test program on an emulated processor with AVX2 and nothing beyond; 77 without an emulator.
set -euo pipefail
command -v qemu-x86_64 >/dev/null || { echo "skipped: no qemu-x86_64"; exit 77; }
# The emulator prints the features that it lacks; the tests need none of them.
exec qemu-x86_64 -cpu Haswell "$@" 2>/dev/null
