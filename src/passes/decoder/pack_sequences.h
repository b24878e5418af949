// SPDX-License-Identifier: MIT
// Makes a program whose token axis holds rows of many sequences out of an exported decoder.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "passes/decoder/merge_longrope_tables.h"
#include "passes/promote_state.h"

namespace lathe {

// The names of a decoder's inputs and results.
struct DecoderInterface {
  std::string tokens;     // ids [batch, rows], or embeddings [batch, rows, hidden]
  std::string positions;  // [batch, rows] or [3, batch, rows]; empty: none
  std::string logits;     // [batch, rows, vocabulary]
  std::vector<StatePair> states;
  // Empty where the program takes none: ones [batch, past and new rows], and counts of rows.
  std::string mask{};
  std::string past_length{};
  std::string new_length{};
  std::string total_length{};
  // Of programs with caches in blocks: which blocks [sequences, blocks], where each sequence's rows
  // begin and the last ends, how many came before, and bounds. Empty: no such program.
  std::string block_table{};
  std::string token_bounds{};
  std::string past_lengths{};
  std::string block_metadata{};
  // Inputs that stay the same for all of a sequence's steps, and what an encoder calls them.
  std::vector<StatePair> cross{};
  // Of rows that may come as embeddings: [batch, rows, hidden]; it may be `tokens`.
  std::string embeddings{};
  // Inputs with a row for each token beside `tokens` and `positions`: [batch, rows, …].
  std::vector<std::string> token_inputs{};
};

// What a sequence keeps between steps.
struct SequenceState {
  std::string name;
  ElementType element = ElementType::f32;
  bool grows = false;    // a cache: a row per token; otherwise of fixed extents
  Dims extents;          // of a cache's row: heads, size; otherwise of the state, batch 1
  int64_t window = 0;    // caches: rows that are needed; 0: all
  bool sliding = false;  // the file keeps a window's last rows at the front of a fixed capacity
  // Of caches, as the file has them: rows of a cache of fixed extents (0: it grows), whether row p
  // lies at p mod capacity, and whether rows are flat, [1, rows, heads · size].
  int64_t capacity = 0;
  bool ring = false;
  bool flat = false;
  int axis = -1;       // of a state that is one tensor: along which rows are added; -1: replaced
  int part = -1;       // which half of the file's tensor, keys or values; -1: all of it
  bool cross = false;  // written once, before the first row; extents of 0 are open
  std::string past;    // the file's names
  std::string present;

  StateKind kind() const {
    if (window > 0) return StateKind::window;
    if (cross) return StateKind::cross;
    return grows || axis >= 0 ? StateKind::append : StateKind::carry;
  }
};

// A result that a caller may ask for by name.
struct ProgramOutput {
  std::string name;
  int axis = -1;  // along which the step's rows lie; -1: along none that is known
};

struct PackedProgram {
  // main's parameters, by name: tokens [1, rows …] and other inputs of rows, positions [1, rows] or
  // [3, 1, rows] if it reads them, `token_numbers` [1, rows] if it counts each sequence's rows
  // beside, `table_rows` [1, rows] if tables switch, and `wanted_rows`, i64 [n]: those whose logits
  // are wanted. Logits are [1, n, vocabulary]. Null if there is an offender.
  std::unique_ptr<Program> program;
  std::string positions{};
  std::string token_numbers{};
  std::string table_rows{};
  std::string wanted_rows{};
  std::optional<LongRopeSwitch> length_switch{};
  std::vector<SequenceState> states;
  std::vector<ProgramOutput> outputs{};  // results beside the logits, all rows of the step
  // What keeps rows from being packed: an instruction and why.
  std::string not_packed_reason;
  // Why positions must be a count of each sequence's rows; empty: they may be anything.
  std::string fixed_positions{};
};

// Attention, convolution and linear attention with a past become sequence operators
// (ops/sequence_step.h); masks that only they read go; the rest must be token-wise. The rows'
// selection is put as far before the logits as only one value has rows. InvalidArgument if a name
// is unknown.
PackedProgram pack_sequences(const Program& program, const DecoderInterface& interface);

}  // namespace lathe
