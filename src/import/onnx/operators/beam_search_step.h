// SPDX-License-Identifier: MIT
// Emits a step of a beam search: from logits of all live beams to their next tokens.
#pragma once

#include <span>

#include "ir/builder.h"

namespace lathe::onnx {

// What a step reads.
struct BeamSettings {
  int64_t end_token;
  int64_t pad_token;
  bool early_stopping;
  bool has_repetition;  // a repetition penalty
  int64_t ngram;        // size of n-grams that may not repeat; 0: none
};

// Values that all steps share: parameters of a loop's body.
struct BeamConstants {
  Value* max_length;      // i64[]
  Value* min_length;      // i64[]
  Value* beams;           // i64[1]
  Value* length_penalty;  // f32[]
  Value* repetition;      // f32[]
  Value* mask;            // bool[vocabulary]: allowed tokens; null: all

  std::vector<Value*> list() const;
  static BeamConstants from(std::span<Value* const> list);
};

// Carried from step to step. Sequences are padded to max_length.
struct BeamState {
  Value* length;     // i64[]: tokens of each live sequence
  Value* sequences;  // i32[batch, beams, max_length]
  Value* scores;     // f32[batch, beams]: sums of log probabilities
  Value* found;      // i32[batch, beams, max_length]: finished hypotheses, best first
  Value* grades;     // f32[batch, beams]: their scores; -infinity: none
  Value* done;       // bool[batch]

  static constexpr std::array kNames = {"length", "sequences", "scores", "found", "grades", "done"};
  std::vector<Value*> list() const { return {length, sequences, scores, found, grades, done}; }
  static BeamState from(std::span<Value* const> v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }
};

// A hypothesis ends before the end token; its grade is its sum of log probabilities, with the end
// token's, / length^length_penalty.
class BeamSearchStep {
 public:
  BeamSearchStep(Builder& b, const BeamSettings& settings, const BeamConstants& constants)
      : b_(b), settings_(settings), k_(constants) {}

  // The state before the first step, for the tokens i32[batch, n] that begin each sequence. All
  // beams of a prompt but the first are improbable.
  BeamState begin(Value* tokens) const;
  // Chooses the next tokens by logits [batch·beams, vocabulary]. Returns the row of the beam that
  // each new beam continues. `prefix_mask` [batch·beams, vocabulary]: allowed tokens; null: all.
  Value* advance(BeamState& s, Value* logits, Value* prefix_mask = nullptr) const;
  // Appends the most probable token to the only beam of each prompt, padding if that is the end
  // token or an earlier one was.
  void advance_greedily(BeamState& s, Value* logits, Value* prefix_mask = nullptr) const;
  // Adds the live beams of prompts that are not done.
  void finish(BeamState& s) const;
  Value* any_left(const BeamState& s) const;
  // The tokens [batch·beams, length], or the last ones [batch·beams, 1].
  Value* tokens(const BeamState& s) const;
  Value* last_tokens(const BeamState& s) const;
  // The rows of x [batch, ..] once per beam; the batch may be another axis.
  Value* per_beam(const BeamState& s, Value* x, int64_t axis = 0) const;

 private:
  Value* integer(int64_t v) const { return b_.scalar(ElementType::i64, static_cast<double>(v)); }
  Value* number(double v) const { return b_.scalar(ElementType::f32, v); }
  Value* size(Value* x, int64_t axis) const;
  Value* count_to(Value* size) const;
  Value* join(std::initializer_list<Value*> parts, int64_t axis = 0) const;
  Value* with_axis(Value* x, int64_t axis) const;
  Value* pick(Value* x, Value* index) const;
  Value* pick_elements(Value* x, Value* index) const;
  Value* first_columns(Value* x) const;
  Value* along_beams(std::string_view op, Value* x) const;
  Value* length_penalty(const BeamState& s) const;
  Value* changed(const BeamState& s, Value* log_probabilities, Value* prefix_mask) const;
  void add_found(BeamState& s, Value* sequences, Value* grades) const;
  void append(BeamState& s, Value* sequences, Value* tokens) const;

  Builder& b_;
  const BeamSettings& settings_;
  const BeamConstants& k_;
};

}  // namespace lathe::onnx
