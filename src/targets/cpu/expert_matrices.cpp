// SPDX-License-Identifier: MIT
#include "targets/cpu/expert_matrices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/file_map.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/kernels/gemm/half_panels.h"
#include "targets/cpu/kernels/gemm/matmul.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kLeastBlock = 16, kMostBlock = 256;  // of weight-only kernels
constexpr int64_t kRowBlock = 32;                      // of rows with one scale

// Elements that share a scale as packed: a larger block repeats its scale.
int64_t packed_block(const ExpertShape& shape) {
  return shape.block == 0 ? kRowBlock : std::min(shape.block, kMostBlock);
}

// Fields of `bits`, 2, 4 or 8, from a byte boundary.
int code_at(const uint8_t* from, int64_t i, int bits) {
  return from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
}

// The rows of an expert.
WeightColumns columns_of(const Tensor& weights, int64_t expert, const BlockFormat& format) {
  const Dims dims(weights.dims().begin() + 1, weights.dims().end());
  const Tensor rows(ElementType::u8, dims, Tensor::dense_strides(dims),
                    const_cast<uint8_t*>(weights.as<uint8_t>()) + expert * dims[0] * dims[1],
                    weights.owner());
  return {rows.view(), format};
}

std::span<const Tensor* const> stacks_of(const ExpertWeights& part) {
  return part.weights != nullptr ? std::span(&part.weights, 1) : std::span(part.source.parts);
}

// The rows of each expert.
int64_t outputs_of(const ExpertWeights& part) {
  return stacks_of(part)[0]->dims()[part.source.transposed ? 2 : 1];
}

// An expert's bytes, where they lie.
std::span<const std::byte> bytes_of(const ExpertWeights& part, int64_t expert) {
  for (const Tensor* stack : stacks_of(part)) {
    const int64_t experts = stack->dims()[0];
    const auto bytes = static_cast<size_t>(stack->byte_size() / experts);
    if (expert < experts) {
      return {static_cast<const std::byte*>(stack->data()) + static_cast<size_t>(expert) * bytes,
              bytes};
    }
    expert -= experts;
  }
  fail(ErrorKind::internal, "experts of a stack end before {} more", expert + 1);
}

// The matrix of an expert, by rows; those in `transposed` own memory.
const std::byte* rows_of(const ExpertWeights& part, int64_t expert, int64_t inputs,
                         Tensor& transposed) {
  const std::span<const std::byte> bytes = bytes_of(part, expert);
  if (!part.source.transposed) return bytes.data();
  const int64_t outputs = outputs_of(part);
  const Dims dims = {inputs, outputs};
  const Tensor given = Tensor(stacks_of(part)[0]->type(), dims, Tensor::dense_strides(dims),
                              const_cast<std::byte*>(bytes.data()), nullptr)
                           .aligned();
  transposed =
      Tensor(given.type(), {outputs, inputs}, {1, outputs}, given.data(), given.owner()).clone();
  return transposed.as<std::byte>();
}

void set_code(uint8_t* to, int64_t i, int bits, int code) {
  to[i * bits / 8] |= static_cast<uint8_t>(code << (i * bits % 8));
}

}  // namespace

std::string why_no_codes(const ExpertShape& shape) {
  if (shape.format != nullptr) return "";
  const auto block = static_cast<uint64_t>(shape.block);
  if (shape.block != 0 && (shape.block < kLeastBlock || !std::has_single_bit(block))) {
    return fmt::format("blocks of {} elements, supported: powers of two from {}", shape.block,
                       kLeastBlock);
  }
  if (shape.int8 && shape.block > kMostBlock) {
    return fmt::format("int8 activations in blocks of {} elements, supported: up to {}",
                       shape.block, kMostBlock);
  }
  return "";
}

ExpertMatrices::ExpertMatrices(const ExpertShape& shape, std::span<const ExpertWeights> parts,
                               ExpertRows rows, Isa isa)
    : shape_(shape), isa_(isa) {
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t count = outputs_of(parts[part]);
    const int64_t half = (count + 1) / 2;
    for (int64_t i = 0; i < count; ++i) {
      const bool as_stored = rows == ExpertRows::as_stored;
      rows_.push_back({part, as_stored ? i : i < half ? 2 * i : 2 * (i - half) + 1});
    }
  }
  outputs_ = std::ssize(rows_);
  std::vector<const Tensor*> sources;
  for (const ExpertWeights& part : parts) {
    const std::span<const Tensor* const> stacks = stacks_of(part);
    sources.insert(sources.end(), stacks.begin(), stacks.end());
    sources.insert(sources.end(), {part.scales, part.zeros});
  }
  std::string id;
  if (shape.bits == 0) {
    const BrgemmKernel& kernel = brgemm_kernel(isa, GemmType::f32);
    const ElementType type = stacks_of(parts[0])[0]->type();
    if (info(type).bits == 16) {
      stored_type_ = type;
      id = half_panels_id(kernel, type);
      stride_ = half_panels_layout(kernel, shape.inputs, outputs_).bytes;
    } else {
      id = packing_id(kernel, GemmType::f32);
      stride_ = packed_layout(kernel, GemmType::f32, shape.inputs, outputs_).bytes;
    }
  } else if (shape.format != nullptr) {
    problem_.compute = shape.int8 ? WeightOnlyCompute::int8 : WeightOnlyCompute::f32;
    const WeightColumns columns = columns_of(*parts[0].weights, 0, *shape.format);
    hold(columns, problem_);
    problem_.n = outputs_;
    id = fmt::format("{}, of {}", weight_only_packing_id(problem_), shape.format->name);
    layout_ = weight_only_layout(problem_);
    stride_ = layout_.bytes;
  } else {
    problem_.k = shape.inputs;
    problem_.n = outputs_;
    problem_.bits = shape.bits;
    problem_.block = packed_block(shape);
    problem_.scale_type = parts[0].scales->type();
    problem_.compute = shape.int8 ? WeightOnlyCompute::int8 : WeightOnlyCompute::f32;
    if (parts[0].zeros != nullptr) problem_.zero_type = ElementType::u8;
    id = weight_only_packing_id(problem_);
    layout_ = weight_only_layout(problem_);
    stride_ = layout_.bytes;
  }
  stride_ = (stride_ + 63) / 64 * 64;
  id += fmt::format(" of {} experts, blocks of {}{}", shape.experts, shape.block,
                    rows == ExpertRows::as_stored ? "" : ", even rows first");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].source.transposed) id += fmt::format(", matrix {} transposed", i);
  }
  packed_ = packed_weights(
      sources, id, static_cast<size_t>(stride_ * shape.experts), [&](void* to, ThreadPool* pool) {
        for (int64_t e = 0; e < shape.experts; ++e) {
          std::byte* at = static_cast<std::byte*>(to) + e * stride_;
          const auto pack = shape.format != nullptr ? &ExpertMatrices::pack_blocks
                            : shape.bits == 0       ? &ExpertMatrices::pack_floats
                                                    : &ExpertMatrices::pack_codes;
          (this->*pack)(parts, e, at, pool);
        }
      });
  std::vector<std::vector<float>> biases;
  for (const ExpertWeights& part : parts) {
    biases.push_back(part.bias == nullptr ? std::vector<float>() : floats_of(*part.bias));
  }
  if (std::ranges::all_of(biases, [](const auto& bias) { return bias.empty(); })) return;
  for (int64_t e = 0; e < shape.experts; ++e) {
    for (const Row& row : rows_) {
      const std::vector<float>& bias = biases[row.part];
      const int64_t at = e * outputs_of(parts[row.part]) + row.row;
      bias_.push_back(bias.empty() ? 0 : bias[static_cast<size_t>(at)]);
    }
  }
}

void ExpertMatrices::pack_floats(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                                 ThreadPool* pool) const {
  const ElementType type = stacks_of(parts[0])[0]->type();
  const int64_t pitch = shape_.inputs * info(type).bits / 8;
  std::vector<std::byte> copy(static_cast<size_t>(outputs_ * pitch));
  std::byte* next = copy.data();
  std::array<Tensor, 2> transposed;
  std::array<const std::byte*, 2> from{};
  for (size_t i = 0; i < parts.size(); ++i) {
    from[i] = rows_of(parts[i], expert, shape_.inputs, transposed[i]);
  }
  for (const Row& row : rows_) {
    std::memcpy(next, from[row.part] + row.row * pitch, static_cast<size_t>(pitch));
    next += pitch;
  }
  const BrgemmKernel& kernel = brgemm_kernel(isa_, GemmType::f32);
  const PackSource source{copy.data(), type, shape_.inputs, outputs_, 1, shape_.inputs};
  if (stored_type_ == ElementType::f32) {
    pack_b(kernel, GemmType::f32, source, to, pool);
  } else {
    pack_half_panels(kernel, source, 0, panel_count(kernel, outputs_), to, pool);
  }
  release_parts(parts, expert);
}

// Mapped pages of an expert that has been packed leave memory.
void ExpertMatrices::release_parts(std::span<const ExpertWeights> parts, int64_t expert) const {
  for (const ExpertWeights& part : parts) release_mapped(bytes_of(part, expert));
}

void ExpertMatrices::pack_codes(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                                ThreadPool* pool) const {
  const int bits = shape_.bits;
  const int64_t pitch = shape_.inputs * bits / 8;
  const int64_t blocks = (shape_.inputs + problem_.block - 1) / problem_.block;
  const int64_t stored = shape_.block == 0 ? 1 : shape_.inputs / shape_.block;
  const int64_t repeats = shape_.block == 0 ? blocks : shape_.block / problem_.block;
  const int64_t code_bytes = blocks * problem_.block * bits / 8;
  const int64_t scale_bytes = info(problem_.scale_type).bits / 8;
  const int64_t zero_bytes = (blocks * bits + 7) / 8;
  std::vector<uint8_t> codes(static_cast<size_t>(outputs_ * code_bytes));
  std::vector<std::byte> scales(static_cast<size_t>(outputs_ * blocks * scale_bytes));
  std::vector<uint8_t> zeros(problem_.zero_type ? static_cast<size_t>(outputs_ * zero_bytes) : 0);
  parallel_for(pool, outputs_, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row& row = rows_[static_cast<size_t>(i)];
      const ExpertWeights& part = parts[row.part];
      const int64_t outputs = part.weights->dims()[1];
      const int64_t at = expert * outputs + row.row;
      std::memcpy(codes.data() + i * code_bytes, part.weights->as<uint8_t>() + at * pitch,
                  static_cast<size_t>(pitch));
      // Zero points of blocks begin a byte per row, those of rows are dense in an expert.
      const uint8_t* zero = nullptr;
      if (part.zeros != nullptr) {
        const int64_t of_row = (stored * bits + 7) / 8, of_expert = (outputs * bits + 7) / 8;
        zero = part.zeros->as<uint8_t>() + (shape_.block == 0 ? expert * of_expert : at * of_row);
      }
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = b / repeats;
        std::memcpy(scales.data() + (i * blocks + b) * scale_bytes,
                    part.scales->as<std::byte>() + (at * stored + from) * scale_bytes,
                    static_cast<size_t>(scale_bytes));
        if (zero == nullptr) continue;
        set_code(zeros.data() + i * zero_bytes, b, bits,
                 code_at(zero, shape_.block == 0 ? row.row : from, bits));
      }
    }
  });
  const WeightOnlySource source{
      codes.data(), scales.data(), zeros.empty() ? nullptr : zeros.data(), {}};
  pack_weight_only(problem_, layout_, source, to, pool);
}

void ExpertMatrices::pack_blocks(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                                 ThreadPool* pool) const {
  std::vector<WeightColumns> columns;
  for (const ExpertWeights& part : parts) {
    columns.push_back(columns_of(*part.weights, expert, *shape_.format));
  }
  const ColumnForm& form = columns.front().form();
  const int64_t scale_bytes = info(form.scale_type).bits / 8;
  if (problem_.compact) {
    const int64_t size = problem_.compact->byte_scales ? 1 : 2;
    const auto shift = [](void* at, int64_t bytes) {
      return at == nullptr ? nullptr : static_cast<char*>(at) + bytes;
    };
    const auto make = [&](int64_t first, int64_t count, const CompactColumns& c) {
      for (int64_t i = 0; i < count; ++i) {
        const Row& row = rows_[static_cast<size_t>(first + i)];
        const int64_t factors = 2 * i * (form.inputs / kMaxBlock);
        columns[row.part].make_compact(
            row.row, 1,
            {.codes = c.codes + i * form.inputs,
             .scales = shift(c.scales, i * form.blocks * size),
             .minimums = shift(c.minimums, i * form.blocks * size),
             .factors = reinterpret_cast<uint16_t*>(shift(c.factors, factors)),
             .minimum_factors = reinterpret_cast<uint16_t*>(shift(c.minimum_factors, factors))});
      }
    };
    pack_compact_parts(problem_, layout_, make, to, pool);
  } else {
    const auto make = [&](int64_t first, int64_t count, const WeightOnlyColumns& c) {
      for (int64_t i = 0; i < count; ++i) {
        const Row& row = rows_[static_cast<size_t>(first + i)];
        columns[row.part].make(row.row, 1, c.codes + i * form.code_bytes(),
                               static_cast<char*>(c.scales) + i * form.blocks * scale_bytes,
                               c.zeros == nullptr ? nullptr : c.zeros + i * form.blocks);
      }
    };
    pack_weight_only(problem_, layout_, make, to, pool);
  }
  release_parts(parts, expert);
}

int64_t ExpertMatrices::workspace_bytes(int64_t rows) const {
  return shape_.bits == 0 ? 0 : weight_only_workspace(problem_, layout_, rows);
}

void ExpertMatrices::multiply(int64_t expert, const float* x, int64_t rows, float* y,
                              void* workspace, ThreadPool* pool) const {
  const std::byte* packed = static_cast<const std::byte*>(packed_->data()) + expert * stride_;
  const float* bias = bias_.empty() ? nullptr : bias_.data() + expert * outputs_;
  if (shape_.bits != 0) {
    const WeightOnlyCall call{.a = x,
                              .a_stride = shape_.inputs,
                              .m = rows,
                              .y = y,
                              .y_stride = outputs_,
                              .bias = bias,
                              .workspace = workspace};
    return run_weight_only(problem_, layout_, packed, call, isa_, pool);
  }
  const EpilogueStep add{.kind = EpilogueStep::Kind::add,
                         .operand = {.data = bias, .column_stride = 1}};
  MatmulCall call;
  call.isa = isa_;
  call.m = rows;
  call.n = outputs_;
  call.k = shape_.inputs;
  call.a = x;
  call.a_row_stride = shape_.inputs;
  call.b = packed;
  call.b_type = stored_type_;
  call.out = y;
  call.out_row_stride = outputs_;
  if (bias != nullptr) call.epilogue.steps = {&add, 1};
  matmul(call, pool);
}

}  // namespace lathe::cpu
