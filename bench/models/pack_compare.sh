#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: pack_compare.sh OUT LATHE PEAK FILL MODEL.onnx...
# Packs the table of compare.py for an x86-64 machine with Python 3.12, numpy and onnx but no network: the program,
# bench_peak (PEAK), the peers and the graphs without weights: FILL, called as FILL GRAPH FOLDER, makes weights there,
# ONNX Runtime's quantiser the int8 files. Weights of a MODEL that has them stay here (needs Python with onnx: PYTHON).
# On that machine: OUT/run.sh RESULTS OPTIONS-OF-COMPARE_ROWS.
set -euo pipefail
[ $# -ge 5 ] || { sed -n '3,7p' "$0" >&2; exit 2; }
out=$1 lathe=$2 peak=$3 fill=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack_peers.sh"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/graphs"
strip_program "$lathe" "$work"
strip_program "$peak" "$work"
fetch_peers "$work/site" openvino openvino-telemetry onnxruntime
rm -f "$work"/site/onnxruntime/capi/libonnxruntime.so.*  # in the wheel twice; Python's module has its own
cp "$fill" "$work/fill"
cp "$here/arguments.py" "$here/compare.py" "$here/compare_rows.py" "$here/quantize.py" "$work"
for model in "$@"; do
  name=$(basename "$model" .onnx)
  [ "$name" != model ] || name=$(basename "$(dirname "$model")")
  [ "$name" != onnx ] || name=$(basename "$(dirname "$(dirname "$model")")")
  mkdir "$work/one"
  cp -L "$model" "$work/one/$name.onnx"
  [ ! -e "$model.data" ] || cp -L "$model.data" "$work/one/"
  "${PYTHON:-python3}" "$here/weightless.py" strip "$work/one" "$work/graphs"
  rm -r "$work/one"
done
tar -C "$work" -c . | xz -9 -T0 >"$out/programs.tar.xz"
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# usage: run.sh RESULTS [OPTION OF compare_rows.py]...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${COMPARE_WORK:-/tmp/lathe-compare}
mkdir -p "$work"
[ -e "$work/lathe" ] || tar -C "$work" -xf "$here/programs.tar.xz"
export LD_LIBRARY_PATH=$work/lib PYTHONPATH=$work/site
exec python3 "$work/compare_rows.py" "$work" "$@"
RUN
chmod +x "$out/run.sh"
du -sh "$out"
