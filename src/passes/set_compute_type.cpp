// SPDX-License-Identifier: MIT
#include "passes/set_compute_type.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/op_origin.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"as_model", "int8", "bf16", "f32", "f16"};
constexpr int64_t kBlock = 32;

constexpr size_t kGroups = 4;  // of matmul_n_bits

bool is_float_matmul(const Instruction& instruction) {
  const Op& op = instruction.op();
  return (op == ops::matmul || op == ops::gemm) &&
         is_floating(instruction.result()->type().element) &&
         is_constant(*instruction.operands()[1]);
}

bool is_n_bits_matmul(const Instruction& instruction) {
  return instruction.op() == ops::matmul_n_bits;
}

bool has_compute_attribute(const Instruction& instruction) {
  return is_n_bits_matmul(instruction) || instruction.op() == ops::qmoe;
}

const Value* operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() ? instruction.operands()[i] : nullptr;
}

// Rewrites a matmul or gemm with float weights as quantize_blocks and matmul_n_bits.
Value* quantized_matmul(Builder& b, const Instruction& matmul) {
  const bool is_gemm = matmul.op() == ops::gemm;
  const bool transposed = is_gemm && required_attribute<bool>(matmul, "trans_b");
  Value* weights = matmul.operands()[1];
  const std::vector<Dim>& dims = *weights->type().dims;
  Instruction* quantized =
      b.add(ops::quantize_blocks, {weights}, {{"block_size", kBlock}, {"transposed", transposed}});
  quantized->set_deferred(true);
  Value* y =
      b(ops::matmul_n_bits, {matmul.operands()[0], quantized->result(0), quantized->result(1)},
        {{"k", *dims[transposed ? 1 : 0].constant()},
         {"n", *dims[transposed ? 0 : 1].constant()},
         {"bits", int64_t{8}},
         {"block_size", kBlock},
         {"compute_type", "int8"}});
  if (!is_gemm) return y;
  const auto scaled = [&](Value* x, double factor) {
    return factor == 1 ? x : b(ops::mul, {x, b.scalar(x->type().element, factor)});
  };
  y = scaled(y, required_attribute<double>(matmul, "alpha"));
  const Value* added = operand(matmul, 2);
  if (added == nullptr) return y;
  return b(ops::add, {y, scaled(matmul.operands()[2], required_attribute<double>(matmul, "beta"))});
}

// Attention without a KV cache, whose keys would be rounded once per step.
bool narrows_attention(const Instruction& instruction, Compute compute) {
  constexpr size_t kPastKey = 4;
  const bool packed = instruction.op() == ops::packed_attention;
  if (compute != Compute::bf16 || (!packed && instruction.op() != ops::attention)) return false;
  const bool plain = packed || (operand(instruction, kPastKey) == nullptr &&
                                instruction.result(3)->uses().empty());
  return plain && instruction.operands()[0]->type().element == ElementType::f32 &&
         required_attribute<std::string>(instruction, "compute_type").empty();
}

bool set_one(Instruction& instruction, Compute compute) {
  if (narrows_attention(instruction, compute)) {
    instruction.set_attribute("compute_type", "bf16");
    return true;
  }
  const std::string_view now = compute_of(instruction);
  if (now.empty() || now == to_string(compute) || !compute_refusal(instruction, compute).empty()) {
    return false;
  }
  if (has_compute_attribute(instruction)) {
    instruction.set_attribute("compute_type", std::string(to_string(compute)));
    return true;
  }
  if (compute != Compute::int8) {
    instruction.set_attribute("compute_type", compute == Compute::bf16 ? "bf16" : "");
    return true;
  }
  Module& module = *instruction.module();
  Builder builder(module, &instruction);
  builder.set_origins(instruction.origins());
  module.replace_uses(instruction.result(), quantized_matmul(builder, instruction));
  module.erase(&instruction);
  return true;
}

}  // namespace

std::string_view to_string(Compute compute) { return kNames[static_cast<size_t>(compute)]; }

Compute parse_compute(std::string_view text, std::string_view origin) {
  const auto at = std::ranges::find(kNames, text);
  check(at != kNames.end(), ErrorKind::invalid_argument, "{} is '{}'{}, expected one of: {}",
        origin, escape(text), did_you_mean(text, kNames), fmt::join(kNames, ", "));
  return static_cast<Compute>(at - kNames.begin());
}

std::string_view compute_of(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (has_compute_attribute(instruction)) {
    return required_attribute<std::string>(instruction, "compute_type");
  }
  if (op == ops::moe) return "f32";
  if ((op == ops::matmul_integer || op == ops::qlinear_matmul) &&
      instruction.operands().size() > 1) {
    return "int8";
  }
  if (!is_float_matmul(instruction)) return "";
  const std::string& own = required_attribute<std::string>(instruction, "compute_type");
  if (!own.empty()) return own;
  return instruction.result()->type().element == ElementType::f64 ? "f64" : "f32";
}

std::string compute_refusal(const Instruction& instruction, Compute compute) {
  if (compute == Compute::as_model || compute_of(instruction) == to_string(compute)) return "";
  if (is_n_bits_matmul(instruction)) {
    if (compute != Compute::int8) return "";
    return operand(instruction, kGroups) == nullptr ? "" : "its weights are permuted by g_idx";
  }
  if (instruction.op() == ops::qmoe) {
    if (compute == Compute::bf16) return "mixtures of experts compute in f32 or int8";
    const bool has_blocks = required_attribute<int64_t>(instruction, "block_size") > 0 ||
                            !required_attribute<std::string>(instruction, "fc1_type").empty();
    return compute == Compute::f32 || has_blocks ? ""
                                                 : "it has one scale per output, not per block";
  }
  if (!is_float_matmul(instruction)) {
    return fmt::format("{} has no compute type", instruction.op().name);
  }
  if (instruction.result()->type().element == ElementType::f64) return "its operands are f64";
  if (compute != Compute::int8) return "";
  const Type& weights = instruction.operands()[1]->type();
  if (!weights.is_ranked() || weights.rank() != 2) return "its weights are not a matrix";
  if (std::ranges::any_of(*weights.dims, [](const Dim& dim) { return dim == Dim(0); })) {
    return "its weights are empty";
  }
  if (instruction.op() == ops::gemm && required_attribute<bool>(instruction, "trans_a")) {
    return "its activations are transposed";
  }
  return "";
}

Pass set_compute_type(Compute compute) {
  return {.name = "set_compute_type",
          .doc = "Sets the compute type of matrix multiplications with constant weights.",
          .run = [compute](Program& program) {
            bool changed = false;
            for (size_t i = 0; i < program.modules().size(); ++i) {
              auto& instructions = program.modules()[i]->instructions();
              for (auto at = instructions.begin(); at != instructions.end();) {
                changed |= set_one(**at++, compute);
              }
            }
            return changed;
          }};
}

}  // namespace lathe
