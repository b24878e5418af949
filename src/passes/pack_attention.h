// SPDX-License-Identifier: MIT
// Attention that exporters wrote in standard operators becomes sequence attention: over caches that
// it appends to, over those that other attention has appended to, and over what an encoder gave.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "passes/pack_sequences.h"
#include "passes/recognise_attention.h"

namespace lathe {

class AttentionPacking {
 public:
  AttentionPacking(Program& program, const DecoderInterface& names, const RowExtents& extents);

  // All attention over the cache of a pair, whose present `owner` makes; nothing is changed yet. Of
  // several the first appends, unless the owner does so itself. Gives what is in the way.
  std::string recognise(const StatePair& pair, Instruction& owner, bool grows_itself);
  // The same of states that are written once, which nothing else may read.
  std::string recognise_across();
  // Presents that are appended to are results no more.
  void convert();

  // Of the caches that are appended to, and of all that an encoder gives.
  const std::vector<SequenceState>& states() const { return states_; }
  std::vector<SequenceState> cross_states() const;
  // A cache keeps what all that read it need.
  void widen_windows(std::vector<SequenceState>& states) const;

 private:
  int result_of(const std::string& present) const;
  void sort(std::vector<CachedAttention>& all) const;
  bool of_one_cache(const CachedAttention& a, const CachedAttention& b) const;
  bool fits_across(const CachedAttention& found) const;
  bool add_states(const CachedAttention& found);
  void convert(const CachedAttention& found);

  Module& main_;
  const DecoderInterface& names_;
  const RowExtents& extents_;
  PositionFlow flow_;
  std::vector<CachedAttention> attentions_;
  std::vector<SequenceState> states_;
  std::set<const Value*> made_;                                  // pasts
  std::vector<std::pair<std::string, int64_t>> shared_windows_;  // by the names of pasts
};

}  // namespace lathe
