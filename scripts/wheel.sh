#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the wheel of the Python package into build/wheelhouse, with the libraries it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh demo test
scripts/venv.sh venv-wheel scripts/requirements-wheel.txt
python=build/venv-wheel/bin/python
rm -rf build/wheelhouse build/dist
scripts/progress.sh "building the wheel" build/log/wheel.log \
  "$python" -m pip wheel --disable-pip-version-check --no-deps --wheel-dir build/dist .
PATH="$PWD/build/venv-wheel/bin:$PATH" scripts/progress.sh "repairing the wheel" build/log/auditwheel.log \
  "$python" -m auditwheel repair --strip --zip-compression-level 9 --wheel-dir build/wheelhouse \
  build/dist/lathe-*.whl
ls -l "$PWD"/build/wheelhouse/lathe-*.whl
