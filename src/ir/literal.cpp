// SPDX-License-Identifier: MIT
#include "ir/literal.h"

#include <xxhash.h>

#include <algorithm>
#include <span>

#include "base/file_map.h"
#include "ir/literal_hash.h"
#include "tensor/mapped.h"

namespace lathe {

uint64_t Literal::hash() const {
  if (hash_ != 0) return hash_;
  if (const StoredConstants* stored = stored_constants(tensor)) {
    hash_ = stored->hash_at(tensor.data());
  }
  if (hash_ == 0) hash_ = hash_of(tensor);
  return hash_;
}

uint64_t hash_of(const Tensor& tensor) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  const std::string type = to_string(tensor.type(), tensor.dims());
  XXH3_64bits_update(state, type.data(), type.size());
  const Tensor dense = tensor.dense();
  if (dense.type() == ElementType::string) {
    for (const std::string& text : dense.elements<std::string>()) {
      const uint64_t size = text.size();
      XXH3_64bits_update(state, &size, sizeof(size));
      XXH3_64bits_update(state, text.data(), text.size());
    }
  } else {
    // Pages of a large mapped constant leave as they are read.
    constexpr size_t kBlock = size_t{16} << 20;
    std::span<const std::byte> rest(static_cast<const std::byte*>(dense.data()),
                                    static_cast<size_t>(dense.byte_size()));
    while (!rest.empty()) {
      const std::span<const std::byte> block = rest.first(std::min(rest.size(), kBlock));
      XXH3_64bits_update(state, block.data(), block.size());
      if (block.size() == kBlock) release_mapped(block);
      rest = rest.subspan(block.size());
    }
  }
  const uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash == 0 ? 1 : hash;  // 0 means not computed
}

}  // namespace lathe
