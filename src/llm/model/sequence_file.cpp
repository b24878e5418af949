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

// Format, numbers of 64 bits, little-endian:
//   magic, version, fingerprint, checkpoints,
//   the states, then those of each checkpoint:
//     length, reach, tokens (count, ids), embeddings (count; of each: begin, hash, element type,
//     shape, bytes), position ids (count; of each run: begin, tokens, axes, values), per group the
//     first position held, per state its bytes (count, bytes),
//   checksum of all before it.
// A checkpoint omits caches without a window: it shares those of the states. An unpaged layout has
// the runs (count, starts), then per state shape and bytes.
namespace lathe::llm {
namespace {

constexpr std::string_view kSequenceMagic = "LATHESEQ";
constexpr uint64_t kSequenceVersion = 2;

Dims saved_dims(const SequenceState& state, int64_t slots) {
  return {1, state.extents[0], slots, state.extents[1]};
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
  for (size_t group = 0; group < states.caches.size(); ++group) {
    if (layout.groups()[group].cross >= 0) continue;
    writer.number(static_cast<uint64_t>(states.caches[group].first));
  }
  for (const SequenceState& state : layout.states()) {
    const CacheLayout::Place& place = layout.place(state.name);
    if (state.cross) {
      write_tensor(state, load_cross(layout, states, state), writer);
      continue;
    }
    if (!state.grows) {
      const PagePool::Ref& slot = states.fixed;
      const std::span<std::byte> room = writer.room(slot ? state_bytes(state) : 0);
      if (slot) {
        const PagePool::HostPage held(layout.fixed_pool(), place.fixed, slot.id(),
                                      PagePool::HostPage::Access::read);
        std::memcpy(room.data(), held.data(), room.size());
      }
      continue;
    }
    const HeldPages& cache = states.caches[place.group];
    const bool left_out = checkpoint && state.window == 0;
    const int64_t slots = left_out ? 0 : states.length - cache.first;
    const std::span<std::byte> room = writer.room(slots * state_bytes(state));
    if (slots == 0) continue;
    // `room` may be unaligned, but views require aligned memory: copy twice.
    const Tensor dense(state.element, saved_dims(state, slots));
    read_slots(layout, place, cache, cache.first, dense.view());
    std::memcpy(room.data(), dense.data(), room.size());
  }
}

void write_tensors(const CacheLayout& layout, const SequenceStates& states, ByteWriter& writer) {
  writer.number(states.runs.size());
  for (const int64_t run : states.runs) writer.number(static_cast<uint64_t>(run));
  for (size_t i = 0; i < states.tensors.size(); ++i) {
    write_tensor(layout.states()[i], states.tensors[i], writer);
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
  if (layout.unpaged()) {
    write_tensors(layout, states, writer);
  } else {
    write_paged(layout, states, checkpoint, writer);
  }
}

class Restoring {
 public:
  Restoring(const CacheLayout& layout, ByteReader& reader, int64_t max_tokens)
      : layout_(layout), reader_(reader), max_tokens_(max_tokens) {}

  // `base`: the states whose caches a checkpoint shares; null for the states.
  SequenceStates read(const SequenceStates* base) {
    SequenceStates states;
    states.length = reader_.count("tokens", base == nullptr ? max_tokens_ : base->length);
    states.reach = reader_.count("tokens at the last step", max_tokens_);
    read_tokens(states);
    states.embedded = read_embedded(reader_, states.length);
    states.positions = read_positions(reader_, states.length, max_tokens_);
    if (layout_.unpaged()) {
      read_tensors(states);
      return states;
    }
    std::vector<CacheWriter> writers;
    std::vector<Tensor> cross;
    for (size_t group = 0; group < layout_.groups().size(); ++group) {
      if (layout_.groups()[group].cross >= 0) {
        writers.emplace_back(layout_, group, 0, 0);
        firsts_.push_back(0);
        continue;
      }
      const int64_t window = layout_.groups()[group].window;
      const int64_t needed = window == 0 ? 0 : std::max<int64_t>(states.length - (window - 1), 0);
      const int64_t first = reader_.count("evicted positions", needed);
      const bool shared = base != nullptr && window == 0;
      check_size(group, shared ? states.length : first, states.length);
      writers.emplace_back(layout_, group, shared ? states.length : first, states.length);
      firsts_.push_back(first);
    }
    for (const SequenceState& state : layout_.states()) {
      const CacheLayout::Place& place = layout_.place(state.name);
      if (state.cross) {
        cross.push_back(tensor_of(state));
      } else if (!state.grows) {
        read_fixed(state, place, states);
      } else {
        const bool shared = base != nullptr && state.window == 0;
        const int64_t slots = shared ? 0 : states.length - firsts_[place.group];
        const auto data = data_of(state, slots * state_bytes(state));
        if (slots == 0) continue;
        const Tensor dense(state.element, saved_dims(state, slots));
        std::memcpy(dense.data(), data.data(), data.size());
        writers[place.group].write(place, dense.view());
      }
    }
    for (size_t group = 0; group < writers.size(); ++group) {
      const CacheLayout::Group& own = layout_.groups()[group];
      const bool shared = base != nullptr && own.window == 0 && own.cross < 0;
      states.caches.push_back(shared ? prefix(base->caches[group], states.length)
                                     : writers[group].take());
    }
    firsts_.clear();
    store_cross(layout_, cross, states);
    return states;
  }

 private:
  // Checks the size before it allocates pages.
  void check_size(size_t group, int64_t first, int64_t length) const {
    int64_t bytes = 0;
    for (const SequenceState& state : layout_.states()) {
      if (state.grows && layout_.place(state.name).group == group) bytes += state_bytes(state);
    }
    check(length - first <= static_cast<int64_t>(reader_.left()) / std::max<int64_t>(bytes, 1),
          ErrorKind::invalid_argument,
          "a saved sequence has positions {} to {} of {} bytes, but only {} bytes are left", first,
          length, bytes, reader_.left());
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
    const PagePool& pool = layout_.fixed_pool();
    if (!states.fixed) {
      states.fixed = layout_.fixed_pool().take();
      for (size_t i = 0; i < pool.caches(); ++i) {
        const PagePool::HostPage slot(pool, i, states.fixed.id(),
                                      PagePool::HostPage::Access::write);
        std::memset(slot.data(), 0, static_cast<size_t>(pool.page_bytes(i)));
      }
    }
    const PagePool::HostPage slot(pool, place.fixed, states.fixed.id(),
                                  PagePool::HostPage::Access::write);
    std::memcpy(slot.data(), data.data(), data.size());
  }

  void read_tokens(SequenceStates& states) {
    const int64_t count = reader_.count("tokens", states.length);
    check(count == 0 || count == states.length, ErrorKind::invalid_argument,
          "a saved sequence has the ids of {} of {} tokens", count, states.length);
    for (int64_t i = 0; i < count; ++i) {
      const auto token = static_cast<int64_t>(reader_.number("tokens"));
      check(token >= INT32_MIN && token <= INT32_MAX, ErrorKind::invalid_argument,
            "a saved sequence has token {}", token);
      states.tokens.push_back(token);
    }
  }

  void read_tensors(SequenceStates& states) {
    const int64_t count = reader_.count("runs", states.length);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t before = i == 0 ? -1 : states.runs.back();
      states.runs.push_back(reader_.count("tokens before a run", states.length - 1));
      check(states.runs.back() > before, ErrorKind::invalid_argument,
            "run {} of a saved sequence begins at {}, the one before at {}", i, states.runs.back(),
            before);
    }
    for (const SequenceState& state : layout_.states()) states.tensors.push_back(tensor_of(state));
  }

  Tensor tensor_of(const SequenceState& state) {
    Dims dims;
    int64_t bytes = info(state.element).bits / 8;
    for (size_t axis = 0; axis < state.extents.size(); ++axis) {
      const bool grows =
          static_cast<int>(axis) == state.axis || (state.cross && state.extents[axis] == 0);
      const int64_t most = grows ? static_cast<int64_t>(reader_.left()) : state.extents[axis];
      dims.push_back(reader_.count("state shape", most));
      check(grows || dims.back() == state.extents[axis], ErrorKind::invalid_argument,
            "state '{}' of a saved sequence has dimension {}, expected {}", escape(state.name),
            dims.back(), state.extents[axis]);
      check(dims.back() == 0 || bytes <= INT64_MAX / dims.back(), ErrorKind::invalid_argument,
            "state '{}' of a saved sequence has dimension {} after {} bytes", escape(state.name),
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
    const int64_t pages = (length + layout_.page_slots() - 1) / layout_.page_slots();
    cache.pages.resize(static_cast<size_t>(pages));
    return cache;
  }

  const CacheLayout& layout_;
  ByteReader& reader_;
  int64_t max_tokens_;
  std::vector<int64_t> firsts_;
};

}  // namespace

std::vector<std::byte> save_sequence(const Sequence& sequence) {
  const CacheLayout& layout = sequence.layout();
  ByteWriter writer;
  for (const char c : kSequenceMagic) writer.bytes.push_back(static_cast<std::byte>(c));
  writer.number(kSequenceVersion);
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
                          std::span<const std::byte> bytes, int64_t max_tokens) {
  ByteReader reader(bytes);
  const auto magic = reader.take(kSequenceMagic.size(), "first bytes");
  check(std::memcmp(magic.data(), kSequenceMagic.data(), magic.size()) == 0,
        ErrorKind::invalid_argument,
        "{} bytes do not begin with '{}': they are not a saved sequence", bytes.size(),
        kSequenceMagic);
  const uint64_t version = reader.number("version");
  check(version == kSequenceVersion, ErrorKind::invalid_argument,
        "a saved sequence has version {}, this Lathe reads version {}", version, kSequenceVersion);
  const uint64_t fingerprint = reader.number("fingerprint");
  check(fingerprint == layout->fingerprint(), ErrorKind::invalid_argument,
        "a saved sequence has fingerprint {:016x}, this model has {:016x}: another model saved it",
        fingerprint, layout->fingerprint());
  check(reader.left() >= 8, ErrorKind::invalid_argument, "a saved sequence ends after {} bytes",
        bytes.size());
  const auto body = bytes.first(bytes.size() - 8);
  ByteReader last(bytes.last(8));
  check(last.number("checksum") == checksum(body), ErrorKind::invalid_argument,
        "a saved sequence of {} bytes is damaged: its checksum differs", bytes.size());
  ByteReader rest(body.last(reader.left() - 8));
  const int64_t count = rest.count("checkpoints", Sequence::kCheckpoints);
  Restoring restoring(*layout, rest, max_tokens);
  SequenceStates states = restoring.read(nullptr);
  std::vector<SequenceStates> checkpoints;
  for (int64_t i = 0; i < count; ++i) {
    checkpoints.push_back(restoring.read(&states));
    const int64_t before = i == 0 ? 0 : checkpoints[static_cast<size_t>(i) - 1].length;
    check(checkpoints.back().length > before, ErrorKind::invalid_argument,
          "checkpoint {} of a saved sequence is at token {}, after one at {}", i,
          checkpoints.back().length, before);
  }
  check(rest.left() == 0, ErrorKind::invalid_argument,
        "a saved sequence has {} bytes more than its states", rest.left());
  return Sequence(std::move(layout), std::move(states), std::move(checkpoints));
}

}  // namespace lathe::llm
