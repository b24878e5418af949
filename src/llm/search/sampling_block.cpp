// SPDX-License-Identifier: MIT
#include "llm/search/sampling_block.h"

#include "base/error.h"

namespace lathe::search {

void check_block(const SamplingBlock& block, int64_t vocabulary) {
  check(block.options != nullptr, ErrorKind::invalid_argument,
        "sampling one of {} tokens requires options", vocabulary);
  check_mask(block.mask, vocabulary);
}

}  // namespace lathe::search
