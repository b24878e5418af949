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

// Keys or values of a tensor that holds both.
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
    check(found == nullptr, ErrorKind::invalid_argument, "state '{}' occurs twice",
          escape(state.name));
    found = &given.tensor;
  }
  check(found != nullptr, ErrorKind::invalid_argument, "none of {} tensors is the state '{}'",
        tensors.size(), escape(state.past));
  return state.part < 0 ? *found : half_of(*found, state);
}

// Positions that a sequence of `length` tokens requires.
int64_t needed_slots(const SequenceState& state, int64_t length) {
  return state.window == 0 ? length : std::min(length, state.window - 1);
}

// Axis of positions in the file's tensor.
size_t token_axis(const SequenceState& state) { return state.flat ? 1 : 2; }

Dims cache_dims(const SequenceState& state, int64_t slots) {
  if (state.flat) return {1, slots, state.extents[0] * state.extents[1]};
  return {1, state.extents[0], slots, state.extents[1]};
}

// A KV cache tensor of the file after `length` tokens, viewed as its last positions.
class FileCache {
 public:
  FileCache(const SequenceState& state, const Tensor& tensor, int64_t length)
      : slots_(tensor.view()), length_(length) {
    const int64_t there = tensor.dims()[token_axis(state)];
    const bool fixed = state.capacity > 0 && there == state.capacity;
    if (state.sliding) {
      kept_ = SlidingCache{there, state.window}.kept(length);
    } else {
      kept_ = fixed ? std::min(length, there) : there;
    }
    if (fixed && state.ring) ring_slots_ = there;
    if (!state.flat) return;
    slots_.rank = 4;
    const auto [outer, slot, element] =
        std::array{slots_.strides[0], slots_.strides[1], slots_.strides[2]};
    const int64_t size = state.extents[1];
    const std::array<int64_t, 4> dims = {1, state.extents[0], there, size};
    const std::array<int64_t, 4> strides = {outer, size * element, slot, element};
    std::ranges::copy(dims, slots_.dims.begin());
    std::ranges::copy(strides, slots_.strides.begin());
  }

  int64_t kept() const { return kept_; }
  // Calls `use` with each contiguous range from `begin` on: first position, slots [1, heads, count,
  // size].
  template <class Use>
  void for_each_range(int64_t begin, const Use& use) const {
    while (begin < length_) {
      const int64_t slot = ring_slots_ > 0 ? begin % ring_slots_ : begin - (length_ - kept_);
      const int64_t count =
          std::min(length_ - begin, ring_slots_ > 0 ? ring_slots_ - slot : length_);
      use(begin, narrow(slots_, 2, slot, count));
      begin += count;
    }
  }

 private:
  TensorView slots_;
  int64_t length_;
  int64_t kept_ = 0;
  int64_t ring_slots_ = 0;  // of a ring buffer; 0: none
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
    const int64_t kept = fits ? FileCache(state, tensor, length).kept() : 0;
    fits = fits && kept >= needed_slots(state, length) && kept <= length;
  }
  std::string other;
  if (state.sliding) other = fmt::format(" or at least {} positions", state.window);
  if (!state.sliding && state.window > 0) {
    other = fmt::format(" or its last {} positions", needed_slots(state, length));
  }
  check(fits, ErrorKind::invalid_argument, "state '{}' after {} tokens is {}, expected {}{}",
        escape(state.name), length, to_string(tensor.type(), tensor.dims()),
        to_string(state.element, expected), other);
}

// Tensor of a state in an unpaged layout.
Tensor tensor_of(const SequenceState& state, int64_t length, std::span<const StateTensor> tensors) {
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

Sequence import_tensors(std::shared_ptr<const CacheLayout> layout, int64_t length,
                        std::span<const StateTensor> tensors) {
  SequenceStates states;
  states.length = length;
  if (length > 0) states.runs.push_back(0);
  for (const SequenceState& state : layout->states()) {
    states.tensors.push_back(tensor_of(state, length, tensors));
  }
  return Sequence(std::move(layout), std::move(states), {});
}

}  // namespace

std::vector<StateTensor> export_states(const Sequence& sequence, int64_t slack) {
  check(slack >= 0, ErrorKind::invalid_argument, "the slack of windows is {}, expected at least 0",
        slack);
  const CacheLayout& layout = sequence.layout();
  std::vector<StateTensor> all;
  for (size_t i = 0; i < layout.states().size(); ++i) {
    const SequenceState& state = layout.states()[i];
    if (layout.unpaged() || state.cross) {
      const Tensor held =
          layout.unpaged() ? sequence.tensor(i) : load_cross(layout, sequence.states(), state);
      all.push_back({state.past, state.present,
                     held.data() == nullptr ? Tensor(state.element, state.extents) : held.clone()});
      continue;
    }
    const CacheLayout::Place& place = layout.place(state.name);
    StateTensor out{state.past, state.present, {}};
    if (state.grows) {
      const HeldPages& cache = sequence.states().caches[place.group];
      const int64_t length = sequence.length();
      int64_t slots = state.sliding ? state.window + slack : length;
      if (state.capacity > 0) slots = state.capacity;
      check(slots >= length || state.sliding || state.ring, ErrorKind::invalid_argument,
            "a sequence of {} tokens exceeds the file's KV cache '{}' of {}", length,
            escape(state.past), slots);
      out.tensor = Tensor(state.element, cache_dims(state, slots));
      const FileCache file(state, out.tensor, length);
      file.for_each_range(std::max(cache.first, length - file.kept()),
                          [&](int64_t begin, const TensorView& part) {
                            read_slots(layout, place, cache, begin, part);
                          });
    } else {
      out.tensor = Tensor(state.element, state.extents);
      const int32_t slot = sequence.fixed_slot();
      if (slot >= 0) {
        const PagePool::HostPage held(layout.fixed_pool(), place.fixed, slot,
                                      PagePool::HostPage::Access::read);
        copy_elements(layout.fixed_view(place.fixed, held.data()), out.tensor.view());
      }
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
        ErrorKind::invalid_argument, "got {} token ids for a sequence of {} tokens", tokens.size(),
        length);
  if (layout->unpaged()) return import_tensors(std::move(layout), length, tensors);
  SequenceStates states;
  std::vector<Tensor> cross;
  for (const SequenceState& state : layout->states()) {
    if (state.cross) {
      cross.push_back(tensor_of(state, length, tensors));
    } else {
      check_tensor(state, find_tensor(state, tensors), length);
    }
  }
  states.length = length;
  states.reach = length;
  states.tokens.assign(tokens.begin(), tokens.end());
  for (size_t group = 0; group < layout->groups().size(); ++group) {
    // Caches of a group hold the same positions: the fewest of the inputs.
    int64_t slots = length;
    const auto own = [&](const SequenceState& state) {
      return state.grows && layout->place(state.name).group == group;
    };
    for (const SequenceState& state : layout->states()) {
      if (!own(state)) continue;
      slots = std::min(slots, FileCache(state, find_tensor(state, tensors), length).kept());
    }
    if (layout->groups()[group].cross >= 0) {
      states.caches.emplace_back();
      continue;
    }
    CacheWriter writer(*layout, group, length - slots, length);
    for (const SequenceState& state : layout->states()) {
      if (!own(state) || slots == 0) continue;
      const Tensor given = find_tensor(state, tensors);
      const CacheLayout::Place& place = layout->place(state.name);
      FileCache(state, given, length)
          .for_each_range(length - slots, [&](int64_t begin, const TensorView& part) {
            writer.write(place, begin, part);
          });
    }
    states.caches.push_back(writer.take());
  }
  store_cross(*layout, cross, states);
  if (layout->fixed_states() > 0) states.fixed = layout->fixed_pool().take();
  for (size_t i = 0; i < layout->fixed_states(); ++i) {
    const PagePool::HostPage slot(layout->fixed_pool(), i, states.fixed.id(),
                                  PagePool::HostPage::Access::write);
    copy_elements(find_tensor(layout->fixed(i), tensors).view(),
                  layout->fixed_view(i, slot.data()));
  }
  return Sequence(std::move(layout), std::move(states), {});
}

}  // namespace lathe::llm
