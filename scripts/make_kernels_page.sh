#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: make_kernels_page.sh
# Writes docs/gpu-kernels.md: registers, memory and occupancy of GPU kernels. Needs the packages of
# scripts/requirements-cuda.txt (1.6 GB), or a folder with libnvrtc in LATHE_GPU_LIBRARIES.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -z ${LATHE_GPU_LIBRARIES:-} ]]; then
  scripts/venv.sh venv-cuda scripts/requirements-cuda.txt
  LATHE_GPU_LIBRARIES=$(echo build/venv-cuda/lib/python3*/site-packages/nvidia/cu13/lib)
fi
scripts/build.sh release gpu_tests
LATHE_GPU_LIBRARIES=$LATHE_GPU_LIBRARIES TEST_KERNELS_PAGE=docs/gpu-kernels.md \
  build/release/tests/gpu_tests --gtest_filter='*GpuResources.*' --gtest_brief=1
