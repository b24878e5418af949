// SPDX-License-Identifier: MIT
#include "ort_plugin/group.h"

#include <algorithm>
#include <cstring>

#include "base/os_memory.h"
#include "ort_plugin/aliasing.h"
#include "ort_plugin/graph_reader.h"
#include "plan/device_copies.h"
#include "runtime/profiler.h"

namespace lathe::ort_plugin {
namespace {

SessionOptions session_options(const GroupOptions& options) {
  SessionOptions out;
  out.memory_limit = options.memory_limit;
  out.pool = &options.environment->pool();
  return out;
}

// Hosts return such memory to the system and get it back untouched: logits of a prompt come as
// thousands of small pages, which take a tenth of a run.
constexpr int64_t kLargeResult = 2 * static_cast<int64_t>(kLargePage);

// Memory of an input.
struct Region {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  int input = 0;
  uintptr_t furthest = 0;  // end of those that begin no later
};

Region region_of(const void* data, int64_t bytes, int input) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + static_cast<uintptr_t>(bytes), input};
}

// Sorts regions by their begin, so that those of one output are found by their address.
void sort_regions(std::vector<Region>& regions) {
  if (!std::ranges::is_sorted(regions, {}, &Region::begin)) {
    std::ranges::sort(regions, {}, &Region::begin);
  }
  uintptr_t furthest = 0;
  for (Region& region : regions) {
    furthest = std::max(furthest, region.end);
    region.furthest = furthest;
  }
}

// A result computed apart from the host's memory, which holds an input too or which the writer does
// not reach.
struct Private {
  Tensor tensor;
  void* target = nullptr;
  bool on_device = false;  // one of them
};

// Kernels and libraries of a device expect it of all memory.
bool is_aligned(const void* data) {
  constexpr uintptr_t kAlignment = 256;
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
}

}  // namespace

// Kept by its thread, so that a run allocates nothing.
struct Group::Scratch {
  std::vector<Argument> arguments;
  std::vector<Box> boxes;
  std::vector<Region> regions;
  std::vector<Private> privates;
  std::vector<Tensor> copies;  // of inputs that the host reads
};

// The host's memory for results.
class Group::Results final : public Receiver {
 public:
  Results(Group& group, OrtKernelContext& context, Scratch& scratch)
      : group_(group), host_(group.host_), context_(context), scratch_(scratch) {}

  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    TensorView view;
    view.type = type;
    view.rank = static_cast<int>(dims.size());
    int64_t count = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
      view.dims[axis] = dims[axis];
      view.strides[axis] = count;
      count *= dims[axis];
    }
    OrtValue* value = allocate(index, dims);
    host_.check(host_->GetTensorMutableData(value, &view.data));
    const int64_t bytes = bytes_for(type, count);
    const bool there = group_.lies_there(*value);
    const auto at = static_cast<size_t>(index);
    const bool makes = group_.makes_[at];
    const bool in_place = there ? group_.writes_[at] && (!makes || is_aligned(view.data)) : !makes;
    if (bytes > 0 && (!in_place || overlaps(index, view, bytes))) {
      Private& made = scratch_.privates.emplace_back();
      made.target = view.data;
      made.on_device = there || makes;
      Dims extents(dims.begin(), dims.end());
      made.tensor = makes || (there && in_place)
                        ? make_tensor(*group_.options_.memory, type, std::move(extents))
                        : Tensor(type, std::move(extents), group_.session_.budget());
      view.data = made.tensor.data();
    } else if (bytes >= kLargeResult && !there && !is_updated(index, view)) {
      prefer_large_pages(view.data, static_cast<size_t>(bytes));
    }
    return view;
  }

  void receive_box(int index, Box box) override {
    check(box.is_tensor(), ErrorKind::unsupported,
          "output '{}' is not a tensor: values of other kinds cannot leave a group of nodes",
          escape(group_.plan().program->main().result_names()[static_cast<size_t>(index)]));
    const Tensor& tensor = box.tensor();
    if (tensor.type() != ElementType::string) {
      copied_ += tensor.byte_size();
      copy_elements(tensor.view(), receive(index, tensor.type(), tensor.dims()));
      return;
    }
    OrtValue* value = allocate(index, tensor.dims());
    const Tensor dense = tensor.dense();
    for (size_t i = 0; i < static_cast<size_t>(dense.count()); ++i) {
      const std::string& text = dense.as<std::string>()[i];
      char* to = nullptr;
      host_.check(host_->GetResizedStringTensorElementBuffer(value, i, text.size(), &to));
      if (!text.empty()) std::memcpy(to, text.data(), text.size());
    }
  }

  // After a successful run. Returns the bytes copied.
  int64_t finish() {
    std::unique_ptr<Stream> stream;
    for (const Private& made : scratch_.privates) {
      const auto bytes = static_cast<size_t>(made.tensor.byte_size());
      copied_ += made.tensor.byte_size();
      if (!made.on_device) {
        std::memcpy(made.target, made.tensor.data(), bytes);
        continue;
      }
      if (stream == nullptr) stream = group_.begin_copies();
      stream->copy(made.target, made.tensor.data(), bytes);
    }
    group_.finish_copies(std::move(stream));
    return copied_;
  }

 private:
  OrtValue* allocate(int index, std::span<const int64_t> dims) {
    OrtValue* value = nullptr;
    host_.check(host_->KernelContext_GetOutput(
        &context_, group_.outputs_[static_cast<size_t>(index)], dims.data(), dims.size(), &value));
    if (value == nullptr) {
      fail(ErrorKind::internal, "ONNX Runtime has no value for output {} of '{}'", index,
           escape(group_.name_));
    }
    return value;
  }

  // True if the result is an input's memory, in which a kernel writes a few rows.
  bool is_updated(int index, const TensorView& view) const {
    const int replaced = group_.replaced_[static_cast<size_t>(index)];
    return replaced >= 0 &&
           scratch_.arguments[static_cast<size_t>(replaced)].view.data == view.data;
  }

  // True if the memory holds an input that the result may not replace.
  bool overlaps(int index, const TensorView& view, int64_t bytes) const {
    const Region out = region_of(view.data, bytes, -1);
    const int replaced = group_.replaced_[static_cast<size_t>(index)];
    auto in = std::ranges::lower_bound(scratch_.regions, out.end, {}, &Region::begin);
    while (in != scratch_.regions.begin()) {
      --in;
      if (in->furthest <= out.begin) break;
      if (in->end <= out.begin) continue;
      const TensorView& input = scratch_.arguments[static_cast<size_t>(in->input)].view;
      const bool in_place = in->input == replaced && in->begin == out.begin &&
                            std::ranges::equal(input.extents(), view.extents());
      if (!in_place) return true;
    }
    return false;
  }

  Group& group_;
  const Host& host_;
  OrtKernelContext& context_;
  Scratch& scratch_;
  int64_t copied_ = 0;
};

Group::Group(const Host& host, std::string name, const std::shared_ptr<const Plan>& plan,
             std::vector<size_t> inputs, std::vector<size_t> outputs, GroupOptions options)
    : host_(host),
      name_(std::move(name)),
      options_(std::move(options)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      replaced_(replaced_inputs(*plan)),
      session_(plan, session_options(options_)) {
  const Module& main = plan->program->main();
  const bool there = options_.memory != nullptr && plan->device == options_.memory;
  const auto lies_on_device = [&](SlotId slot) {
    return there && plan->modules.front().slots[static_cast<size_t>(slot)].space == Space::device;
  };
  for (size_t i = 0; i < main.parameters().size(); ++i) {
    boxed_.push_back(main.parameters()[i]->type().is_boxed());
    reads_.push_back(there && reads_on_device(*plan, i));
    needs_.push_back(lies_on_device(plan->modules.front().inputs[i]));
  }
  for (size_t i = 0; i < main.results().size(); ++i) {
    writes_.push_back(there && writes_on_device(*plan, i));
    makes_.push_back(lies_on_device(plan->modules.front().results[i]));
  }
}

std::unique_ptr<Stream> Group::begin_copies() {
  std::unique_ptr<Stream> stream = streams_.acquire();
  return stream != nullptr ? std::move(stream) : options_.memory->make_stream();
}

void Group::finish_copies(std::unique_ptr<Stream> stream) {
  if (stream == nullptr) return;
  stream->synchronize();
  streams_.release(std::move(stream));
}

void Group::read_boxed(const OrtValue& value, Argument& argument, Box& box) const {
  if (argument.view.type != ElementType::string) {
    const auto dims = argument.view.extents();
    Dims extents(dims.begin(), dims.end());
    Dims strides = Tensor::dense_strides(extents);
    box = Box{Tensor(argument.view.type, std::move(extents), std::move(strides), argument.view.data,
                     nullptr)};
  } else {
    const auto dims = argument.view.extents();
    Tensor texts(ElementType::string, Dims(dims.begin(), dims.end()));
    for (size_t i = 0; i < static_cast<size_t>(texts.count()); ++i) {
      size_t size = 0;
      host_.check(host_->GetStringTensorElementLength(&value, i, &size));
      std::string& text = texts.as<std::string>()[i];
      text.resize(size);
      host_.check(host_->GetStringTensorElement(&value, size, i, text.data()));
    }
    box = Box{std::move(texts)};
  }
  argument.box = &box;
}

void Group::read_inputs(OrtKernelContext& context, Scratch& scratch) {
  std::unique_ptr<Stream> stream;
  const auto& parameters = plan().program->main().parameters();
  scratch.arguments.resize(inputs_.size());
  scratch.boxes.resize(inputs_.size());
  scratch.regions.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const OrtValue* value = nullptr;
    host_.check(host_->KernelContext_GetInput(&context, inputs_[i], &value));
    if (value == nullptr) {
      fail(ErrorKind::invalid_argument, "input '{}' of '{}' has no value",
           escape(parameters[i]->name()), escape(name_));
    }
    Argument& argument = scratch.arguments[i];
    TensorView& view = argument.view;
    argument.box = nullptr;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    host_.check(host_->GetTensorTypeAndShape(value, &info));
    size_t rank = 0;
    OrtStatus* status = host_->GetDimensionsCount(info, &rank);
    if (status == nullptr && rank <= kMaxRank) {
      status = host_->GetDimensions(info, view.dims.data(), rank);
    }
    host_->ReleaseTensorTypeAndShapeInfo(info);
    host_.check(status);
    if (rank > kMaxRank) {
      fail(ErrorKind::unsupported, "input '{}' has rank {}, expected at most {}",
           escape(parameters[i]->name()), rank, kMaxRank);
    }
    view.rank = static_cast<int>(rank);
    view.type = parameters[i]->type().element;
    int64_t count = 1;
    for (size_t axis = rank; axis-- > 0;) {
      view.strides[axis] = count;
      count *= view.dims[axis];
    }
    if (view.type == ElementType::string) {
      read_boxed(*value, argument, scratch.boxes[i]);
      continue;
    }
    const void* data = nullptr;
    host_.check(host_->GetTensorData(value, &data));
    view.data = const_cast<void*>(data);
    const bool there = lies_there(*value);
    if (needs_[i] ? !there || !is_aligned(data) : there && !reads_[i]) {
      Dims extents(view.extents().begin(), view.extents().end());
      const Tensor& copy = scratch.copies.emplace_back(
          needs_[i] ? make_tensor(*options_.memory, view.type, std::move(extents))
                    : Tensor(view.type, std::move(extents), session_.budget()));
      if (stream == nullptr) stream = begin_copies();
      stream->copy(copy.data(), data, static_cast<size_t>(copy.byte_size()));
      view.data = copy.data();
      if (boxed_[i]) read_boxed(*value, argument, scratch.boxes[i]);
      continue;
    }
    scratch.regions.push_back(region_of(data, bytes_for(view.type, count), static_cast<int>(i)));
    if (boxed_[i]) read_boxed(*value, argument, scratch.boxes[i]);
  }
  finish_copies(std::move(stream));
  sort_regions(scratch.regions);
}

void Group::run(OrtKernelContext& context, const Log& log) {
  static thread_local Scratch scratch;
  const LogScope scope(log);
  struct Drop {
    Scratch& used;
    ~Drop() {
      for (Box& box : used.boxes) {
        if (!box.empty()) box = Box{};
      }
      used.privates.clear();
      used.copies.clear();
    }
  } const drop{scratch};
  read_inputs(context, scratch);
  Results results(*this, context, scratch);
  if (options_.trace == nullptr) {
    session_.run(scratch.arguments, results, {});
    results.finish();
    return;
  }
  Profiler profiler;
  RunOptions options;
  options.profiler = &profiler;
  const auto begin = std::chrono::steady_clock::now();
  const Counters before = session_.counters();
  session_.run(scratch.arguments, results, options);
  const Counters after = session_.counters();
  const CopiedBytes copied{
      after.input_bytes_copied - before.input_bytes_copied,
      results.finish() + after.output_bytes_copied - before.output_bytes_copied};
  options_.trace->add(name_, begin, profiler.events().empty() ? "[]" : profiler.chrome_trace(),
                      copied);
}

}  // namespace lathe::ort_plugin
