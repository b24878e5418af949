// SPDX-License-Identifier: MIT
#include "runtime/state_store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/evaluation.h"
#include "plan/arena_layout.h"
#include "runtime/counters.h"

namespace lathe {
namespace {

bool grows(const State& state) {
  return state.kind == StateKind::append || state.kind == StateKind::window;
}

}  // namespace

Tensor StateMemory::zeros(ElementType type, std::span<const int64_t> dims) const {
  if (stream == nullptr) return Tensor(type, Dims(dims.begin(), dims.end()), budget);
  const int64_t bytes = std::max<int64_t>(bytes_for(type, element_count(dims)), 1);
  void* data = budget.allocate(static_cast<size_t>(bytes), 64);
  check(data != nullptr, ErrorKind::out_of_memory, "cannot allocate {} bytes on {}", bytes,
        device.name());
  const std::shared_ptr<void> owner(data, [&own = budget, bytes](void* pointer) {
    own.deallocate(pointer, static_cast<size_t>(bytes));
  });
  stream->fill(data, std::byte{0}, static_cast<size_t>(bytes));
  return Tensor(type, Dims(dims.begin(), dims.end()), Tensor::dense_strides(dims), data, owner);
}

void StateMemory::copy_elements(const TensorView& from, const TensorView& to) const {
  const TensorView* in[] = {&from};
  TensorView target = to;
  TensorView* out[] = {&target};
  LaunchArgs args;
  args.in = in;
  args.out = out;
  args.stream = stream;
  copy.launch(args);
}

StateStore::StateStore(const State& state, StateMemory memory, Counters& counters,
                       int64_t reserve_rows)
    : state_(state), memory_(memory), counters_(counters), reserve_rows_(reserve_rows) {}

StateStore::~StateStore() { free_memory(); }

void StateStore::free_memory() {
  free_retired();
  range_.reset();
  memory_.budget.release(charged_);
  charged_ = 0;
  capacity_ = 0;
}

int64_t StateStore::length() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

Dims StateStore::held() const {
  return length() > 0 ? buffers_[static_cast<size_t>(current_)].dims() : Dims{};
}

Dims StateStore::strides_for(std::span<const int64_t> dims) const {
  Dims full(dims.begin(), dims.end());
  full[static_cast<size_t>(state_.axis)] = capacity_;
  return Tensor::dense_strides(full);
}

// Bytes of one row of the growing axis, over all other axes.
int64_t StateStore::row_bytes() const {
  Dims row = dims_;
  row[static_cast<size_t>(state_.axis)] = 1;
  return bytes_for(state_.type.element, element_count(row));
}

void StateStore::allocate(std::span<const int64_t> dims, int64_t rows) {
  const auto axis = static_cast<size_t>(state_.axis);
  Dims fresh(dims.begin(), dims.end());
  int64_t capacity = std::max<int64_t>(rows, 1);
  if (state_.kind == StateKind::append) {
    const int64_t bound = (*state_.type.dims)[axis].range().max;
    capacity = std::max(capacity, bound == kUnbounded ? reserve_rows_ : bound);
  }
  // The content moves only when the reserved address space is used up.
  std::unique_ptr<AddressRange> old_range = std::move(range_);
  const int64_t old_capacity = capacity_;
  const Dims old_dims = dims_;
  fresh[axis] = capacity;
  const int64_t bytes = bytes_for(state_.type.element, element_count(fresh));
  try {
    range_ = memory_.device.reserve(bytes);
  } catch (const Error&) {
    range_ = std::move(old_range);
    fail(ErrorKind::out_of_memory, "state '{}': cannot reserve {} bytes ({} rows)", state_.name,
         bytes, capacity);
  }
  capacity_ = capacity;
  dims_.assign(dims.begin(), dims.end());
  if (old_range == nullptr) return;
  dims_[axis] = old_dims[axis];
  Dims held = dims_;
  held[axis] = std::min(old_capacity, start_ + length() + appended_);
  Dims old_full = held;
  old_full[axis] = old_capacity;
  const Tensor from(state_.type.element, held, Tensor::dense_strides(old_full), old_range->base(),
                    nullptr);
  try {
    commit_rows(held[axis]);
    memory_.copy_elements(from.view(), rows_view(held, 0));
  } catch (...) {  // the content stays where it is
    range_ = std::move(old_range);
    capacity_ = old_capacity;
    dims_ = old_dims;
    throw;
  }
  counters_.state_bytes_copied += from.byte_size();
  retired_.push_back(std::move(old_range));
}

// A view of shape `dims` from row `start` of the buffer.
TensorView StateStore::rows_view(std::span<const int64_t> dims, int64_t start) const {
  const Dims strides = strides_for(dims);
  const int64_t element = info(state_.type.element).bits / 8;
  char* data = static_cast<char*>(range_->base()) +
               start * strides[static_cast<size_t>(state_.axis)] * element;
  return Tensor(state_.type.element, Dims(dims.begin(), dims.end()), strides, data, nullptr).view();
}

void StateStore::free_retired() { retired_.clear(); }

void StateStore::commit_rows(int64_t rows) {
  if (memory_.device.host_accessible()) return;  // the system commits at the first access
  const auto axis = static_cast<size_t>(state_.axis);
  int64_t blocks = 1;
  for (size_t i = 0; i < axis; ++i) blocks *= dims_[i];
  int64_t row = 1;
  for (size_t i = axis + 1; i < dims_.size(); ++i) row *= dims_[i];
  row = bytes_for(state_.type.element, row);
  for (int64_t block = 0; block < blocks; ++block) {
    range_->commit(block * capacity_ * row, std::min(rows, capacity_) * row);
  }
}

TensorView StateStore::read(std::span<const int64_t> dims) {
  appended_ = 0;
  replaced_ = false;
  if (!grows(state_)) {
    Tensor& buffer = buffers_[static_cast<size_t>(current_)];
    const bool same =
        std::equal(dims.begin(), dims.end(), buffer.dims().begin(), buffer.dims().end());
    if (buffer.data() == nullptr || (!same && length() == 0)) {
      buffer = memory_.zeros(state_.type.element, dims);
    } else {
      check(same, ErrorKind::invalid_argument,
            "state '{}' is {}, this run requires shape {}: reset the session first", state_.name,
            to_string(buffer.type(), buffer.dims()), fmt::join(dims, "x"));
    }
    return buffer.view();
  }
  const auto axis = static_cast<size_t>(state_.axis);
  check(info(state_.type.element).bits >= 8, ErrorKind::unsupported,
        "state '{}' is of {}, expected at least 8 bits per element of a growing state", state_.name,
        to_string(state_.type.element));
  Dims others(dims.begin(), dims.end());
  others[axis] = dims_.empty() ? 0 : dims_[axis];
  if (others != dims_) {
    check(length() == 0, ErrorKind::invalid_argument,
          "state '{}' is {}, this run requires shape {}: reset the session first", state_.name,
          to_string(state_.type.element, dims_), fmt::join(dims, "x"));
    free_memory();
    allocate(dims, state_.kind == StateKind::window ? 2 * state_.window + 1 : 1);
    dims_[axis] = 0;
    lengths_.assign(1, 0);
    start_ = 0;
  }
  step_start_ = start_;
  return rows_view(dims, step_start_);
}

// Moves the committed window to the start of the buffer if the step would exceed its end.
void StateStore::slide(int64_t appended) {
  const int64_t held = length();
  if (start_ + held + appended <= capacity_) return;
  if (held + appended > start_ || start_ < held) {
    // Moving within the buffer would overwrite committed rows.
    allocate(dims_, 2 * (state_.window + appended) + held + start_);
    if (start_ + held + appended <= capacity_) return;
  }
  Dims dims = dims_;
  dims[static_cast<size_t>(state_.axis)] = held;
  step_start_ = 0;
  memory_.copy_elements(rows_view(dims, start_), rows_view(dims, 0));
  counters_.state_bytes_copied += held * row_bytes();
}

TensorView StateStore::append(const TensorView& version, const TensorView& x) {
  const auto axis = static_cast<size_t>(state_.axis);
  const int64_t rows = x.dims[axis];
  Dims dims(version.extents().begin(), version.extents().end());
  const int64_t needed = dims[axis] + rows;
  if (state_.kind == StateKind::append) {
    const int64_t bound = (*state_.type.dims)[axis].range().max;
    check(needed <= bound, ErrorKind::invalid_argument,
          "state '{}' would have {} rows, but '{}' is at most {}", state_.name, needed,
          escape((*state_.type.dims)[axis].to_string()), bound);
  } else {
    check(
        lengths_.size() == 1 || std::equal(lengths_.begin() + 1, lengths_.end(), lengths_.begin()),
        ErrorKind::unsupported, "state '{}' is a window: its {} sequences must have equal lengths",
        state_.name, lengths_.size());
    if (appended_ == 0) slide(rows);
  }
  if (step_start_ + needed > capacity_) {
    allocate(dims_, std::max(step_start_ + needed, capacity_ * 2));
  }
  // Charges committed memory, by capacity.
  const int64_t bytes = std::min(capacity_for(needed), capacity_) * row_bytes();
  if (bytes > charged_) {
    memory_.budget.charge(bytes - charged_);
    charged_ = bytes;
  }
  commit_rows(capacity_for(step_start_ + needed));
  appended_ += rows;
  dims[axis] = needed;
  return rows_view(dims, step_start_);
}

const TensorView* StateStore::ragged_lengths() {
  if (std::equal(lengths_.begin() + 1, lengths_.end(), lengths_.begin())) return nullptr;
  lengths_view_.type = ElementType::i64;
  lengths_view_.rank = 1;
  lengths_view_.dims[0] = std::ssize(lengths_);
  lengths_view_.strides[0] = 1;
  lengths_view_.data = lengths_.data();
  return &lengths_view_;
}

TensorView StateStore::replace(std::span<const int64_t> dims) {
  Tensor& other = buffers_[static_cast<size_t>(1 - current_)];
  if (!std::equal(dims.begin(), dims.end(), other.dims().begin(), other.dims().end()) ||
      other.data() == nullptr) {
    other = memory_.zeros(state_.type.element, dims);
  }
  replaced_ = true;
  return other.view();
}

void StateStore::commit(std::span<const int64_t> rows) {
  if (!grows(state_)) {
    if (replaced_) current_ = 1 - current_;
    if (replaced_) lengths_.assign(1, 1);
    replaced_ = false;
    return;
  }
  const auto axis = static_cast<size_t>(state_.axis);
  if (!rows.empty() && lengths_.size() != rows.size()) {
    lengths_.assign(rows.size(), lengths_.front());
  }
  for (size_t row = 0; row < lengths_.size(); ++row) {
    lengths_[row] += rows.empty() ? appended_ : rows[row];
  }
  free_retired();
  start_ = step_start_;
  if (state_.kind == StateKind::window && length() > state_.window) {
    start_ += length() - state_.window;
    lengths_.assign(lengths_.size(), state_.window);
  }
  dims_[axis] = length();
  appended_ = 0;
}

void StateStore::rollback() {
  free_retired();
  appended_ = 0;
  replaced_ = false;
  step_start_ = start_;
}

void StateStore::reset() {
  rollback();
  free_memory();
  dims_.clear();
  lengths_.assign(1, 0);
  start_ = step_start_ = 0;
  buffers_ = {};
  current_ = 0;
}

void StateStore::truncate(int64_t length) {
  check(state_.kind == StateKind::append, ErrorKind::unsupported,
        "cannot truncate state '{}' to {} rows: it is a {} state, expected append", state_.name,
        length, to_string(state_.kind));
  check(length >= 0 && length <= this->length(), ErrorKind::invalid_argument,
        "cannot truncate state '{}' of {} rows to {}", state_.name, this->length(), length);
  for (int64_t& row : lengths_) row = std::min(row, length);
  if (!dims_.empty()) dims_[static_cast<size_t>(state_.axis)] = length;
}

void StateStore::copy_from(const StateStore& other) {
  reset();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Tensor& from = other.buffers_[i];
    if (from.data() == nullptr) continue;
    buffers_[i] = memory_.zeros(from.type(), from.dims());
    memory_.copy_elements(from.view(), buffers_[i].view());
  }
  current_ = other.current_;
  lengths_ = other.lengths_;
  if (other.range_ == nullptr) return;
  dims_ = other.dims_;
  allocate(other.dims_, other.capacity_);
  Dims held = dims_;
  held[static_cast<size_t>(state_.axis)] = other.length();
  commit_rows(held[static_cast<size_t>(state_.axis)]);
  memory_.copy_elements(other.rows_view(held, other.start_), rows_view(held, 0));
  charged_ = std::min(capacity_for(length()), capacity_) * row_bytes();
  memory_.budget.charge(charged_);
}

}  // namespace lathe
