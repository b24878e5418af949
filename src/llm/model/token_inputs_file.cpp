// SPDX-License-Identifier: MIT
#include "llm/model/token_inputs_file.h"

#include <cstring>

#include "base/error.h"

namespace lathe::llm {

void write_embedded(std::span<const EmbeddedTokens> embedded, ByteWriter& writer) {
  writer.number(embedded.size());
  for (const EmbeddedTokens& own : embedded) {
    const Tensor values = own.embeddings.values.dense();
    writer.number(static_cast<uint64_t>(own.begin));
    writer.number(own.embeddings.hash);
    writer.number(static_cast<uint64_t>(values.type()));
    for (const int64_t extent : values.dims()) writer.number(static_cast<uint64_t>(extent));
    const std::span<std::byte> room = writer.room(values.byte_size());
    std::memcpy(room.data(), values.data(), room.size());
  }
}

void write_positions(const Positions& positions, ByteWriter& writer) {
  writer.number(positions.runs().size());
  for (const Positions::Run& run : positions.runs()) {
    for (const int64_t number : {run.begin, run.count, run.axes()}) {
      writer.number(static_cast<uint64_t>(number));
    }
    for (const int64_t value : run.values) writer.number(static_cast<uint64_t>(value));
  }
}

std::vector<EmbeddedTokens> read_embedded(ByteReader& reader, int64_t length) {
  std::vector<EmbeddedTokens> embedded;
  const int64_t count = reader.count("embeddings", length);
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    EmbeddedTokens own;
    own.begin = reader.count("tokens before embeddings", length);
    own.embeddings.hash = reader.number("embeddings");
    const auto type = static_cast<ElementType>(reader.number("embeddings"));
    const bool floats = type == ElementType::f32 || type == ElementType::f16 ||
                        type == ElementType::bf16 || type == ElementType::f64;
    check(floats && own.begin >= end, ErrorKind::invalid_argument,
          "a saved sequence has embeddings of element type {} from token {} on, the previous ones "
          "end at {}",
          static_cast<int>(type), own.begin, end);
    const int64_t tokens = reader.count("embeddings", length - own.begin);
    const auto most = static_cast<int64_t>(reader.left());
    const int64_t hidden = reader.count("embedding size", most);
    const uint64_t size = reader.number("an embedding's size");
    const bool some = tokens > 0 && hidden > 0 && hidden <= most / tokens;
    check(some && size == static_cast<uint64_t>(bytes_for(type, tokens * hidden)),
          ErrorKind::invalid_argument, "embeddings [{}, {}] of a saved sequence have {} bytes",
          tokens, hidden, size);
    const auto data = reader.take(size, "embeddings");
    own.embeddings.values = Tensor(type, {tokens, hidden});
    std::memcpy(own.embeddings.values.data(), data.data(), data.size());
    end = own.end();
    embedded.push_back(std::move(own));
  }
  return embedded;
}

Positions read_positions(ByteReader& reader, int64_t length, int64_t most) {
  Positions positions;
  const int64_t count = reader.count("runs of positions", length);
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = reader.count("tokens before position ids", length);
    const int64_t tokens = reader.count("tokens with position ids", length - begin);
    const int64_t axes = reader.count("axes of positions", 3);
    check(
        begin >= end && tokens > 0 && (axes == 1 || axes == 3), ErrorKind::invalid_argument,
        "a saved sequence has position ids [{}, {}] from token {} on, the previous ones end at {}",
        axes, tokens, begin, end);
    std::vector<int64_t> values;
    for (int64_t j = 0; j < axes * tokens; ++j) {
      values.push_back(reader.count("position id", most));
    }
    positions.add(begin, tokens, values);
    end = begin + tokens;
  }
  return positions;
}

}  // namespace lathe::llm
