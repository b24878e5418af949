// SPDX-License-Identifier: MIT
#include "plan/given_packings.h"

#include "base/error.h"
#include "base/log.h"
#include "ir/literal.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

thread_local GivenPackings* current = nullptr;

std::string hashes_of(std::span<const Tensor* const> sources) {
  std::vector<uint64_t> hashes;
  for (const Tensor* source : sources) {
    if (source == nullptr) continue;
    Literal literal;
    literal.tensor = *source;
    hashes.push_back(literal.hash());
    // Nothing else reads the source of packed weights.
    if (stored_constants(*source) == nullptr) release_mapped(*source);
  }
  return hashes_text(hashes);
}

}  // namespace

std::string hashes_text(std::span<const uint64_t> hashes) {
  return fmt::format("{:016x}", fmt::join(hashes, " "));
}

GivenPackings::GivenPackings() : outer_(current) { current = this; }

GivenPackings::~GivenPackings() { current = outer_; }

GivenPackings::Key GivenPackings::key_of(const std::string& format,
                                         std::span<const Tensor* const> sources) {
  Key key{format, {}};
  for (const Tensor* source : sources) {
    key.second.emplace_back(source == nullptr ? nullptr : source->data(),
                            source == nullptr ? "" : to_string(source->type(), source->dims()));
  }
  return key;
}

void GivenPackings::add(const std::string& format, std::span<const Tensor* const> sources,
                        std::string hashes, Tensor packed) {
  packings_.emplace(key_of(format, sources), Packing{std::move(hashes), std::move(packed)});
}

Tensor GivenPackings::find(const std::string& format, std::span<const Tensor* const> sources,
                           size_t bytes) {
  if (current == nullptr || current->packings_.empty()) return {};
  const auto at = current->packings_.find(key_of(format, sources));
  if (at == current->packings_.end() ||
      at->second.packed.byte_size() != static_cast<int64_t>(bytes)) {
    return {};
  }
  if (at->second.hashes != hashes_of(sources)) {
    log_warning(
        fmt::format("the program's weights packed as '{}' were made from others than it has: "
                    "packing them again",
                    escape(format)));
    current->packings_.erase(at);
    return {};
  }
  return at->second.packed;
}

}  // namespace lathe
