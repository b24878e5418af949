// SPDX-License-Identifier: MIT
// The passes of pack_sequences and the facts that they share.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/pass.h"
#include "passes/decoder/pack_attention.h"
#include "passes/decoder/pack_sequences.h"
#include "passes/decoder/share_kv_caches.h"

namespace lathe {

class DecoderPacking {
 public:
  // With `free_positions` the program must be correct for arbitrary ones: they are a token input.
  DecoderPacking(DecoderInterface names, bool free_positions);
  DecoderPacking(const DecoderPacking&) = delete;
  DecoderPacking& operator=(const DecoderPacking&) = delete;

  // The passes in order; they refer to this object. Once one finds that tokens cannot be packed,
  // the following ones change nothing.
  Pipeline pipeline();
  // Everything but the program; not_packed_reason is empty if all passes succeeded.
  PackedProgram take() { return std::move(packed_); }

 private:
  Pass pass(std::string_view name, std::string_view doc, bool (DecoderPacking::*run)(Program&),
            bool changes_requirements = false);
  bool simplify(Program& program);
  bool merge_tables(Program& program);
  bool share_caches(Program& program);
  bool pack_attention(Program& program);
  bool pack_states(Program& program);
  bool absorb(Program& program);
  bool fold_transposes(Program& program);
  bool drop_inputs(Program& program);
  bool gather_logits(Program& program);

  // Records the blocking reason; returns false.
  bool refuse(std::string why);
  // False, with the reason recorded, if the program has no token axis.
  bool find_extents(const Program& program);
  const Instruction* find_reader_of_past(const Module& main) const;

  DecoderInterface names_;
  std::string input_positions_;  // the program's own input
  PackedProgram packed_;
  std::optional<TokenExtents> extents_;
  std::map<std::string, StatePair> combined_;  // by the names of their halves
  std::vector<SharedKvCache> shared_;
  std::set<std::string> done_;  // names of pasts
};

}  // namespace lathe
