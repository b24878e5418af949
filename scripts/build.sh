#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: build.sh PRESET [TARGET...]
# Configures and builds a preset, with progress lines.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
scripts/progress.sh "configuring $preset" "build/log/configure-$preset.log" cmake --preset "$preset"
scripts/progress.sh "building $preset" "build/log/build-$preset.log" ninja -C "build/$preset" "$@"
