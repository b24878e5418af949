# SPDX-License-Identifier: MIT
# Sourced by pack_*.sh: what a machine with Python 3.12, numpy and onnx but no network needs to run Lathe beside its peers.

# strip_program PROGRAM FOLDER: the program without symbols, and in FOLDER/lib the libraries that it loads.
strip_program() {
  mkdir -p "$2/lib"
  strip -o "$2/$(basename "$1")" "$1"
  ldd "$1" | awk '/=> \// {print $3}' | grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux-x86-64)\.so' |
    xargs -I{} cp -L {} "$2/lib"
}

# fetch_peers FOLDER PACKAGE...: wheels unpacked into FOLDER, without what a CPU does not use.
fetch_peers() {
  local folder=$1 wheels libc platforms=()
  shift
  wheels=$(mktemp -d)
  for libc in 17 24 27 28 31 34; do platforms+=(--platform "manylinux_2_${libc}_x86_64"); done
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    "${platforms[@]}" --platform manylinux2014_x86_64 -d "$wheels" "$@"
  for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$folder"; done
  rm -rf "$wheels" "$folder"/openvino/include "$folder"/onnxruntime/{tools,datasets}
  rm -f "$folder"/openvino/libs/*{gpu,npu,tensorflow,pytorch,paddle,gguf,jax}* "$folder"/openvino/libs/cache.json
  # The quantiser imports only Python files at the top of `transformers`.
  find "$folder"/onnxruntime/transformers -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} + 2>/dev/null || true
}
