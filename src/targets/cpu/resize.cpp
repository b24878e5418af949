// SPDX-License-Identifier: MIT
// Resizes along any axes of any strides. Rows of the result run along its last resized axis in
// memory, in blocks of the elements after it: the channels of a channels-last image.
#include "ops/support/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/support/views.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

struct Taps {
  int64_t width = 1;
  std::vector<int64_t> index;  // output × width
  std::vector<float> weight;
};

// An axis of the result, and the input's stride along it.
struct Axis {
  int64_t extent = 1;
  int64_t from = 0;
  int64_t to = 0;
  int64_t input = 1;
  const Taps* taps = nullptr;  // null: not resized
};

struct Rows {
  std::vector<Axis> outer;
  Axis along;  // resized
  Axis block;  // not resized
  int64_t count = 1;
  int64_t widest = 1;  // input rows of one row of the result, at most
};

// Inputs of one row of the result.
struct Sources {
  std::span<int64_t> offset;
  std::span<float> weight;
  int64_t count = 1;
  int64_t to = 0;  // offset of the result's row
};

// `all` in the result's memory order, at least one resized.
Rows rows_of(std::span<const Axis> all) {
  Rows rows;
  size_t last = all.size() - 1;
  while (all[last].taps == nullptr) --last;
  rows.along = all[last];
  rows.outer.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(last));
  bool has_block = false;
  for (const Axis& axis : all.subspan(last + 1)) {
    Axis& block = rows.block;
    if (has_block && block.from == axis.from * axis.extent && block.to == axis.to * axis.extent) {
      block = {block.extent * axis.extent, axis.from, axis.to};
      continue;
    }
    if (has_block) rows.outer.push_back(block);
    block = axis;
    has_block = true;
  }
  for (const Axis& axis : rows.outer) {
    rows.count *= axis.extent;
    if (axis.taps != nullptr) rows.widest *= axis.taps->width;
  }
  return rows;
}

void find_sources(const Rows& rows, int64_t row, Sources& sources) {
  sources.count = 1;
  sources.to = 0;
  sources.offset[0] = 0;
  sources.weight[0] = 1;
  for (size_t i = rows.outer.size(); i-- > 0;) {
    const Axis& axis = rows.outer[i];
    const int64_t at = row % axis.extent;
    row /= axis.extent;
    sources.to += at * axis.to;
    if (axis.taps == nullptr) {
      for (int64_t k = 0; k < sources.count; ++k) {
        sources.offset[static_cast<size_t>(k)] += at * axis.from;
      }
      continue;
    }
    const int64_t width = axis.taps->width;
    const int64_t* index = axis.taps->index.data() + at * width;
    const float* weight = axis.taps->weight.data() + at * width;
    const int64_t before = sources.count;
    int64_t used = 0;
    // The tap written in place comes last: the others read what it replaces.
    int64_t keep = -1;
    for (int64_t t = 0; t < width; ++t) {
      if (weight[t] != 0 || (keep < 0 && t + 1 == width)) {
        if (keep < 0) {
          keep = t;
          continue;
        }
        ++used;
        for (int64_t k = 0; k < before; ++k) {
          const auto to = static_cast<size_t>(used * before + k);
          sources.offset[to] = sources.offset[static_cast<size_t>(k)] + index[t] * axis.from;
          sources.weight[to] = sources.weight[static_cast<size_t>(k)] * weight[t];
        }
      }
    }
    for (int64_t k = 0; k < before; ++k) {
      sources.offset[static_cast<size_t>(k)] += index[keep] * axis.from;
      sources.weight[static_cast<size_t>(k)] *= weight[keep];
    }
    sources.count = (used + 1) * before;
  }
}

// True if a row's elements are contiguous with `extent` positions along it.
bool is_contiguous(const Rows& rows, int64_t along, int64_t block) {
  return along == rows.block.extent && (block == 1 || rows.block.extent == 1);
}

template <class T>
class NearestRows {
 public:
  NearestRows(const Rows& rows, const T* x, T* y)
      : rows_(rows),
        x_(x),
        y_(y),
        contiguous_(is_contiguous(rows, rows.along.to, rows.block.to)),
        blocks_(rows.block.extent > 1 && rows.block.from == 1 && rows.block.to == 1) {}

  void run(const Sources& sources) {
    const T* from = x_ + sources.offset[0];
    T* to = y_ + sources.to;
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (contiguous_ && from == last_from_) {
        std::memcpy(to, last_to_, static_cast<size_t>(row_elements()) * sizeof(T));
        return;
      }
    }
    write(from, to);
    last_from_ = from;
    last_to_ = to;
  }

 private:
  int64_t row_elements() const { return rows_.along.extent * rows_.block.extent; }

  void write(const T* from, T* to) const {
    const Axis &along = rows_.along, &block = rows_.block;
    const int64_t* index = along.taps->index.data();
    for (int64_t i = 0; i < along.extent; ++i, to += along.to) {
      const T* source = from + index[i] * along.from;
      if constexpr (std::is_trivially_copyable_v<T>) {
        if (blocks_) {
          std::memcpy(to, source, static_cast<size_t>(block.extent) * sizeof(T));
          continue;
        }
      }
      for (int64_t k = 0; k < block.extent; ++k) to[k * block.to] = source[k * block.from];
    }
  }

  const Rows& rows_;
  const T* x_;
  T* y_;
  bool contiguous_;  // rows of the result
  bool blocks_;
  const T* last_from_ = nullptr;
  const T* last_to_ = nullptr;
};

template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::lowest());
    constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
    return static_cast<T>(std::clamp(std::nearbyint(value), kLow, kHigh));
  }
}

// Combines the sources, then the taps along the row.
template <class T>
class InterpolatedRows {
 public:
  InterpolatedRows(const Rows& rows, const T* x, T* y, const RowOps& ops)
      : rows_(rows),
        x_(x),
        y_(y),
        ops_(ops),
        dense_x_(std::is_same_v<T, float> && is_contiguous(rows, rows.along.from, rows.block.from)),
        dense_y_(std::is_same_v<T, float> && is_contiguous(rows, rows.along.to, rows.block.to)),
        combined_(rows.along.input * rows.block.extent),
        row_(dense_y_ ? 0 : rows.along.extent * rows.block.extent),
        pointers_(std::max(rows.widest, rows.along.taps->width)) {}

  void run(const Sources& sources) {
    const float* from = combine(sources);
    T* to = y_ + sources.to;
    if constexpr (std::is_same_v<T, float>) {
      if (dense_y_) return interpolate(from, to);
    }
    interpolate(from, row_.data());
    const Axis &along = rows_.along, &block = rows_.block;
    const float* value = row_.data();
    for (int64_t i = 0; i < along.extent; ++i) {
      for (int64_t k = 0; k < block.extent; ++k) {
        to[i * along.to + k * block.to] = rounded<T>(*value++);
      }
    }
  }

 private:
  const float* combine(const Sources& sources) {
    const Axis &along = rows_.along, &block = rows_.block;
    const int64_t count = along.input * block.extent;
    if constexpr (std::is_same_v<T, float>) {
      if (dense_x_) {
        if (sources.count == 1 && sources.weight[0] == 1) return x_ + sources.offset[0];
        for (int64_t i = 0; i < sources.count; ++i) {
          pointers_[static_cast<size_t>(i)] = x_ + sources.offset[static_cast<size_t>(i)];
        }
        ops_.combine(pointers_.data(), sources.weight.data(), sources.count, combined_.data(),
                     count);
        return combined_.data();
      }
    }
    std::fill_n(combined_.data(), count, 0.0F);
    for (int64_t source = 0; source < sources.count; ++source) {
      const T* from = x_ + sources.offset[static_cast<size_t>(source)];
      const float weight = sources.weight[static_cast<size_t>(source)];
      float* to = combined_.data();
      for (int64_t i = 0; i < along.input; ++i) {
        for (int64_t k = 0; k < block.extent; ++k) {
          *to++ += weight * static_cast<float>(from[i * along.from + k * block.from]);
        }
      }
    }
    return combined_.data();
  }

  void interpolate(const float* from, float* to) {
    const Axis& along = rows_.along;
    const int64_t width = along.taps->width, block = rows_.block.extent;
    const int64_t* index = along.taps->index.data();
    const float* weight = along.taps->weight.data();
    if (block > 1) {
      for (int64_t i = 0; i < along.extent; ++i, index += width, weight += width, to += block) {
        for (int64_t t = 0; t < width; ++t) {
          pointers_[static_cast<size_t>(t)] = from + index[t] * block;
        }
        ops_.combine(pointers_.data(), weight, width, to, block);
      }
    } else if (width == 2) {
      for (int64_t i = 0; i < along.extent; ++i) {
        to[i] = from[index[2 * i]] * weight[2 * i] + from[index[2 * i + 1]] * weight[2 * i + 1];
      }
    } else {
      for (int64_t i = 0; i < along.extent; ++i, index += width, weight += width) {
        float sum = 0;
        for (int64_t t = 0; t < width; ++t) sum += from[index[t]] * weight[t];
        to[i] = sum;
      }
    }
  }

  const Rows& rows_;
  const T* x_;
  T* y_;
  const RowOps& ops_;
  bool dense_x_;
  bool dense_y_;
  ScratchArray<float> combined_;
  ScratchArray<float> row_;
  ScratchArray<const float*> pointers_;
};

// Calls a row kernel of `make()` for all rows, in parallel.
template <class Make>
void for_rows(ThreadPool* pool, const Rows& rows, Make&& make) {
  constexpr int64_t kGrain = 16384;  // elements of the result
  const int64_t elements = std::max<int64_t>(1, rows.along.extent * rows.block.extent);
  parallel_for(pool, rows.count, std::max<int64_t>(1, kGrain / elements),
               [&](int64_t begin, int64_t end) {
                 auto kernel = make();
                 const ScratchArray<int64_t> offset(rows.widest);
                 const ScratchArray<float> weight(rows.widest);
                 Sources sources{{offset.data(), offset.size()}, {weight.data(), weight.size()}};
                 for (int64_t row = begin; row < end; ++row) {
                   find_sources(rows, row, sources);
                   kernel.run(sources);
                 }
               });
}

// The taps of all axes of a launch.
struct AllTaps {
  std::vector<ResizeAxis> axes;
  std::vector<Taps> taps;  // of those that change
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const Instruction& instruction, Isa isa)
      : attributes_(InstructionReader(instruction)), origin_(instruction), isa_(isa) {}
  std::string_view name() const override { return "cpu.resize"; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(const LaunchArgs& args) const override {
    LaunchViews c(args);
    const std::vector<ResizeAxis> axes = resize_axes(attributes_, origin_, c);
    SmallDims dims{};
    for (size_t i = 0; i < axes.size(); ++i) dims[i] = axes[i].output;
    const TensorView& y = c.out(0, std::span(dims).first(axes.size()));
    if (y.count() == 0) return;
    for (const ResizeAxis& axis : axes) {
      origin_.check(axis.input > 0, "an axis of size {} cannot be resized to {}", axis.input,
                    axis.output);
    }
    const TensorView& x = c.in(0);
    const std::shared_ptr<const AllTaps> taps = find_taps(axes);
    std::vector<Axis> all;
    bool any = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const Taps* own = axes[i].changes ? &taps->taps[i] : nullptr;
      if (own == nullptr && y.dims[i] == 1) continue;
      any |= own != nullptr;
      const Axis axis{y.dims[i], x.strides[i], y.dims[i] == 1 ? 0 : y.strides[i], x.dims[i], own};
      // In the result's memory order; an axis of size 1 comes first: its stride means nothing.
      const auto step = [](const Axis& a) {
        return a.extent == 1 ? std::numeric_limits<int64_t>::max() : std::abs(a.to);
      };
      const auto at =
          std::ranges::find_if(all, [&](const Axis& other) { return step(other) < step(axis); });
      all.insert(at, axis);
    }
    if (!any) return copy_elements(x, y);
    const Rows rows = rows_of(all);
    if (attributes_.options.mode == "nearest") {
      with_raw_type(y.type, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        for_rows(c.pool, rows, [&] { return NearestRows<T>(rows, x.as<const T>(), y.as<T>()); });
      });
    } else if (y.type == ElementType::f32) {
      interpolate<float>(c.pool, rows, x, y);
    } else if (y.type == ElementType::u8) {
      interpolate<uint8_t>(c.pool, rows, x, y);
    } else {
      interpolate<int8_t>(c.pool, rows, x, y);
    }
  }

 private:
  using SmallDims = std::array<int64_t, kMaxRank>;

  template <class T>
  void interpolate(ThreadPool* pool, const Rows& rows, const TensorView& x,
                   const TensorView& y) const {
    for_rows(pool, rows,
             [&] { return InterpolatedRows<T>(rows, x.as<const T>(), y.as<T>(), row_ops(isa_)); });
  }

  // Those of the last launch if its sizes are the same.
  std::shared_ptr<const AllTaps> find_taps(const std::vector<ResizeAxis>& axes) const {
    {
      const std::lock_guard lock(mutex_);
      if (last_ != nullptr && last_->axes == axes) return last_;
    }
    auto made = std::make_shared<AllTaps>();
    made->axes = axes;
    for (const ResizeAxis& axis : axes) {
      Taps& own = made->taps.emplace_back();
      if (!axis.changes) continue;
      ResizeTaps found = resize_taps(attributes_.options, axis);
      own.width = found.width;
      own.index = std::move(found.index);
      own.weight.assign(found.weight.begin(), found.weight.end());
    }
    const std::lock_guard lock(mutex_);
    last_ = made;
    return made;
  }

  ResizeAttributes attributes_;
  OpOrigin origin_;
  Isa isa_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const AllTaps> last_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const ElementType element = element_of(instruction, 0);
  const auto mode = attribute<std::string>(instruction, "mode");
  if (attribute<std::string>(instruction, "coordinate_transformation_mode") ==
      "tf_crop_and_resize") {
    return "it crops";
  }
  if (mode == "nearest") {
    return info(element).bits >= 8 ? "" : fmt::format("mode 'nearest' of {}", to_string(element));
  }
  const bool fits =
      element == ElementType::f32 || element == ElementType::u8 || element == ElementType::i8;
  return fits ? ""
              : fmt::format("mode '{}' of {}, supported: f32, u8, i8", mode, to_string(element));
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<ResizeKernel>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kResize{ops::resize, why_not, make};

}  // namespace lathe::cpu
