// SPDX-License-Identifier: MIT
#include "plan/given_packings.h"

namespace lathe {
namespace {

thread_local GivenPackings* current = nullptr;

}  // namespace

GivenPackings::GivenPackings() : outer_(current) { current = this; }

GivenPackings::~GivenPackings() { current = outer_; }

GivenPackings::Key GivenPackings::key_of(const std::string& format,
                                         std::span<const Tensor* const> sources) {
  Key key{format, {}};
  for (const Tensor* source : sources) {
    key.second.emplace_back(source == nullptr ? nullptr : source->data(),
                            source == nullptr ? -1 : source->byte_size());
  }
  return key;
}

void GivenPackings::add(const std::string& format, std::span<const Tensor* const> sources,
                        Tensor packed) {
  packings_.emplace(key_of(format, sources), std::move(packed));
}

Tensor GivenPackings::find(const std::string& format, std::span<const Tensor* const> sources,
                           size_t bytes) {
  if (current == nullptr || current->packings_.empty()) return {};
  const auto at = current->packings_.find(key_of(format, sources));
  if (at == current->packings_.end() || at->second.byte_size() != static_cast<int64_t>(bytes)) {
    return {};
  }
  return at->second;
}

}  // namespace lathe
