// SPDX-License-Identifier: MIT
#include "llm/model/sequence_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "llm/model/byte_stream.h"
#include "llm/model/cache_slots.h"
#include "llm/model/checksum.h"
#include "llm/model/token_inputs_file.h"
#include "ops/support/views.h"

// Numbers are 64 bits, low bytes first:
//   magic, version, fingerprint, checkpoints,
//   then the states themselves and those of each checkpoint:
//     length, reach, tokens (count, then as many), rows of embeddings (count, then of each where it
//     begins, hash, element type, extents and bytes), positions (count, then of each run where it
//     begins, rows, axes and values), per group the first row held, per state its bytes (count,
//     then as many),
//   then the checksum of all before it.
// A checkpoint leaves out caches without a window: their rows are those of the states. In a layout
// that is whole: the runs (count, then as many), per state its extents and its bytes.
namespace lathe::llm {
namespace {

constexpr std::string_view kMagic = "LATHESEQ";
constexpr uint64_t kVersion = 2;

Dims cache_dims(const SequenceState& state, int64_t rows) {
  return {1, state.extents[0], rows, state.extents[1]};
}

void write_tensor(const SequenceState& state, const Tensor& tensor, ByteWriter& writer) {
  const Tensor dense = tensor.dense();
  const bool written = dense.data() != nullptr;
  const Dims& dims = written ? dense.dims() : state.extents;
  for (const int64_t extent : dims) writer.number(static_cast<uint64_t>(extent));
  const std::span<std::byte> room = writer.room(written ? dense.byte_size() : 0);
  if (!room.empty()) std::memcpy(room.data(), dense.data(), room.size());
}

void write_paged(const CacheLayout& layout, const SequenceStates& states, bool checkpoint,
                 ByteWriter& writer) {
  for (const HeldPages& cache : states.caches) writer.number(static_cast<uint64_t>(cache.first));
  for (const SequenceState& state : layout.states()) {
    const CacheLayout::Place& place = layout.place(state.name);
    if (state.cross) {
      write_tensor(state, states.whole[place.index], writer);
      continue;
    }
    if (!state.grows) {
      const PagePool::Ref& page = states.fixed[place.fixed];
      const std::span<std::byte> room = writer.room(page ? state_bytes(state) : 0);
      if (page) std::memcpy(room.data(), page.data(), room.size());
      continue;
    }
    const HeldPages& cache = states.caches[place.group];
    const bool left_out = checkpoint && state.window == 0;
    const int64_t rows = left_out ? 0 : states.length - cache.first;
    const std::span<std::byte> room = writer.room(rows * state_bytes(state));
    if (rows == 0) continue;
    // Copied byte by byte from where elements of any size lie: the view wants aligned memory.
    const Tensor dense(state.element, cache_dims(state, rows));
    read_rows(layout, place, cache, cache.first, dense.view());
    std::memcpy(room.data(), dense.data(), room.size());
  }
}

void write_whole(const CacheLayout& layout, const SequenceStates& states, ByteWriter& writer) {
  writer.number(states.runs.size());
  for (const int64_t run : states.runs) writer.number(static_cast<uint64_t>(run));
  for (size_t i = 0; i < states.whole.size(); ++i) {
    write_tensor(layout.states()[i], states.whole[i], writer);
  }
}

void write_states(const CacheLayout& layout, const SequenceStates& states, bool checkpoint,
                  ByteWriter& writer) {
  writer.number(static_cast<uint64_t>(states.length));
  writer.number(static_cast<uint64_t>(states.reach));
  writer.number(states.tokens.size());
  for (const int64_t token : states.tokens) writer.number(static_cast<uint64_t>(token));
  write_embedded(states.embedded, writer);
  write_positions(states.positions, writer);
  if (layout.whole()) {
    write_whole(layout, states, writer);
  } else {
    write_paged(layout, states, checkpoint, writer);
  }
}

class Restoring {
 public:
  Restoring(const CacheLayout& layout, ByteReader& reader, int64_t most_rows)
      : layout_(layout), reader_(reader), most_rows_(most_rows) {}

  // `whole`: the states whose caches a checkpoint shares.
  SequenceStates read(const SequenceStates* whole) {
    SequenceStates states;
    states.length = reader_.count("rows", whole == nullptr ? most_rows_ : whole->length);
    states.reach = reader_.count("rows at the last step", most_rows_);
    read_tokens(states);
    states.embedded = read_embedded(reader_, states.length);
    states.positions = read_positions(reader_, states.length, most_rows_);
    if (layout_.whole()) {
      read_whole(states);
      return states;
    }
    std::vector<CacheWriter> writers;
    for (size_t group = 0; group < layout_.groups().size(); ++group) {
      const int64_t window = layout_.groups()[group].window;
      const int64_t needed = window == 0 ? 0 : std::max<int64_t>(states.length - (window - 1), 0);
      const int64_t first = reader_.count("rows let go", needed);
      const bool shared = whole != nullptr && window == 0;
      check_rows(group, shared ? states.length : first, states.length);
      writers.emplace_back(layout_, group, shared ? states.length : first, states.length);
      firsts_.push_back(first);
    }
    states.fixed.resize(layout_.fixed_states());
    for (const SequenceState& state : layout_.states()) {
      const CacheLayout::Place& place = layout_.place(state.name);
      if (state.cross) {
        states.whole.resize(layout_.states().size());
        states.whole[place.index] = tensor_of(state);
      } else if (!state.grows) {
        read_fixed(state, place, states);
      } else {
        const bool shared = whole != nullptr && state.window == 0;
        const int64_t rows = shared ? 0 : states.length - firsts_[place.group];
        const auto data = data_of(state, rows * state_bytes(state));
        if (rows == 0) continue;
        const Tensor dense(state.element, cache_dims(state, rows));
        std::memcpy(dense.data(), data.data(), data.size());
        writers[place.group].write(place, dense.view());
      }
    }
    for (size_t group = 0; group < writers.size(); ++group) {
      const bool shared = whole != nullptr && layout_.groups()[group].window == 0;
      states.caches.push_back(shared ? prefix(whole->caches[group], states.length)
                                     : writers[group].take());
    }
    firsts_.clear();
    return states;
  }

 private:
  // Pages are taken only for rows whose bytes are there.
  void check_rows(size_t group, int64_t first, int64_t length) const {
    int64_t row = 0;
    for (const SequenceState& state : layout_.states()) {
      if (state.grows && layout_.place(state.name).group == group) row += state_bytes(state);
    }
    check(length - first <= static_cast<int64_t>(reader_.left()) / std::max<int64_t>(row, 1),
          ErrorKind::invalid_argument,
          "a saved sequence has rows {} to {} of {} bytes, but only {} bytes are left", first,
          length, row, reader_.left());
  }

  std::span<const std::byte> data_of(const SequenceState& state, int64_t expected) {
    const uint64_t size = reader_.number("a state's size");
    check(size == static_cast<uint64_t>(expected), ErrorKind::invalid_argument,
          "state '{}' of a saved sequence has {} bytes, expected {}", escape(state.name), size,
          expected);
    return reader_.take(size, "states");
  }

  void read_fixed(const SequenceState& state, const CacheLayout::Place& place,
                  SequenceStates& states) {
    const auto expected = static_cast<uint64_t>(state_bytes(state));
    const uint64_t size = reader_.number("a state's size");
    check(size == 0 || size == expected, ErrorKind::invalid_argument,
          "state '{}' of a saved sequence has {} bytes, expected none or {}", escape(state.name),
          size, expected);
    const auto data = reader_.take(size, "states");
    if (size == 0) return;
    PagePool::Ref page = layout_.fixed_pool(place.fixed).take();
    std::memcpy(page.data(), data.data(), data.size());
    states.fixed[place.fixed] = std::move(page);
  }

  void read_tokens(SequenceStates& states) {
    const int64_t count = reader_.count("tokens", states.length);
    check(count == 0 || count == states.length, ErrorKind::invalid_argument,
          "a saved sequence has {} tokens of {} rows", count, states.length);
    for (int64_t i = 0; i < count; ++i) {
      const auto token = static_cast<int64_t>(reader_.number("tokens"));
      check(token >= INT32_MIN && token <= INT32_MAX, ErrorKind::invalid_argument,
            "a saved sequence has token {}", token);
      states.tokens.push_back(token);
    }
  }

  void read_whole(SequenceStates& states) {
    const int64_t count = reader_.count("runs", states.length);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t before = i == 0 ? -1 : states.runs.back();
      states.runs.push_back(reader_.count("rows before a run", states.length - 1));
      check(states.runs.back() > before, ErrorKind::invalid_argument,
            "run {} of a saved sequence begins at {}, the one before at {}", i, states.runs.back(),
            before);
    }
    for (const SequenceState& state : layout_.states()) states.whole.push_back(tensor_of(state));
  }

  Tensor tensor_of(const SequenceState& state) {
    Dims dims;
    int64_t bytes = info(state.element).bits / 8;
    for (size_t axis = 0; axis < state.extents.size(); ++axis) {
      const bool grows =
          static_cast<int>(axis) == state.axis || (state.cross && state.extents[axis] == 0);
      const int64_t most = grows ? static_cast<int64_t>(reader_.left()) : state.extents[axis];
      dims.push_back(reader_.count("a state's extents", most));
      check(grows || dims.back() == state.extents[axis], ErrorKind::invalid_argument,
            "state '{}' of a saved sequence has extent {}, expected {}", escape(state.name),
            dims.back(), state.extents[axis]);
      check(dims.back() == 0 || bytes <= INT64_MAX / dims.back(), ErrorKind::invalid_argument,
            "state '{}' of a saved sequence has extent {} beside {} bytes", escape(state.name),
            dims.back(), bytes);
      bytes *= dims.back();
    }
    const uint64_t size = reader_.number("a state's size");
    check(size == 0 || size == static_cast<uint64_t>(bytes), ErrorKind::invalid_argument,
          "state '{}' of a saved sequence has {} bytes, expected {}", escape(state.name), size,
          bytes);
    const auto data = reader_.take(size, "states");
    if (size == 0 && bytes > 0) return {};
    Tensor tensor(state.element, std::move(dims));
    if (size > 0) std::memcpy(tensor.data(), data.data(), data.size());
    return tensor;
  }

  HeldPages prefix(HeldPages cache, int64_t length) const {
    const int64_t pages = (length + layout_.page_rows() - 1) / layout_.page_rows();
    cache.pages.resize(static_cast<size_t>(pages));
    return cache;
  }

  const CacheLayout& layout_;
  ByteReader& reader_;
  int64_t most_rows_;
  std::vector<int64_t> firsts_;
};

}  // namespace

std::vector<std::byte> save_sequence(const Sequence& sequence) {
  const CacheLayout& layout = sequence.layout();
  ByteWriter writer;
  for (const char c : kMagic) writer.bytes.push_back(static_cast<std::byte>(c));
  writer.number(kVersion);
  writer.number(layout.fingerprint());
  writer.number(sequence.checkpoints().size());
  write_states(layout, sequence.states(), false, writer);
  for (const SequenceStates& states : sequence.checkpoints()) {
    write_states(layout, states, true, writer);
  }
  writer.number(checksum(writer.bytes));
  return std::move(writer.bytes);
}

Sequence restore_sequence(std::shared_ptr<const CacheLayout> layout,
                          std::span<const std::byte> bytes, int64_t most_rows) {
  ByteReader reader(bytes);
  const auto magic = reader.take(kMagic.size(), "first bytes");
  check(std::memcmp(magic.data(), kMagic.data(), magic.size()) == 0, ErrorKind::invalid_argument,
        "{} bytes do not begin with '{}': they are no saved sequence", bytes.size(), kMagic);
  const uint64_t version = reader.number("version");
  check(version == kVersion, ErrorKind::invalid_argument,
        "a saved sequence has version {}, this Lathe reads version {}", version, kVersion);
  const uint64_t fingerprint = reader.number("fingerprint");
  check(fingerprint == layout->fingerprint(), ErrorKind::invalid_argument,
        "a saved sequence has states of fingerprint {:016x}, this model's have {:016x}: it was "
        "saved by another model",
        fingerprint, layout->fingerprint());
  check(reader.left() >= 8, ErrorKind::invalid_argument, "a saved sequence ends after {} bytes",
        bytes.size());
  const auto body = bytes.first(bytes.size() - 8);
  ByteReader last(bytes.last(8));
  check(last.number("checksum") == checksum(body), ErrorKind::invalid_argument,
        "a saved sequence of {} bytes is damaged: its checksum differs", bytes.size());
  ByteReader rest(body.last(reader.left() - 8));
  const int64_t count = rest.count("checkpoints", Sequence::kCheckpoints);
  Restoring restoring(*layout, rest, most_rows);
  SequenceStates states = restoring.read(nullptr);
  std::vector<SequenceStates> checkpoints;
  for (int64_t i = 0; i < count; ++i) {
    checkpoints.push_back(restoring.read(&states));
    const int64_t before = i == 0 ? 0 : checkpoints[static_cast<size_t>(i) - 1].length;
    check(checkpoints.back().length > before, ErrorKind::invalid_argument,
          "checkpoint {} of a saved sequence is at row {}, after one at {}", i,
          checkpoints.back().length, before);
  }
  check(rest.left() == 0, ErrorKind::invalid_argument,
        "a saved sequence has {} bytes more than its states", rest.left());
  return Sequence(std::move(layout), std::move(states), std::move(checkpoints));
}

}  // namespace lathe::llm
