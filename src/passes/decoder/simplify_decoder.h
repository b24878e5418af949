// SPDX-License-Identifier: MIT
// Simplifies an exported decoder: batch of one, mask length past + new, combined KV caches split,
// positions read from the input instead of being counted.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "passes/analysis/affine_analysis.h"
#include "passes/decoder/pack_sequences.h"
#include "passes/decoder/recognise_attention.h"

namespace lathe {

Value* find_parameter(const Module& main, const std::string& name);

// Splits each combined state [2, batch, heads, tokens, size] into a pair PAST/0 and PAST/1; returns
// the combined pair by both names. Skips a state that is not read and written by halves.
std::map<std::string, StatePair> split_combined_states(Program& program, DecoderInterface& names);

// Removes instructions whose result equals their only operand; returns whether there was one.
bool eliminate_copies(Program& program);

// Sets the batch to one and every length to past or new tokens, and infers types anew. A program
// for single tokens becomes one for any number. nullopt if the sequence axis is not dynamic, or if
// an instruction requires a single token. Sets `changed` if a type or a guard became another.
std::optional<TokenExtents> set_token_extents(Program& program, const DecoderInterface& names,
                                              bool& changed);

// Past and new tokens of a program that set_token_extents has changed; nullopt for others.
std::optional<TokenExtents> find_token_extents(const Program& program,
                                               const DecoderInterface& names);

// Affine analysis with the values of a decoder's mask, positions and lengths.
AffineAnalysis decoder_positions(const Program& program, const DecoderInterface& names,
                                 const TokenExtents& extents);

// Token axis of a token input: 1 after the batch, or 2 after [3, batch] of M-RoPE positions.
int token_axis(const Type& type);

// Replaces values that count the new tokens' positions by the input of positions. Adds that input,
// and its name to `names`, if there is none. Returns whether it replaced one.
bool absorb_positions(Program& program, DecoderInterface& names, const TokenExtents& extents);

}  // namespace lathe
