// SPDX-License-Identifier: MIT
#include "llm/model/sequence_tensors.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "llm/model/cache_slots.h"
#include "ops/support/kv_cache.h"
#include "ops/support/views.h"

namespace lathe::llm {
namespace {

// A half of a tensor of keys and values.
Tensor half_of(const Tensor& both, const SequenceState& state) {
  check(both.rank() == 5 && both.dims()[0] == 2, ErrorKind::invalid_argument,
        "state '{}' is {}, expected keys and values", escape(state.past),
        to_string(both.type(), both.dims()));
  auto* data = static_cast<std::byte*>(both.data()) +
               state.part * both.strides()[0] * info(both.type()).bits / 8;
  return Tensor(both.type(), {both.dims().begin() + 1, both.dims().end()},
                {both.strides().begin() + 1, both.strides().end()}, data, both.owner());
}

Tensor joined(const Tensor& keys, const Tensor& values) {
  Dims dims = keys.dims();
  dims.insert(dims.begin(), 2);
  Tensor both(keys.type(), dims);
  SequenceState half;
  for (half.part = 0; half.part < 2; ++half.part) {
    copy_elements((half.part == 0 ? keys : values).view(), half_of(both, half).view());
  }
  return both;
}

Tensor find_tensor(const SequenceState& state, std::span<const StateTensor> tensors) {
  const Tensor* found = nullptr;
  for (const StateTensor& given : tensors) {
    if (given.past != state.past && given.present != state.present) continue;
    check(found == nullptr, ErrorKind::invalid_argument, "state '{}' is given twice",
          escape(state.name));
    found = &given.tensor;
  }
  check(found != nullptr, ErrorKind::invalid_argument, "none of {} tensors is the state '{}'",
        tensors.size(), escape(state.past));
  return state.part < 0 ? *found : half_of(*found, state);
}

// Rows that a sequence of `length` must come with.
int64_t needed_rows(const SequenceState& state, int64_t length) {
  return state.window == 0 ? length : std::min(length, state.window - 1);
}

// Which axis of the file's tensor has a row for each position.
size_t token_axis(const SequenceState& state) { return state.flat ? 1 : 2; }

Dims cache_dims(const SequenceState& state, int64_t rows) {
  if (state.flat) return {1, rows, state.extents[0] * state.extents[1]};
  return {1, state.extents[0], rows, state.extents[1]};
}

// A cache's tensor after `length` rows: the last of them, where the file keeps them.
class FileCache {
 public:
  FileCache(const SequenceState& state, const Tensor& tensor, int64_t length)
      : rows_(tensor.view()), length_(length) {
    const int64_t there = tensor.dims()[token_axis(state)];
    const bool fixed = state.capacity > 0 && there == state.capacity;
    if (state.sliding) {
      kept_ = SlidingCache{there, state.window}.kept(length);
    } else {
      kept_ = fixed ? std::min(length, there) : there;
    }
    if (fixed && state.ring) turn_ = there;
    if (!state.flat) return;
    rows_.rank = 4;
    const auto [outer, row, element] =
        std::array{rows_.strides[0], rows_.strides[1], rows_.strides[2]};
    const int64_t size = state.extents[1];
    const std::array<int64_t, 4> dims = {1, state.extents[0], there, size};
    const std::array<int64_t, 4> strides = {outer, size * element, row, element};
    std::ranges::copy(dims, rows_.dims.begin());
    std::ranges::copy(strides, rows_.strides.begin());
  }

  int64_t kept() const { return kept_; }
  // Calls back with positions and their rows [1, heads, count, size], from `begin` to the last.
  template <class Use>
  void for_each_stretch(int64_t begin, const Use& use) const {
    while (begin < length_) {
      const int64_t slot = turn_ > 0 ? begin % turn_ : begin - (length_ - kept_);
      const int64_t count = std::min(length_ - begin, turn_ > 0 ? turn_ - slot : length_);
      use(begin, narrow(rows_, 2, slot, count));
      begin += count;
    }
  }

 private:
  TensorView rows_;
  int64_t length_;
  int64_t kept_ = 0;
  int64_t turn_ = 0;  // rows of a ring
};

void check_tensor(const SequenceState& state, const Tensor& tensor, int64_t length) {
  Dims expected = state.extents;
  if (state.grows) expected = cache_dims(state, state.capacity > 0 ? state.capacity : length);
  bool fits = tensor.type() == state.element && tensor.rank() == std::ssize(expected);
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) {
    fits = tensor.dims()[axis] == expected[axis] || (state.grows && axis == token_axis(state));
  }
  if (fits && state.grows) {
    fits = !state.sliding || tensor.dims()[2] >= state.window;
    const int64_t rows = fits ? FileCache(state, tensor, length).kept() : 0;
    fits = fits && rows >= needed_rows(state, length) && rows <= length;
  }
  std::string other;
  if (state.sliding) other = fmt::format(" or at least {} rows", state.window);
  if (!state.sliding && state.window > 0) {
    other = fmt::format(" or its last {} rows", needed_rows(state, length));
  }
  check(fits, ErrorKind::invalid_argument, "state '{}' after {} rows is {}, expected {}{}",
        escape(state.name), length, to_string(tensor.type(), tensor.dims()),
        to_string(state.element, expected), other);
}

// A state that is one tensor.
Tensor whole_tensor(const SequenceState& state, int64_t length,
                    std::span<const StateTensor> tensors) {
  const Tensor given = find_tensor(state, tensors);
  Dims expected = state.extents;
  if (state.axis >= 0) expected[static_cast<size_t>(state.axis)] = length;
  for (size_t axis = 0; state.cross && axis < expected.size() && given.rank() > 0; ++axis) {
    const size_t last = std::min(axis, given.dims().size() - 1);
    if (expected[axis] == 0) expected[axis] = given.dims()[last];
  }
  check(given.type() == state.element && given.dims() == expected, ErrorKind::invalid_argument,
        "state '{}' is {}, expected {}", escape(state.name), to_string(given.type(), given.dims()),
        to_string(state.element, expected));
  return given.clone();
}

Sequence import_whole(std::shared_ptr<const CacheLayout> layout, int64_t length,
                      std::span<const StateTensor> tensors) {
  SequenceStates states;
  states.length = length;
  if (length > 0) states.runs.push_back(0);
  for (const SequenceState& state : layout->states()) {
    states.whole.push_back(whole_tensor(state, length, tensors));
  }
  return Sequence(std::move(layout), std::move(states), {});
}

}  // namespace

std::vector<StateTensor> export_states(const Sequence& sequence, int64_t slack) {
  check(slack >= 0, ErrorKind::invalid_argument, "windows with a slack of {} rows", slack);
  const CacheLayout& layout = sequence.layout();
  std::vector<StateTensor> all;
  for (size_t i = 0; i < layout.states().size(); ++i) {
    const SequenceState& state = layout.states()[i];
    if (layout.whole() || state.cross) {
      const Tensor& held = sequence.whole(i);
      all.push_back({state.past, state.present,
                     held.data() == nullptr ? Tensor(state.element, state.extents) : held.clone()});
      continue;
    }
    const CacheLayout::Place& place = layout.place(state.name);
    StateTensor out{state.past, state.present, {}};
    if (state.grows) {
      const HeldPages& cache = sequence.states().caches[place.group];
      const int64_t length = sequence.length();
      int64_t all_rows = state.sliding ? state.window + slack : length;
      if (state.capacity > 0) all_rows = state.capacity;
      check(all_rows >= length || state.sliding || state.ring, ErrorKind::invalid_argument,
            "a sequence of {} rows is longer than the file's cache '{}' of {}", length,
            escape(state.past), all_rows);
      out.tensor = Tensor(state.element, cache_dims(state, all_rows));
      const FileCache file(state, out.tensor, length);
      file.for_each_stretch(std::max(cache.first, length - file.kept()),
                            [&](int64_t begin, const TensorView& rows) {
                              read_rows(layout, place, cache, begin, rows);
                            });
    } else {
      out.tensor = Tensor(state.element, state.extents);
      const TensorView current = sequence.fixed(place.fixed);
      if (current.data != nullptr) copy_elements(current, out.tensor.view());
    }
    if (state.part == 1) {
      all.back().tensor = joined(all.back().tensor, out.tensor);
    } else {
      all.push_back(std::move(out));
    }
  }
  return all;
}

Sequence import_states(std::shared_ptr<const CacheLayout> layout, int64_t length,
                       std::span<const StateTensor> tensors, std::span<const int64_t> tokens) {
  check(length >= 0 && (tokens.empty() || std::ssize(tokens) == length),
        ErrorKind::invalid_argument, "a sequence of {} rows and {} tokens", length, tokens.size());
  if (layout->whole()) return import_whole(std::move(layout), length, tensors);
  SequenceStates states;
  if (layout->holds_tensors()) states.whole.resize(layout->states().size());
  for (size_t i = 0; i < layout->states().size(); ++i) {
    const SequenceState& state = layout->states()[i];
    if (state.cross) {
      states.whole[i] = whole_tensor(state, length, tensors);
    } else {
      check_tensor(state, find_tensor(state, tensors), length);
    }
  }
  states.length = length;
  states.reach = length;
  states.tokens.assign(tokens.begin(), tokens.end());
  for (size_t group = 0; group < layout->groups().size(); ++group) {
    // Caches of a group hold the same rows: the fewest that are given.
    int64_t rows = length;
    const auto own = [&](const SequenceState& state) {
      return state.grows && layout->place(state.name).group == group;
    };
    for (const SequenceState& state : layout->states()) {
      if (!own(state)) continue;
      rows = std::min(rows, FileCache(state, find_tensor(state, tensors), length).kept());
    }
    CacheWriter writer(*layout, group, length - rows, length);
    for (const SequenceState& state : layout->states()) {
      if (!own(state) || rows == 0) continue;
      const Tensor given = find_tensor(state, tensors);
      const CacheLayout::Place& place = layout->place(state.name);
      FileCache(state, given, length)
          .for_each_stretch(length - rows, [&](int64_t begin, const TensorView& part) {
            writer.write(place, begin, part);
          });
    }
    states.caches.push_back(writer.take());
  }
  states.fixed.resize(layout->fixed_states());
  for (size_t i = 0; i < states.fixed.size(); ++i) {
    const SequenceState& state = layout->fixed(i);
    states.fixed[i] = layout->fixed_pool(i).take();
    copy_elements(find_tensor(state, tensors).view(),
                  dense_view(state.element, state.extents, states.fixed[i].data()));
  }
  return Sequence(std::move(layout), std::move(states), {});
}

}  // namespace lathe::llm
