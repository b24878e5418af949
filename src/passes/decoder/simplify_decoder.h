// SPDX-License-Identifier: MIT
// What is written out in an exported decoder and follows from its being one: a batch of one, a mask
// as long as past and new rows, caches of keys and values in one tensor, positions counted out.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "passes/analysis/affine_analysis.h"
#include "passes/decoder/pack_sequences.h"
#include "passes/decoder/recognise_attention.h"

namespace lathe {

Value* find_parameter(const Module& main, const std::string& name);

// Makes a pair of states of each combined one, [2, batch, heads, rows, size], named PAST/0 and
// PAST/1, and gives the combined pair by both names. Leaves alone what is not read and made half by
// half.
std::map<std::string, StatePair> split_combined_states(Program& program, DecoderInterface& names);

// Results that are their only operand, which stand between a state and its reader.
void eliminate_copies(Program& program);

// One batch, and every length in terms of past and new rows; types anew. A program for single
// tokens becomes one for any number of rows. nullopt where the tokens do not have rows, or
// something wants them to be one.
std::optional<TokenExtents> set_token_extents(Program& program, const DecoderInterface& names);

// What is known of a decoder's parameters.
AffineAnalysis decoder_positions(const Program& program, const DecoderInterface& names,
                                 const TokenExtents& extents);

// The axis of rows of an input that has one for each token: behind the batch, which follows an axis
// of 3 (time, height, width) or comes first.
int token_axis(const Type& type);

// Values that count the new rows' positions become the input of positions, which is added (and
// named in `names`) if there is none.
void absorb_positions(Program& program, DecoderInterface& names, const TokenExtents& extents);

}  // namespace lathe
