// SPDX-License-Identifier: MIT
// Attention that exporters wrote in standard operators becomes sequence attention: over caches that
// it appends to, over those that other attention has appended to, and over what an encoder gave.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "passes/decoder/pack_sequences.h"
#include "passes/decoder/recognise_attention.h"
#include "passes/decoder/share_kv_caches.h"

namespace lathe {

class AttentionPacking {
 public:
  AttentionPacking(Program& program, const DecoderInterface& names, const TokenExtents& extents);

  // All attention over the cache of a pair, whose present `owner` makes; nothing is changed yet. Of
  // several the first appends, unless the owner does so itself. Gives what is in the way.
  std::string recognise(const StatePair& pair, Instruction& owner, bool grows_itself);
  // The same of states that are written once, which nothing else may read.
  std::string recognise_across();
  // Joins what is added to scores of so many heads; false where it is no bias by position.
  bool join_bias(const Value* added, int64_t heads, AttentionBias& bias) const;
  // Presents that are appended to are results no more.
  void convert();

  // Of the caches that are appended to, and of all that an encoder gives.
  const std::vector<SequenceState>& states() const { return states_; }
  std::vector<SequenceState> cross_states() const;
  // A cache keeps what all that read it need, `others` among them.
  void widen_windows(std::vector<SequenceState>& states,
                     const std::vector<SharedKvCache>& others) const;

 private:
  int result_of(const std::string& present) const;
  void sort(std::vector<CachedAttention>& all) const;
  bool of_one_cache(const CachedAttention& a, const CachedAttention& b) const;
  bool fits_across(const CachedAttention& found) const;
  bool add_states(const CachedAttention& found);
  void convert(const CachedAttention& found);

  Module& main_;
  const DecoderInterface& names_;
  const TokenExtents& extents_;
  AffineAnalysis flow_;
  std::vector<CachedAttention> attentions_;
  std::vector<SequenceState> states_;
  std::set<const Value*> made_;  // pasts
  std::vector<SharedKvCache> shared_;
};

// A bias' slopes as the attribute of sequence attention has them: one for each head, or none.
Numbers slopes_of(const AttentionBias& bias, int64_t heads);

}  // namespace lathe
