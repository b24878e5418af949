// SPDX-License-Identifier: MIT
// Packs an exported decoder: its token axis holds tokens of many sequences.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/pass_runner.h"
#include "ir/program.h"
#include "passes/decoder/merge_longrope_tables.h"
#include "passes/promote_state.h"

namespace lathe {

// Names of a decoder's inputs and results.
struct DecoderInterface {
  std::string tokens;     // ids [batch, tokens], or embeddings [batch, tokens, hidden]
  std::string positions;  // [batch, tokens] or [3, batch, tokens]; empty: none
  std::string logits;     // [batch, tokens, vocabulary]
  std::vector<StatePair> states;
  // Empty if the program has none. mask: ones [batch, past and new tokens]; lengths: token counts.
  std::string mask{};
  std::string past_length{};
  std::string new_length{};
  std::string total_length{};
  // Inputs of programs with paged KV caches, empty for others: block table [sequences, blocks],
  // bounds of each sequence's tokens, past lengths, and maxima.
  std::string block_table{};
  std::string token_bounds{};
  std::string past_lengths{};
  std::string block_metadata{};
  // Inputs that are constant over a sequence's steps, and the encoder's names of them.
  std::vector<StatePair> cross{};
  // Input of tokens given as embeddings, [batch, tokens, hidden]; may equal `tokens`.
  std::string embeddings{};
  // Further inputs with a token axis: [batch, tokens, …].
  std::vector<std::string> token_inputs{};
};

// A state that a sequence keeps between steps.
struct SequenceState {
  std::string name;
  ElementType element = ElementType::f32;
  bool grows = false;  // true: a KV cache, one entry per token; false: fixed size
  Dims extents;  // KV cache: [heads, size] per token; otherwise the state's shape with batch 1
  int64_t window = 0;    // KV cache: sliding window in tokens; 0: unlimited
  bool sliding = false;  // the file keeps the last tokens at the front of a fixed capacity
  // Layout of the file's KV cache: capacity in tokens (0: it grows), ring buffer (token p in slot p
  // mod capacity), and flat, [1, tokens, heads · size].
  int64_t capacity = 0;
  bool ring = false;
  bool flat = false;
  int axis = -1;        // token axis of a state that is one tensor; -1: replaced as a whole
  int part = -1;        // half of the file's combined tensor, keys 0 or values 1; -1: all of it
  bool cross = false;   // written once, before the first token; dims of 0 are open
  int cross_group = 0;  // cross states of one group have one length
  std::string past;     // names in the file
  std::string present;

  StateKind kind() const {
    if (window > 0) return StateKind::window;
    if (cross) return StateKind::cross;
    return grows || axis >= 0 ? StateKind::append : StateKind::carry;
  }
};

// A result that a caller may request by name.
struct ProgramOutput {
  std::string name;
  int axis = -1;  // token axis; -1: none
};

// Inputs that assign the tokens of a step to sequences, and sequences to their memory: i32, by
// name. Empty: the program has none.
struct StepTableNames {
  std::string token_bounds{};  // [sequences + 1], the first token of each, and the number of tokens
  std::string past_lengths{};  // [sequences], earlier tokens
  std::string state_slots{};  // [sequences, 2], slots of fixed states to read (-1: zeros), to write
  // [sequences, n], the pages of the KV caches with the window of this one, in order; -1: evicted.
  struct Pages {
    std::string table{};
    std::string state{};
  };
  std::vector<Pages> pages{};
  // Pages and [sequences] lengths of the cross states in the group of this one.
  struct Cross {
    std::string table{};
    std::string lengths{};
    std::string state{};
    int group = 0;
  };
  std::vector<Cross> cross{};

  bool contains(std::string_view input) const;
};

struct PackedProgram {
  // Token inputs are [1, tokens, …], logits [1, n, vocabulary]. Null if not packed.
  std::unique_ptr<Program> program;
  // Names of further parameters; empty: the program has none.
  std::string positions{};        // [1, tokens] or [3, 1, tokens]
  std::string token_numbers{};    // [1, tokens], each token's number in its sequence
  std::string table_rows{};       // [1, tokens], indices into merged LongRoPE tables
  std::string logit_positions{};  // i64 [n], packed indices of the tokens that need logits
  StepTableNames tables{};
  std::optional<LongRopeSwitch> length_switch{};
  // The program's states of the same names are paged: KV caches are [pages, heads, page length,
  // size], others [slots, …].
  std::vector<SequenceState> states;
  std::vector<ProgramOutput> outputs{};  // results other than logits, all tokens of the step
  // Why tokens cannot be packed: the blocking instruction and its reason.
  std::string not_packed_reason;
  // Why positions must count each sequence's tokens; empty: positions are arbitrary.
  std::string fixed_positions{};
};

// Converts attention, convolution and linear attention with a past to sequence operators
// (ops/support/step_tables.h) over paged states and removes masks that only they read; all other
// instructions must be token-wise. Gathers requested tokens before the head. InvalidArgument if a
// name is unknown. Runs the passes of DecoderPacking (decoder_packing.h) to stage canonical.
PackedProgram pack_sequences(const Program& program, const DecoderInterface& interface,
                             const PassOptions& options = {});

}  // namespace lathe
