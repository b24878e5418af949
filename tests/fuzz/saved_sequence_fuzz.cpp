// SPDX-License-Identifier: MIT
// Any bytes as a saved sequence with a valid checksum: a restored sequence can be saved again.
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "llm/model/checksum.h"
#include "llm/model/sequence_file.h"

namespace {

using namespace lathe;
using llm::CacheLayout;

SequenceState state(const char* name, Dims extents) {
  SequenceState out;
  out.name = name;
  out.extents = std::move(extents);
  return out;
}

std::shared_ptr<const CacheLayout> paged() {
  std::vector<SequenceState> states = {state("key", {1, 2}), state("window", {1, 1}),
                                       state("carry", {1, 3}), state("cross", {1, 1, 0, 2})};
  states[0].grows = states[1].grows = true;
  states[1].window = 6;
  states[3].cross = true;
  return std::make_shared<const CacheLayout>(std::move(states), 4);
}

std::shared_ptr<const CacheLayout> whole() {
  std::vector<SequenceState> states = {state("rows", {1, 0, 2}), state("cross", {1, 0, 0, 2})};
  states[0].axis = 1;
  states[1].cross = true;
  return std::make_shared<const CacheLayout>(std::move(states), 1, true);
}

void put(std::vector<std::byte>& bytes, uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const CacheLayout> layouts[] = {paged(), whole()};
  for (const auto& layout : layouts) {
    std::vector<std::byte> bytes;
    for (const char c : std::string_view("LATHESEQ")) bytes.push_back(static_cast<std::byte>(c));
    put(bytes, 2);
    put(bytes, layout->fingerprint());
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(data[i]));
    put(bytes, llm::checksum(bytes));
    try {
      llm::save_sequence(llm::restore_sequence(layout, bytes, 1000));
    } catch (const Error&) {
    }
  }
  return 0;
}
