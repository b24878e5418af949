// SPDX-License-Identifier: MIT
// One matrix of each expert, packed in one block: panels of floats, or weights of 2 to 8 bits.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/support/block_format.h"
#include "targets/cpu/expert_source.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "targets/cpu/weight_store.h"

namespace lathe::cpu {

// Constant weights [experts, outputs, inputs] of floats, or of codes with their scales and zero
// points or of blocks of GGUF in the layout of qmoe.
struct ExpertWeights {
  const Tensor* weights = nullptr;
  ExpertSource source = {};        // floats, in place of `weights`
  const Tensor* bias = nullptr;    // [experts, outputs], or null
  const Tensor* scales = nullptr;  // of codes
  const Tensor* zeros = nullptr;   // of codes, or null
};

struct ExpertShape {
  int64_t experts = 0;
  int64_t inputs = 0;
  int bits = 0;                         // of codes; 0: floats
  int64_t block = 0;                    // elements that share a scale; 0: a row
  bool int8 = false;                    // activations are quantised to 8 bits in the same blocks
  const BlockFormat* format = nullptr;  // of blocks of GGUF; null: codes or floats
};
// Reason why codes of this shape are not packed; empty if they are.
std::string why_no_codes(const ExpertShape& shape);

// The rows of an expert's packed matrix: all of one operand, its even rows before its odd ones, or
// all of one operand before those of another.
enum class ExpertRows : uint8_t { as_stored, even_then_odd };

class ExpertMatrices {
 public:
  // `parts`: one operand, or two, whose rows follow each other.
  ExpertMatrices(const ExpertShape& shape, std::span<const ExpertWeights> parts, ExpertRows rows,
                 Isa isa);
  int64_t outputs() const { return outputs_; }
  size_t bytes() const { return packed_->bytes(); }
  ElementType stored_type() const { return stored_type_; }
  int64_t workspace_bytes(int64_t rows) const;
  // y [rows, outputs] = x [rows, inputs] · the expert's matrix + its bias.
  void multiply(int64_t expert, const float* x, int64_t rows, float* y, void* workspace,
                ThreadPool* pool) const;

 private:
  struct Row {
    size_t part;
    int64_t row;
  };
  void pack_floats(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                   ThreadPool* pool) const;
  void pack_codes(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                  ThreadPool* pool) const;
  void pack_blocks(std::span<const ExpertWeights> parts, int64_t expert, void* to,
                   ThreadPool* pool) const;

  void release_parts(std::span<const ExpertWeights> parts, int64_t expert) const;

  ExpertShape shape_;
  Isa isa_;
  ElementType stored_type_ = ElementType::f32;  // of panels; 16 bits as given
  std::vector<Row> rows_;                       // where each packed row lies
  int64_t outputs_ = 0;
  WeightOnlyProblem problem_;  // of codes
  WeightOnlyLayout layout_;
  int64_t stride_ = 0;  // bytes from expert to expert
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> packed_;
};

}  // namespace lathe::cpu
