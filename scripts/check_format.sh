#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that clang-format leaves every C++ source unchanged.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files '*.cpp' '*.h' ':!third_party')
clang-format-19 --dry-run -Werror "${files[@]}"
echo "${#files[@]} files"
