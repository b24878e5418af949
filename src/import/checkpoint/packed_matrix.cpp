// SPDX-License-Identifier: MIT
#include "import/checkpoint/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "tensor/convert.h"
#include "tensor/element_type.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kMinBlock = 16;
constexpr int64_t kMaxBlockSize = 128;
constexpr int64_t kStrip = 32;  // rows read together

// The largest block that divides a group; no wider than a row needs.
int64_t block_of(const QuantisedMatrix& m, std::string_view name) {
  if (m.group >= m.columns) {
    const auto columns = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(m.columns)));
    return std::clamp(columns, kMinBlock, kMaxBlockSize);
  }
  const int64_t block = std::min(m.group & -m.group, kMaxBlockSize);
  check(block >= kMinBlock, ErrorKind::unsupported,
        "tensor '{}' has groups of {} columns, expected a multiple of {}, or one group",
        escape(name), m.group, kMinBlock);
  return block;
}

// The columns, sorted by their groups; empty if they are.
std::vector<int64_t> order_of(const QuantisedMatrix& m, std::string_view name) {
  std::vector<int64_t> order(m.g_idx.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto group = [&](int64_t column) { return m.g_idx[static_cast<size_t>(column)]; };
  std::ranges::sort(order, {}, [&](int64_t column) { return std::pair(group(column), column); });
  for (int64_t i = 0; i < std::ssize(order); ++i) {
    const int64_t found = group(order[static_cast<size_t>(i)]);
    check(found == i / m.group, ErrorKind::unsupported,
          "tensor '{}' has groups of unequal sizes: column {} by group is in group {}, expected {}",
          escape(name), i, found, i / m.group);
  }
  return std::ranges::is_sorted(order) ? std::vector<int64_t>() : order;
}

[[gnu::always_inline]] inline void set_code(uint8_t* row, int64_t at, int bits, int code) {
  const int64_t bit = at * bits;
  row[bit >> 3] = static_cast<uint8_t>(row[bit >> 3] | code << (bit & 7));
}

[[gnu::always_inline]] inline int code_at(const uint8_t* row, int64_t at, int bits) {
  const int64_t bit = at * bits;
  return row[bit >> 3] >> (bit & 7) & ((1 << bits) - 1);
}

Tensor pack_codes(const QuantisedMatrix& m, const std::vector<int64_t>& order, int64_t width) {
  Tensor codes(ElementType::u8, {m.rows, width * m.bits / 8});
  std::vector<uint8_t> strip(static_cast<size_t>(kStrip * m.columns));
  for (int64_t first = 0; first < m.rows; first += kStrip) {
    const int64_t count = std::min(kStrip, m.rows - first);
    m.read_rows(first, count, strip.data());
    for (int64_t r = 0; r < count; ++r) {
      uint8_t* to = codes.as<uint8_t>() + (first + r) * codes.dims()[1];
      const uint8_t* from = strip.data() + r * m.columns;
      for (int64_t i = 0; i < m.columns; ++i) {
        set_code(to, i, m.bits, from[order.empty() ? i : order[static_cast<size_t>(i)]]);
      }
    }
  }
  return codes;
}

// Repeats the scales of groups that have several blocks.
Tensor spread_scales(const QuantisedMatrix& m, int64_t blocks, int64_t block) {
  const int64_t groups = m.scales.dims()[1];
  if (groups == blocks) return m.scales;
  Tensor out(m.scales.type(), {m.rows, blocks});
  const auto size = bytes_for(m.scales.type(), 1);
  for (int64_t i = 0; i < m.rows * blocks; ++i) {
    const int64_t from = i / blocks * groups + i % blocks * block / m.group;
    std::memcpy(out.as<uint8_t>() + i * size, m.scales.as<uint8_t>() + from * size,
                static_cast<size_t>(size));
  }
  return out;
}

Tensor pack_zeros(const QuantisedMatrix& m, int64_t blocks, int64_t block) {
  const int middle = 1 << (m.bits - 1);
  if (std::ranges::all_of(m.zeros, [&](uint8_t zero) { return zero == middle; })) return {};
  const int64_t groups = m.scales.dims()[1];
  Tensor out(ElementType::u8, {m.rows, (blocks * m.bits + 7) / 8});
  for (int64_t i = 0; i < m.rows * blocks; ++i) {
    const int64_t from = i / blocks * groups + i % blocks * block / m.group;
    set_code(out.as<uint8_t>() + i / blocks * out.dims()[1], i % blocks, m.bits,
             m.zeros[static_cast<size_t>(from)]);
  }
  return out;
}

}  // namespace

PackedMatrix pack_matrix(const QuantisedMatrix& m, std::string_view name) {
  PackedMatrix out;
  out.rows = m.rows;
  out.columns = m.columns;
  out.bits = m.bits;
  out.block = block_of(m, name);
  const int64_t blocks = (m.columns + out.block - 1) / out.block;
  const std::vector<int64_t> order = order_of(m, name);
  out.codes = pack_codes(m, order, blocks * out.block);
  out.scales = spread_scales(m, blocks, out.block);
  out.zeros = pack_zeros(m, blocks, out.block);
  if (!order.empty()) {
    out.order = Tensor(ElementType::i64, {m.columns});
    std::ranges::copy(order, out.order.as<int64_t>());
  }
  return out;
}

Tensor dequantise(const PackedMatrix& m) {
  Tensor out(ElementType::f32, {m.rows, m.columns});
  Tensor scales = m.scales;
  if (scales.type() != ElementType::f32) {
    scales = Tensor(ElementType::f32, m.scales.dims());
    convert(ElementType::f32, scales.data(), m.scales.type(), m.scales.data(), scales.count());
  }
  const int64_t blocks = scales.dims()[1];
  for (int64_t r = 0; r < m.rows; ++r) {
    const uint8_t* codes = m.codes.as<uint8_t>() + r * m.codes.dims()[1];
    for (int64_t i = 0; i < m.columns; ++i) {
      const int64_t at = r * blocks + i / m.block;
      float zero = static_cast<float>(1 << (m.bits - 1));
      if (m.zeros.data() != nullptr) {
        zero = m.zeros.type() == ElementType::f32
                   ? m.zeros.as<float>()[at]
                   : static_cast<float>(code_at(m.zeros.as<uint8_t>() + r * m.zeros.dims()[1],
                                                i / m.block, m.bits));
      }
      const int64_t column = m.order.data() == nullptr ? i : m.order.as<int64_t>()[i];
      out.as<float>()[r * m.columns + column] =
          (static_cast<float>(code_at(codes, i, m.bits)) - zero) * scales.as<float>()[at];
    }
  }
  return out;
}

}  // namespace lathe::checkpoint
