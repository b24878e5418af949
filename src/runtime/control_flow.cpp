// SPDX-License-Identifier: MIT
#include "runtime/control_flow.h"

#include <cstring>
#include <limits>

namespace lathe {
namespace {

// Writes the results of a body directly to the results of its launch.
class ForwardingReceiver final : public Receiver {
 public:
  ForwardingReceiver(Frame& frame, const Launch& launch) : frame_(frame), launch_(launch) {}
  TensorView receive(int index, ElementType, std::span<const int64_t> dims) override {
    return frame_.result_memory(launch_.results[static_cast<size_t>(index)], dims);
  }
  void receive_box(int index, Box box) override {
    const SlotId id = launch_.results[static_cast<size_t>(index)];
    frame_.view(id) = box.is_tensor() ? box.tensor().view() : TensorView{};
    frame_.box(id) = std::move(box);
  }

 private:
  Frame& frame_;
  const Launch& launch_;
};

std::vector<Argument> arguments_from(Frame& frame, const Launch& launch, size_t first) {
  std::vector<Argument> arguments;
  for (size_t i = first; i < launch.operands.size(); ++i) {
    arguments.push_back(frame.argument(launch.operands[i]));
  }
  return arguments;
}

bool read_condition(Frame& frame, SlotId id) {
  const Argument condition = frame.argument(id);
  const TensorView view =
      condition.box != nullptr ? condition.box->tensor().view() : condition.view;
  check(view.count() == 1, ErrorKind::invalid_argument, "condition has {} elements, expected 1",
        view.count());
  return *view.as<bool>();
}

// A loop-carried value, double-buffered.
struct Carried {
  explicit Carried(Allocator& allocator)
      : memory{GrowingBuffer(allocator), GrowingBuffer(allocator)} {}
  std::array<GrowingBuffer, 2> memory;
  std::array<Box, 2> box;
  std::array<TensorView, 2> view;
  std::array<bool, 2> boxed{};
  int current = 0;
};

TensorView contiguous_view(ElementType type, std::span<const int64_t> dims, void* data) {
  TensorView view;
  view.type = type;
  view.rank = static_cast<int>(dims.size());
  view.data = data;
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  const Dims strides = Tensor::dense_strides(dims);
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  return view;
}

// Slices of a scan output of a loop, in a growing buffer.
struct Stacked {
  explicit Stacked(Allocator& allocator) : memory(allocator) {}
  GrowingBuffer memory;
  Dims slice;
  bool known = false;
  int64_t count = 0;
};

// A slice or condition of unknown rank arrives in a box.
void receive_tensor(Receiver& receiver, std::string_view op, int index, const Box& box) {
  check(box.is_tensor() && box.tensor().type() != ElementType::string, ErrorKind::unsupported,
        "{}: result {} of the body is not a tensor of numbers", op, index);
  const TensorView from = box.tensor().view();
  copy_elements(from, receiver.receive(index, from.type, from.extents()));
}

// Receives the results of one iteration of a loop: condition, carried values, slices.
class IterationReceiver final : public Receiver {
 public:
  IterationReceiver(bool* condition, std::vector<Carried>& carried, std::vector<Stacked>& stacked)
      : condition_(condition), carried_(carried), stacked_(stacked) {}

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    if (index == 0) return contiguous_view(type, dims, condition_);
    const auto at = static_cast<size_t>(index - 1);
    const int64_t bytes = bytes_for(type, element_count(dims));
    if (at < carried_.size()) {
      Carried& carried = carried_[at];
      const auto next = static_cast<size_t>(1 - carried.current);
      carried.boxed[next] = false;
      carried.view[next] = contiguous_view(type, dims, carried.memory[next].reserve(bytes));
      return carried.view[next];
    }
    Stacked& stacked = stacked_[at - carried_.size()];
    check(!stacked.known ||
              std::equal(dims.begin(), dims.end(), stacked.slice.begin(), stacked.slice.end()),
          ErrorKind::invalid_argument,
          "loop: scan output has a slice of shape [{}], expected [{}] as before",
          fmt::join(dims, ", "), fmt::join(stacked.slice, ", "));
    check(!is_packed(type), ErrorKind::unsupported, "loop: scan outputs of {} are not supported",
          to_string(type));
    stacked.slice.assign(dims.begin(), dims.end());
    stacked.known = true;
    void* memory = stacked.memory.extend(bytes * (stacked.count + 1), bytes * stacked.count);
    return contiguous_view(type, dims, static_cast<char*>(memory) + bytes * stacked.count);
  }

  void receive_box(int index, Box box) override {
    const auto at = static_cast<size_t>(index - 1);
    if (index == 0 || at >= carried_.size()) return receive_tensor(*this, "loop", index, box);
    Carried& carried = carried_[at];
    const auto next = static_cast<size_t>(1 - carried.current);
    carried.boxed[next] = true;
    carried.box[next] = std::move(box);
  }

 private:
  bool* condition_;
  std::vector<Carried>& carried_;
  std::vector<Stacked>& stacked_;
};

// Assigns a value to a result of the launch; copies tensors.
void deliver(Frame& frame, SlotId id, const Argument& value) {
  if (frame.slot(id).kind == SlotKind::box && value.box != nullptr) {
    frame.box(id) = *value.box;
    frame.view(id) = value.box->is_tensor() ? value.box->tensor().view() : TensorView{};
    return;
  }
  const TensorView from = value.box != nullptr ? value.box->tensor().view() : value.view;
  copy_elements(from, frame.result_memory(id, from.extents()));
}

Argument argument_of(const Carried& carried) {
  const auto at = static_cast<size_t>(carried.current);
  return carried.boxed[at] ? Argument{{}, &carried.box[at]} : Argument{carried.view[at], nullptr};
}

int64_t attribute(const Launch& launch, std::string_view name) {
  return std::get<int64_t>(*find_attribute(launch.instruction->attributes(), name));
}

int64_t entry(const Launch& launch, std::string_view name, size_t i) {
  const auto& list = std::get<Integers>(*find_attribute(launch.instruction->attributes(), name));
  return list.empty() ? 0 : list[i];
}

// A view of slice `position` along an axis, without that axis.
TensorView slice_of(const TensorView& whole, int axis, int64_t position) {
  TensorView slice = whole;
  slice.rank = whole.rank - 1;
  for (int i = axis; i < slice.rank; ++i) {
    slice.dims[static_cast<size_t>(i)] = whole.dims[static_cast<size_t>(i) + 1];
    slice.strides[static_cast<size_t>(i)] = whole.strides[static_cast<size_t>(i) + 1];
  }
  const int64_t bytes = whole.type == ElementType::string
                            ? static_cast<int64_t>(sizeof(std::string))
                            : info(whole.type).bits / 8;
  slice.data =
      static_cast<char*>(whole.data) + position * whole.strides[static_cast<size_t>(axis)] * bytes;
  return slice;
}

// Receives the results of one step of a scan: carried values, then slices, written in place.
class ScanReceiver final : public Receiver {
 public:
  ScanReceiver(Frame& frame, const Launch& launch, std::vector<Carried>& carried, int64_t trips)
      : frame_(frame), launch_(launch), carried_(carried), trips_(trips) {}
  int64_t step = 0;

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(index);
    if (at < carried_.size()) {
      Carried& carried = carried_[at];
      const auto next = static_cast<size_t>(1 - carried.current);
      carried.boxed[next] = false;
      carried.view[next] = contiguous_view(
          type, dims, carried.memory[next].reserve(bytes_for(type, element_count(dims))));
      return carried.view[next];
    }
    check(!is_packed(type), ErrorKind::unsupported, "scan: outputs of {} are not supported",
          to_string(type));
    const SlotId id = launch_.results[at];
    const size_t output = at - carried_.size();
    int64_t axis = entry(launch_, "output_axes", output);
    if (axis < 0) axis += static_cast<int64_t>(dims.size()) + 1;
    Dims whole(dims.begin(), dims.end());
    whole.insert(whole.begin() + axis, trips_);
    if (step == 0) frame_.result_memory(id, whole);
    const bool backward = entry(launch_, "output_directions", output) == 1;
    const TensorView slice =
        slice_of(frame_.view(id), static_cast<int>(axis), backward ? trips_ - 1 - step : step);
    check(std::equal(dims.begin(), dims.end(), slice.extents().begin(), slice.extents().end()),
          ErrorKind::invalid_argument, "scan: slice has shape [{}], expected [{}] as before",
          fmt::join(dims, ", "), fmt::join(slice.extents(), ", "));
    return slice;
  }
  void receive_box(int index, Box box) override {
    const auto at = static_cast<size_t>(index);
    if (at >= carried_.size()) return receive_tensor(*this, "scan", index, box);
    Carried& carried = carried_[at];
    const auto next = static_cast<size_t>(1 - carried.current);
    carried.boxed[next] = true;
    carried.box[next] = std::move(box);
  }

 private:
  Frame& frame_;
  const Launch& launch_;
  std::vector<Carried>& carried_;
  int64_t trips_;
};

}  // namespace

void run_if(Frame& frame, const Launch& launch) {
  const bool condition = read_condition(frame, launch.operands[0]);
  ForwardingReceiver receiver(frame, launch);
  frame.child(launch, condition ? 0 : 1).run(arguments_from(frame, launch, 1), receiver);
}

void run_loop(Frame& frame, const Launch& launch) {
  RunContext& run_context = frame.run_context();
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (launch.operands[0] >= 0) {
    const Argument trips = frame.argument(launch.operands[0]);
    limit = *(trips.box != nullptr ? trips.box->tensor().as<int64_t>() : trips.view.as<int64_t>());
  }
  bool condition = launch.operands[1] < 0 || read_condition(frame, launch.operands[1]);
  const auto count = static_cast<size_t>(attribute(launch, "carried"));
  std::vector<Carried> carried;
  for (size_t i = 0; i < count; ++i) carried.emplace_back(run_context.scratch);
  std::vector<Stacked> stacked;
  for (size_t i = count; i < launch.results.size(); ++i) stacked.emplace_back(run_context.scratch);

  int64_t iteration = 0;
  std::vector<Argument> arguments;
  arguments.push_back({contiguous_view(ElementType::i64, {}, &iteration), nullptr});
  arguments.push_back({contiguous_view(ElementType::boolean, {}, &condition), nullptr});
  for (size_t i = 2; i < launch.operands.size(); ++i) {
    arguments.push_back(frame.argument(launch.operands[i]));
  }
  Frame& body = frame.child(launch, 0);
  bool next_condition = true;
  IterationReceiver receiver(&next_condition, carried, stacked);
  while (iteration < limit && condition) {
    body.run(arguments, receiver);
    for (size_t i = 0; i < count; ++i) {
      carried[i].current = 1 - carried[i].current;
      arguments[2 + i] = argument_of(carried[i]);
    }
    for (Stacked& output : stacked) ++output.count;
    condition = next_condition;
    ++iteration;
    run_context.check_cancelled();
  }
  for (size_t i = 0; i < count; ++i) deliver(frame, launch.results[i], arguments[2 + i]);
  for (size_t i = 0; i < stacked.size(); ++i) {
    Stacked& output = stacked[i];
    const SlotId id = launch.results[count + i];
    Dims dims{output.count};
    if (output.known) {
      dims.insert(dims.end(), output.slice.begin(), output.slice.end());
    } else {
      // No iteration: unknown sizes are zero.
      const Type& type = frame.slot(id).value->type();
      for (size_t axis = 1; type.is_ranked() && axis < type.dims->size(); ++axis) {
        dims.push_back(frame.known_extent(id, axis).value_or(0));
      }
    }
    deliver(frame, id, {contiguous_view(frame.slot(id).type, dims, output.memory.data()), nullptr});
  }
}

void run_scan(Frame& frame, const Launch& launch) {
  RunContext& run_context = frame.run_context();
  const auto count = static_cast<size_t>(attribute(launch, "carried"));
  const auto scanned = static_cast<size_t>(attribute(launch, "scanned"));
  std::vector<Argument> arguments = arguments_from(frame, launch, 0);
  std::vector<TensorView> inputs;
  std::vector<int> axes;
  for (size_t i = 0; i < scanned; ++i) {
    const Argument& input = arguments[count + i];
    inputs.push_back(input.box != nullptr ? input.box->tensor().view() : input.view);
    const int64_t axis = entry(launch, "input_axes", i);
    axes.push_back(static_cast<int>(axis < 0 ? axis + inputs.back().rank : axis));
    check(!is_packed(inputs.back().type), ErrorKind::unsupported,
          "scan: inputs of {} are not supported", to_string(inputs.back().type));
  }
  const int64_t trips = inputs[0].dims[static_cast<size_t>(axes[0])];
  std::vector<Carried> carried;
  for (size_t i = 0; i < count; ++i) carried.emplace_back(run_context.scratch);
  Frame& body = frame.child(launch, 0);
  ScanReceiver receiver(frame, launch, carried, trips);
  for (int64_t step = 0; step < trips; ++step) {
    for (size_t i = 0; i < scanned; ++i) {
      const bool backward = entry(launch, "input_directions", i) == 1;
      arguments[count + i] = {slice_of(inputs[i], axes[i], backward ? trips - 1 - step : step),
                              nullptr};
    }
    receiver.step = step;
    body.run(arguments, receiver);
    for (size_t i = 0; i < count; ++i) {
      carried[i].current = 1 - carried[i].current;
      arguments[i] = argument_of(carried[i]);
    }
    run_context.check_cancelled();
  }
  for (size_t i = 0; i < count; ++i) deliver(frame, launch.results[i], arguments[i]);
  for (size_t i = count; trips == 0 && i < launch.results.size(); ++i) {
    const SlotId id = launch.results[i];
    Dims dims;
    const Type& type = frame.slot(id).value->type();
    if (!type.is_ranked()) dims.push_back(0);
    for (size_t axis = 0; type.is_ranked() && axis < type.dims->size(); ++axis) {
      dims.push_back(frame.known_extent(id, axis).value_or(0));
    }
    frame.result_memory(id, dims);
  }
}

}  // namespace lathe
