#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: pack_scaling.sh OUT LATHE FILL GRAPH|FOLDER...
# Packs scaling.py for an x86-64 machine with Python 3.12, numpy and onnx but no network: the program with its
# libraries, the peers without what a CPU does not use, and graphs without weights: FILL, called as
# FILL GRAPH FOLDER, makes weights there. FOLDER: of ONNX Runtime GenAI; its weights stay here, others are made
# there (weightless.py; needs Python with onnx here: PYTHON). Pack graphs and folders apart to keep each small.
# On that machine: OUT/run.sh OPTIONS-OF-SCALING.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '3,8p' "$0" >&2; exit 2; }
out=$1 lathe=$2 fill=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack_peers.sh"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/graphs"
strip_program "$lathe" "$work"
fetch_peers "$work/site" openvino onnxruntime onnxruntime-genai
# ONNX Runtime is in its wheel twice: Python's module, and the library that GenAI opens.
graphs=no folders=no
for model in "$@"; do if [ -d "$model" ]; then folders=yes; else graphs=yes; fi; done
[ $folders = yes ] || rm -f "$work"/site/onnxruntime/capi/libonnxruntime.so.*
[ $folders = yes ] || rm -rf "$work"/site/onnxruntime_genai*
[ $graphs = yes ] || rm -rf "$work"/site/openvino* "$work"/site/onnxruntime/capi/onnxruntime_pybind11_state*
rm -rf "$work"/site/onnxruntime/{transformers,quantization}
cp "$fill" "$out/fill"
cp "$here/arguments.py" "$here/compare.py" "$here/scaling.py" "$here/weightless.py" "$out"
for model in "$@"; do
  if [ -d "$model" ]; then
    "${PYTHON:-python3}" "$here/weightless.py" strip "$model" "$work/graphs/$(basename "$model")"
  else
    cp "$model" "$work/graphs"
  fi
done
tar -C "$work" -c lathe lib site graphs | xz -9 -T0 >"$out/programs.tar.xz"
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# usage: run.sh [OPTION OF scaling.py | NAME OF GRAPH]...; without a name: all graphs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${SCALING_WORK:-/tmp/lathe-scaling}
mkdir -p "$work"
[ -e "$work/lathe" ] || tar -C "$work" -xf "$here/programs.tar.xz"
export LD_LIBRARY_PATH=$work/lib PYTHONPATH=$work/site
models=() options=()
for argument in "$@"; do case $argument in --*) options+=("$argument") ;; *) models+=("$work/graphs/$argument") ;; esac; done
[ ${#models[@]} -gt 0 ] || models=("$work"/graphs/*)
filled=()
for graph in "${models[@]}"; do
  name=$(basename "$graph")
  if [ -d "$graph" ]; then
    [ -e "$work/$name.filled" ] || python3 "$here/weightless.py" fill "$graph" "$work/$name.filled"
    filled+=("$work/$name.filled")
    continue
  fi
  [ -e "$work/$name/$name" ] || python3 "$here/fill" "$graph" "$work/$name"
  filled+=("$work/$name/$name")
done
exec python3 "$here/scaling.py" "$work/lathe" "${filled[@]}" "${options[@]}"
RUN
chmod +x "$out/run.sh"
du -sh "$out"
