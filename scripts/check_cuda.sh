#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_cuda.sh
# Compares the declarations of CUDA's libraries with the headers in NVIDIA's packages of
# scripts/requirements-cuda.txt (1.6 GB), and compiles the device code of the op rows by NVRTC.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/venv.sh venv-cuda scripts/requirements-cuda.txt
packages=$(echo build/venv-cuda/lib/python3*/site-packages/nvidia)
clang++-19 -std=c++20 -fsyntax-only -Wno-deprecated-declarations -Isrc -isystem "$packages/cu13/include" \
  -isystem "$packages/cudnn/include" tests/gpu/check_cuda.cpp
echo "declarations of cuBLASLt and cuDNN fit the headers"
TEST_EVERY_CARD=1 LATHE_GPU_LIBRARIES=$packages/cu13/lib build/release/tests/gpu_tests --gtest_brief=1 |
  grep -E '^(sm_|gfx|skipped)|FAILED|PASSED'
