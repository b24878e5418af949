// SPDX-License-Identifier: MIT
#include "import/checkpoint/packed_experts.h"

#include <algorithm>
#include <cstring>

#include "tensor/convert.h"

namespace lathe::checkpoint {
namespace {

// Rows of one block are padded to its size; qmoe has no padding.
int64_t block_of(const PackedMatrix& m) { return std::min(m.block, m.columns); }

bool is_stackable(const PackedMatrix& m) {
  return m.columns > 0 && m.columns % block_of(m) == 0 && m.columns * m.bits % 8 == 0 &&
         (m.zeros.data() == nullptr || m.zeros.type() == ElementType::u8);
}

// A byte of codes 2^(bits - 1).
uint8_t middle_codes(int64_t bits) { return bits == 8 ? 0x80 : bits == 4 ? 0x88 : 0xaa; }

struct Stack {
  PackedMatrix first;
  int64_t rows = 0;        // of all parts
  int64_t zero_bytes = 0;  // of a row
};

// nullopt if the first part or the sizes of the others do not fit.
std::optional<Stack> measure(std::span<const StoredTensor* const> parts, int64_t experts) {
  Stack stack;
  for (const StoredTensor* part : parts) {
    if (part->quantised == nullptr || part->rank() < 2) return std::nullopt;
    const Dims& dims = part->dims;
    if (dims != parts.front()->dims || (dims.size() > 2 && dims[0] != experts)) return std::nullopt;
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
    if (part == parts.front()) {
      std::optional<PackedMatrix> packed = part->quantised->packed();
      if (!packed || !is_stackable(*packed)) return std::nullopt;
      stack.first = std::move(*packed);
    }
    if (dims.back() != stack.first.columns || rows != stack.first.rows) return std::nullopt;
    stack.rows += rows;
  }
  const int64_t blocks = stack.first.columns / block_of(stack.first);
  stack.zero_bytes = (blocks * stack.first.bits + 7) / 8;
  return stack;
}

constexpr int32_t kUnknown = -1;

// Writes the order of a part's columns; false if the expert's other part has another.
bool set_order(const PackedMatrix& m, int32_t* order) {
  for (int64_t i = 0; i < m.columns; ++i) {
    const int64_t input = m.order.data() == nullptr ? i : m.order.as<int64_t>()[i];
    if (order[i] != kUnknown && order[i] != input) return false;
    order[i] = static_cast<int32_t>(input);
  }
  return true;
}

// Rows of one expert [rows, …] of `tensor`, row i from row from(i).
template <class From>
void move_rows(Tensor& tensor, int64_t expert, From from) {
  if (tensor.data() == nullptr) return;
  const int64_t rows = tensor.dims()[1];
  const int64_t bytes = tensor.byte_size() / tensor.dims()[0] / rows;
  char* at = tensor.as<char>() + expert * rows * bytes;
  const std::vector<char> old(at, at + rows * bytes);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(at + i * bytes, old.data() + from(i) * bytes, static_cast<size_t>(bytes));
  }
}

}  // namespace

void sort_rows(PackedExperts& first, PackedExperts& second, bool alternating) {
  if (second.order.data() == nullptr) return;
  const int64_t inner = second.order.dims()[1];
  for (int64_t e = 0; e < second.order.dims()[0]; ++e) {
    const int32_t* order = second.order.as<int32_t>() + e * inner;
    const auto from = [&](int64_t row) -> int64_t {
      return alternating ? 2 * order[row / 2] + row % 2 : order[row % inner] + row / inner * inner;
    };
    for (Tensor* tensor : {&first.codes, &first.scales, &first.zeros}) move_rows(*tensor, e, from);
  }
  second.order = {};
}

std::optional<PackedExperts> pack_experts(std::span<const StoredTensor* const> parts,
                                          int64_t experts) {
  const std::optional<Stack> stack = measure(parts, experts);
  if (!stack || experts <= 0 || stack->rows % experts != 0) return std::nullopt;
  const PackedMatrix& like = stack->first;
  const int64_t blocks = like.columns / block_of(like);
  const int64_t row_bytes = like.columns * like.bits / 8;
  const int64_t rows = stack->rows / experts;
  PackedExperts out;
  out.bits = like.bits;
  out.block = block_of(like);
  out.codes = Tensor(ElementType::u8, {experts, rows, row_bytes});
  out.scales = Tensor(ElementType::f32, {experts, rows, blocks});
  Tensor zeros(ElementType::u8, {experts, rows, stack->zero_bytes});
  std::memset(zeros.data(), middle_codes(like.bits), static_cast<size_t>(zeros.byte_size()));
  Tensor order(ElementType::i32, {experts, like.columns});
  std::fill_n(order.as<int32_t>(), order.count(), kUnknown);
  bool has_zeros = false, has_order = false;
  int64_t row = 0;
  auto* codes = out.codes.as<uint8_t>();
  auto* scales = out.scales.as<float>();
  auto* zero = zeros.as<uint8_t>();
  for (const StoredTensor* part : parts) {
    const PackedMatrix m = part == parts.front() ? like : *part->quantised->packed();
    if (!is_stackable(m) || m.bits != like.bits || block_of(m) != out.block ||
        m.columns != like.columns || m.rows != like.rows) {
      return std::nullopt;
    }
    for (int64_t i = 0; i < m.rows; ++i) {
      std::memcpy(codes + i * row_bytes, m.codes.as<uint8_t>() + i * m.codes.dims()[1],
                  static_cast<size_t>(row_bytes));
    }
    convert(ElementType::f32, scales, m.scales.type(), m.scales.data(), m.scales.count());
    if (m.zeros.data() != nullptr) {
      std::memcpy(zero, m.zeros.data(), static_cast<size_t>(m.zeros.byte_size()));
      has_zeros = true;
    }
    has_order |= m.order.data() != nullptr;
    for (int64_t e = row / rows; e * rows < row + m.rows; ++e) {  // all of a stack
      if (!set_order(m, order.as<int32_t>() + e * m.columns)) return std::nullopt;
    }
    row += m.rows;
    codes += m.rows * row_bytes;
    scales += m.scales.count();
    zero += m.rows * stack->zero_bytes;
  }
  if (has_zeros) out.zeros = std::move(zeros);
  if (has_order) out.order = std::move(order);
  return out;
}

}  // namespace lathe::checkpoint
