// SPDX-License-Identifier: MIT
// Converts single operators with a past to sequence operators: group_query_attention,
// causal_conv_with_state and linear_attention.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/decoder/pack_attention.h"

namespace lathe {

// True for such an operator; `grows`: its state is a KV cache.
bool is_state_op(const Instruction& instruction, bool grows);

class StatePacking {
 public:
  // `done`: names of the states that need no conversion. `tables` receives the names of added
  // inputs.
  StatePacking(Program& program, const DecoderInterface& names, const TokenExtents& extents,
               StepTableNames& tables, std::set<std::string>& done)
      : main_(program.main()),
        names_(names),
        attention_(program, names, extents, tables),
        form_(program, tables),
        done_(done) {}

  // Replaces the operators of all pairs and appends their states; removes their pasts and presents.
  // Returns the blocking reason, or "".
  std::string run(std::vector<SequenceState>& states);

 private:
  struct Conversion;
  static const std::vector<Conversion>& conversions();
  static const Conversion* find_conversion(const Instruction& owner);
  Instruction* owner_of(const StatePair& pair) const;
  std::string convert(Instruction& owner, const Conversion& conversion,
                      std::vector<SequenceState>& states);
  std::optional<AttentionBias> bias_of(const Instruction& owner) const;
  std::optional<SequenceState> take_state(const Instruction& owner, const Conversion& conversion,
                                          size_t past, size_t present) const;
  int result_index(const std::string& name) const;

  friend bool is_state_op(const Instruction& instruction, bool grows);
  Module& main_;
  const DecoderInterface& names_;
  AttentionPacking attention_;
  SequenceForm form_;
  std::set<std::string>& done_;
  std::map<const Instruction*, std::optional<AttentionBias>> biases_;
};

}  // namespace lathe
