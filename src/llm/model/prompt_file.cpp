// SPDX-License-Identifier: MIT
#include "llm/model/prompt_file.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "llm/model/byte_stream.h"
#include "llm/model/checksum.h"
#include "llm/model/sequence_file.h"
#include "llm/model/token_inputs_file.h"

// Format: magic, version, tokens (count, ids), embeddings and position ids (token_inputs_file.h),
// prompt tokens, reason, choices (count; of each: log-probability, count and (token,
// log-probability) of the most likely), checksum of all before it, the sequence.
namespace lathe::llm {
namespace {

constexpr std::string_view kMagic = "LATHEGEN";
constexpr uint64_t kVersion = 1;

void write_float(ByteWriter& writer, float value) { writer.number(std::bit_cast<uint32_t>(value)); }
float read_float(ByteReader& reader, std::string_view what) {
  return std::bit_cast<float>(static_cast<uint32_t>(reader.number(what)));
}
Token read_token(ByteReader& reader, std::string_view what, int64_t vocabulary) {
  return static_cast<Token>(reader.count(what, vocabulary - 1));
}

search::Choice read_choice(ByteReader& reader, int64_t vocabulary) {
  search::Choice choice;
  choice.log_probability = read_float(reader, "log-probabilities");
  const int64_t count = reader.count("log-probabilities", vocabulary);
  for (int64_t i = 0; i < count; ++i) {
    const Token token = read_token(reader, "log-probabilities", vocabulary);
    choice.most_likely.push_back({token, read_float(reader, "log-probabilities")});
  }
  return choice;
}

// Embeddings have ids below 0.
void check_tokens(const PromptState& state, int64_t vocabulary) {
  std::vector<bool> embedded(state.tokens.size());
  for (const EmbeddedTokens& own : state.embedded) {
    for (int64_t i = own.begin; i < own.end(); ++i) embedded[static_cast<size_t>(i)] = true;
  }
  for (size_t i = 0; i < state.tokens.size(); ++i) {
    const Token token = state.tokens[i];
    check(embedded[i] ? token < 0 : token >= 0 && token < vocabulary, ErrorKind::invalid_argument,
          "a saved prompt has token {} at {}, but the vocabulary has {}", token, i, vocabulary);
  }
}

}  // namespace

std::vector<std::byte> save_prompt(const PromptState& state) {
  ByteWriter writer;
  for (const char c : kMagic) writer.bytes.push_back(static_cast<std::byte>(c));
  writer.number(kVersion);
  writer.number(state.tokens.size());
  for (const Token token : state.tokens) writer.number(static_cast<uint64_t>(token));
  write_embedded(state.embedded, writer);
  write_positions(state.positions, writer);
  writer.number(state.prompt);
  writer.number(static_cast<uint64_t>(state.reason));
  writer.number(state.choices.size());
  for (const search::Choice& choice : state.choices) {
    write_float(writer, choice.log_probability);
    writer.number(choice.most_likely.size());
    for (const auto& [token, log_probability] : choice.most_likely) {
      writer.number(static_cast<uint64_t>(token));
      write_float(writer, log_probability);
    }
  }
  writer.number(checksum(writer.bytes));
  const std::vector<std::byte> sequence = save_sequence(state.sequence);
  writer.bytes.insert(writer.bytes.end(), sequence.begin(), sequence.end());
  return std::move(writer.bytes);
}

PromptState restore_prompt(const Decoder& decoder, std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.take(kMagic.size(), "head");
  check(std::memcmp(magic.data(), kMagic.data(), kMagic.size()) == 0, ErrorKind::invalid_argument,
        "{} bytes are not a saved prompt: they do not begin with '{}'", bytes.size(), kMagic);
  const uint64_t version = reader.number("version");
  check(version == kVersion, ErrorKind::invalid_argument,
        "a saved prompt has version {}, this Lathe reads version {}", version, kVersion);
  const int64_t context = decoder.config().context_length;
  const int64_t vocabulary = decoder.vocabulary();
  PromptState state{decoder.new_sequence()};
  const int64_t tokens = reader.count("tokens", context);
  for (int64_t i = 0; i < tokens; ++i) {
    state.tokens.push_back(static_cast<Token>(reader.number("tokens")));
  }
  state.embedded = read_embedded(reader, tokens);
  state.positions = read_positions(reader, tokens, context);
  check_tokens(state, vocabulary);
  state.prompt = static_cast<size_t>(reader.count("prompt tokens", tokens));
  state.reason = static_cast<FinishReason>(
      reader.count("reasons", static_cast<int64_t>(FinishReason::length)));
  const int64_t choices = reader.count("log-probabilities", tokens);
  for (int64_t i = 0; i < choices; ++i) state.choices.push_back(read_choice(reader, vocabulary));
  const uint64_t sum = checksum(bytes.first(bytes.size() - reader.left()));
  check(reader.number("checksum") == sum, ErrorKind::invalid_argument,
        "a saved prompt of {} bytes is damaged: its checksum differs", bytes.size());
  state.sequence =
      restore_sequence(decoder.new_sequence().shared_layout(), bytes.last(reader.left()), context);
  check(state.sequence.length() < std::max<int64_t>(tokens, 1), ErrorKind::invalid_argument,
        "a saved prompt has {} tokens, but its sequence has {}", tokens, state.sequence.length());
  return state;
}

}  // namespace lathe::llm
