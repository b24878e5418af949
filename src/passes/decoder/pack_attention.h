// SPDX-License-Identifier: MIT
// Converts attention written in standard operators to sequence attention: over KV caches that it
// appends to, over caches that other attention appends to, and over an encoder's output.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "passes/decoder/pack_sequences.h"
#include "passes/decoder/recognise_attention.h"
#include "passes/decoder/sequence_form.h"
#include "passes/decoder/share_kv_caches.h"

namespace lathe {

class AttentionPacking {
 public:
  // `tables` receives the names of added inputs.
  AttentionPacking(Program& program, const DecoderInterface& names, const TokenExtents& extents,
                   StepTableNames& tables);

  // Records all attention over the cache of a pair, whose present `owner` produces; changes
  // nothing. The first one appends, unless the owner does. Returns the blocking reason, or "".
  std::string recognise(const StatePair& pair, Instruction& owner, bool grows_itself);
  // recognise() for encoder outputs, which are written once; they may have no other reader.
  std::string recognise_across();
  // Adds a bias of the scores of `heads` heads; false if it is neither a causal mask nor ALiBi.
  bool add_bias(const Value* added, int64_t heads, AttentionBias& bias) const;
  // Rewrites what was recognised; presents that are appended to are removed from the results.
  void convert();

  bool converted() const { return !attentions_.empty(); }

  // States of the KV caches that are appended to.
  const std::vector<SequenceState>& states() const { return states_; }
  // Readers of caches that another instruction appends to.
  const std::vector<SharedKvCache>& shared() const { return shared_; }

 private:
  int result_of(const std::string& present) const;
  void sort(std::vector<CachedAttention>& all) const;
  bool of_one_cache(const CachedAttention& a, const CachedAttention& b) const;
  bool fits_across(const CachedAttention& found) const;
  bool add_states(const CachedAttention& found);
  SequenceState state_of(const CachedAttention& found, const Value* past) const;
  void convert(const CachedAttention& found);

  Module& main_;
  const DecoderInterface& names_;
  const TokenExtents& extents_;
  SequenceForm form_;
  AffineAnalysis flow_;
  std::vector<CachedAttention> attentions_;
  std::vector<SequenceState> states_;
  std::vector<SequenceState> cross_;  // of the program
  std::set<const Value*> made_;       // pasts of recognised attention
  std::vector<SharedKvCache> shared_;
};

// States of all encoder outputs; their inputs are ranked.
std::vector<SequenceState> cross_states(const Program& program, const DecoderInterface& names);
// Widens the window of each cache to that of its largest reader.
void widen_windows(std::vector<SequenceState>& states, const std::vector<SharedKvCache>& readers);

// Slopes in the form of sequence_attention's attribute: one per head, or empty.
Numbers slopes_of(const AttentionBias& bias, int64_t heads);

}  // namespace lathe
