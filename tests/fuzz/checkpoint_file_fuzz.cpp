// SPDX-License-Identifier: MIT
// Bytes as a GGUF file whose model is imported.
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "import/checkpoint/checkpoint.h"
#include "import/checkpoint/encoder.h"
#include "import/checkpoint/gguf_config.h"
#include "tests/fuzz/input_limit.h"

namespace {

using namespace lathe::checkpoint;

// Tables of RoPE have context times head size elements and take most of the time: one input of
// kClamped keeps a longer context.
constexpr int64_t kMostContext = 1024;
constexpr size_t kClamped = 16;

void import_file(const lathe::MemoryFile& bytes) {
  const GgufFile file(bytes.text);
  Checkpoint model{.place = "model.gguf",
                   .config = read_gguf_config(file),
                   .weights = {},
                   .rope_divisors = {},
                   .gguf = bytes};
  if (std::hash<std::string_view>()(bytes.text) % kClamped != 0) {
    const int64_t context = model.config.integer("max_position_embeddings", kMostContext);
    model.config.set("max_position_embeddings", std::min(context, kMostContext));
  }
  model.architecture = &find_architecture(model.config.text("model_type"));
  model.weights.add_gguf(file, bytes, model.place);
  rename_gguf_tensors(model.config, model.weights);
  model.rope_divisors = read_rope_factors(model.config, model.weights);
  if (model.architecture->encoder) {
    import_encoder(model);
  } else {
    import_checkpoint(model);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  const MemoryFile file = MemoryFile::copy_of({reinterpret_cast<const char*>(data), size});
  const InputLimit limit(size);
  try {
    import_file(file);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
