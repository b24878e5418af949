// SPDX-License-Identifier: MIT
// moe with weights u8 [experts, outputs, inputs · bits / 8], low bits first, scales [experts,
// outputs] or [experts, outputs, inputs / block_size], and packed zero points (2^(bits - 1) if
// absent). Codes are contiguous over all outputs, or each output starts at a byte boundary. With a
// type (fc1_type, …) weights are rows of blocks of GGUF [experts, outputs, bytes], without scales.
// input_order [experts, hidden] is the input that a column of fc1 and fc3 multiplies.
#include "ops/support/block_format.h"
#include "ops/support/dense_operand.h"
#include "ops/support/f32_result.h"
#include "ops/support/mixture_of_experts.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

// Operands come in groups of weights, scales and bias; zero points follow all groups.
enum Operand { kX, kRouter, kFc1, kFc2 = 5, kFc3 = 8, kZeros = 11, kMixing = 14, kScales, kOrder };

constexpr std::array<std::string_view, 3> kTypes = {"fc1_type", "fc2_type", "fc3_type"};

// Null: codes.
const BlockFormat* format_of(const std::string& type) {
  return type.empty() ? nullptr : find_block_format(type);
}

void infer_qmoe(Infer& c) {
  check_experts(c);
  c.check(!c.boolean("use_sparse_mixer") || !c.has(kMixing),
          "use_sparse_mixer does not support router_weights, got {} operands", c.count());
  const int64_t bits = c.integer("expert_weight_bits");
  const int64_t block = c.integer("block_size");
  c.check(bits == 2 || bits == 4 || bits == 8, "expert_weight_bits is {}, expected 2, 4 or 8",
          bits);
  c.check(block >= 0, "block_size is {}, expected at least 0", block);
  const std::string& compute = c.text("compute_type");
  c.check(compute == "f32" || compute == "int8", "compute_type is '{}', expected f32 or int8",
          escape(compute));
  const Dim& hidden = c.dim(kX, c.rank(kX) - 1);
  c.check(c.rank(kFc2) == 3, "fc2 has rank {}, expected 3", c.rank(kFc2));
  std::array<const BlockFormat*, 3> formats{};
  for (size_t i = 0; i < formats.size(); ++i) {
    const std::string& type = c.text(kTypes[i]);
    formats[i] = format_of(type);
    c.check(type.empty() || formats[i] != nullptr, "{} is '{}', expected a block type of GGUF",
            kTypes[i], escape(type));
  }
  const Dim inner =
      formats[1] == nullptr
          ? Dim::floor_div(c.dim(kFc2, 2) * Dim(8), bits)
          : Dim::floor_div(c.dim(kFc2, 2) * Dim(formats[1]->elements), formats[1]->bytes);
  const auto matrix = [&](int at, const Dim& outputs, const Dim& inputs) {
    if (!c.has(at)) return;
    const BlockFormat* format = formats[static_cast<size_t>((at - kFc1) / 3)];
    c.check(c.rank(at) == 3 && c.has(at + 1) == (format == nullptr),
            "weights have rank {}, expected 3, and scales unless they are blocks", c.rank(at));
    c.require_equal(c.dim(at, 0), c.dim(kRouter, 1), "experts of weights and router");
    c.require_equal(c.dim(at, 1), outputs, "rows of an expert's weights");
    c.check(format != nullptr || compute == "f32" || block > 0,
            "compute_type int8 requires a block_size, got {}", block);
    c.require_equal(c.dim(at, 2) * Dim(format == nullptr ? 8 : format->elements),
                    inputs * Dim(format == nullptr ? bits : format->bytes),
                    "size of an expert's weight row");
    const int rank = block > 0 ? 3 : 2;
    if (format == nullptr) {
      c.check(c.rank(at + 1) == rank, "scales have rank {}, expected {} for block_size {}",
              c.rank(at + 1), rank, block);
      c.require_equal(c.dim(at + 1, 0), c.dim(kRouter, 1), "experts of scales and router");
      c.require_equal(c.dim(at + 1, 1), outputs, "rows of an expert's scales");
      if (block > 0) {
        c.require_equal(c.dim(at + 1, 2) * Dim(block), inputs, "blocks of a weight row");
      }
    }
    if (!c.has(at + 2)) return;
    c.check(c.rank(at + 2) == 2, "a bias has rank {}, expected 2", c.rank(at + 2));
    c.require_equal(c.dim(at + 2, 0), c.dim(kRouter, 1), "experts of bias and router");
    c.require_equal(c.dim(at + 2, 1), outputs, "elements of an expert's bias");
  };
  matrix(kFc1, inner * expert_factor(c), hidden);
  matrix(kFc2, hidden, inner);
  matrix(kFc3, inner, hidden);
  check_expert_scales(c, kScales);
  if (!c.has(kOrder)) return;
  c.check(c.rank(kOrder) == 2, "input_order has rank {}, expected 2", c.rank(kOrder));
  c.require_equal(c.dim(kOrder, 0), c.dim(kRouter, 1), "experts of input_order and router");
  c.require_equal(c.dim(kOrder, 1), hidden, "columns of input_order and x");
}

// Codes, scales and zero points of one matrix of all experts, or its blocks.
class Codes {
 public:
  Codes() = default;
  Codes(const Evaluation& c, int at, const BlockFormat& format)
      : codes_(c.in(at)), bits_(SplitForm(format).bits), format_(&format) {
    if (c.has(at + 2)) bias_ = DenseOperand(c.in(at + 2), ElementType::f32);
    outputs_ = codes_.extent(1);
    inputs_ = codes_.extent(2) / format.bytes * format.elements;
    block_ = format.group;
    blocks_ = inputs_ / block_;
  }
  Codes(const Evaluation& c, int at, int zeros, int64_t bits, int64_t block)
      : codes_(c.in(at)), scales_(c.in(at + 1), ElementType::f32), bits_(bits) {
    if (c.has(at + 2)) bias_ = DenseOperand(c.in(at + 2), ElementType::f32);
    outputs_ = codes_.extent(1);
    inputs_ = codes_.extent(2) * 8 / bits;
    block_ = block > 0 ? block : std::max<int64_t>(inputs_, 1);
    blocks_ = block > 0 ? scales_.extent(2) : 1;
    if (!c.has(zeros)) return;
    zeros_ = DenseOperand(c.in(zeros));
    pitch_ = block > 0 ? (blocks_ * bits + 7) / 8 : 0;
    const int64_t bytes = block > 0 ? outputs_ * pitch_ : (outputs_ * bits + 7) / 8;
    c.check(zeros_.count() == codes_.extent(0) * bytes, "got {} bytes of zero points, expected {}",
            zeros_.count(), codes_.extent(0) * bytes);
    zeros_of_expert_ = bytes;
  }

  // `integer`: for activations of 8 bits.
  ExpertMatrix expert(int64_t e, bool integer) const {
    ExpertMatrix matrix;
    if (codes_.data() == nullptr) return matrix;
    if (bias_.data() != nullptr) matrix.bias = bias_.as<float>() + e * outputs_;
    matrix.outputs = outputs_;
    matrix.inputs = inputs_;
    if (integer) {
      format_ == nullptr ? add_integers(e, matrix) : add_blocks(e, matrix);
      return matrix;
    }
    matrix.memory = ScratchArray<float>(outputs_ * inputs_);
    float* to = matrix.memory.data();
    matrix.weights = to;
    if (format_ != nullptr) {
      dequantise(*format_, blocks(e), outputs_ * inputs_, to);
      return matrix;
    }
    const uint8_t* from = codes_.as<uint8_t>() + e * outputs_ * inputs_ * bits_ / 8;
    for (int64_t row = 0; row < outputs_; ++row) {
      for (int64_t i = 0; i < inputs_; ++i) {
        const int64_t at = std::min(i / block_, blocks_ - 1);
        const float scale = scales_.as<float>()[(e * outputs_ + row) * blocks_ + at];
        *to++ = static_cast<float>(code(from, row * inputs_ + i) - zero(e, row, at)) * scale;
      }
    }
    return matrix;
  }

 private:
  const uint8_t* blocks(int64_t e) const {
    return codes_.as<uint8_t>() + e * outputs_ * codes_.extent(2);
  }
  void add_blocks(int64_t e, ExpertMatrix& matrix) const {
    const int64_t count = outputs_ * inputs_;
    const ScratchArray<uint8_t> packed(count * bits_ / 8);
    matrix.block = block_;
    matrix.codes = ScratchArray<int16_t>(count);
    matrix.scales = ScratchArray<float>(outputs_ * blocks_);
    if (format_->has_minimum) matrix.zeros = ScratchArray<float>(outputs_ * blocks_);
    split_blocks(*format_, blocks(e), count / format_->elements, packed.data(),
                 matrix.scales.data(), matrix.zeros.data());
    const int middle = format_->has_minimum ? 0 : 1 << (bits_ - 1);
    for (int64_t i = 0; i < count; ++i) {
      matrix.codes.data()[i] = static_cast<int16_t>(code(packed.data(), i) - middle);
    }
  }
  void add_integers(int64_t e, ExpertMatrix& matrix) const {
    matrix.block = block_;
    matrix.codes = ScratchArray<int16_t>(outputs_ * inputs_);
    matrix.scales = ScratchArray<float>(outputs_ * blocks_);
    std::copy_n(scales_.as<float>() + e * outputs_ * blocks_, outputs_ * blocks_,
                matrix.scales.data());
    const uint8_t* from = codes_.as<uint8_t>() + e * outputs_ * inputs_ * bits_ / 8;
    for (int64_t i = 0; i < outputs_ * inputs_; ++i) {
      const int64_t row = i / inputs_, at = i % inputs_ / block_;
      matrix.codes.data()[i] = static_cast<int16_t>(code(from, i) - zero(e, row, at));
    }
  }
  int code(const uint8_t* from, int64_t i) const {
    return from[i * bits_ / 8] >> (i * bits_ % 8) & ((1 << bits_) - 1);
  }
  int zero(int64_t e, int64_t row, int64_t at) const {
    if (zeros_.data() == nullptr) return 1 << (bits_ - 1);
    const uint8_t* from = zeros_.as<uint8_t>() + e * zeros_of_expert_;
    return pitch_ > 0 ? code(from + row * pitch_, at) : code(from, row);
  }
  DenseOperand codes_;
  DenseOperand scales_;
  DenseOperand bias_;
  DenseOperand zeros_;
  int64_t bits_ = 4;
  const BlockFormat* format_ = nullptr;
  int64_t outputs_ = 0;
  int64_t inputs_ = 0;
  int64_t block_ = 1;
  int64_t blocks_ = 1;
  int64_t pitch_ = 0;
  int64_t zeros_of_expert_ = 0;
};

void evaluate_qmoe(Evaluation& c) {
  Experts experts;
  experts.activation = expert_activation(c);
  experts.routing = {.k = c.integer("k"), .all = false, .sparse = c.boolean("use_sparse_mixer")};
  experts.experts = c.in(kRouter).dims[1];
  c.check(!experts.activation.gated() || experts.activation.fusion != 0 || c.has(kFc3),
          "{} with swiglu_fusion 0 requires fc3", escape(c.text("activation_type")));
  const int64_t bits = c.integer("expert_weight_bits");
  const int64_t block = c.integer("block_size");
  std::array<Codes, 3> codes;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!c.has(kFc1 + 3 * i)) continue;
    const BlockFormat* format = format_of(c.text(kTypes[at]));
    codes[at] = format == nullptr ? Codes(c, kFc1 + 3 * i, kZeros + i, bits, block)
                                  : Codes(c, kFc1 + 3 * i, *format);
  }
  const bool integer = c.text("compute_type") == "int8";
  experts.matrix = [&](int64_t expert, int i) {
    return codes[static_cast<size_t>(i)].expert(expert, integer);
  };
  const DenseOperand x(c.in(kX), ElementType::f32);
  const DenseOperand router(c.in(kRouter), ElementType::f32);
  const DenseOperand mixing =
      c.has(kMixing) ? DenseOperand(c.in(kMixing), ElementType::f32) : DenseOperand();
  c.check(!c.has(kMixing) || mixing.count() == router.count(), "got {} router weights, expected {}",
          mixing.count(), router.count());
  if (c.has(kMixing)) experts.routing.mix = mixing.as<float>();
  const DenseOperand scales =
      c.has(kScales) ? DenseOperand(c.in(kScales), ElementType::f32) : DenseOperand();
  if (c.has(kScales)) experts.routing.scales = scales.as<float>();
  const DenseOperand order = c.has(kOrder) ? DenseOperand(c.in(kOrder)) : DenseOperand();
  if (c.has(kOrder)) {
    experts.order = order.as<int32_t>();
    check_input_order({experts.order, static_cast<size_t>(order.count())}, order.extent(1));
  }
  const F32Result y(c.out());
  experts.run(x.as<float>(), router.as<float>(), y.data(), router.extent(0),
              x.extent(static_cast<size_t>(x.rank() - 1)), c.pool);
  y.store();
}

constexpr OperandSpec optional(std::string_view name, TypeSet types) {
  return {.name = name, .types = types, .arity = Arity::optional};
}
constexpr TypeSet kBytes = types(ElementType::u8);

}  // namespace

static const Register qmoe{{
    .name = "qmoe",
    .doc = "Mixture of experts with weights of 2, 4 or 8 bits and scales per row or block, or of "
           "the blocks of a GGUF type.",
    .operands = {{"x", kFloats},
                 {"router_probs", kFloats},
                 {"fc1_weights", kBytes},
                 optional("fc1_scales", kFloats),
                 optional("fc1_bias", kFloats),
                 {"fc2_weights", kBytes},
                 optional("fc2_scales", kFloats),
                 optional("fc2_bias", kFloats),
                 optional("fc3_weights", kBytes),
                 optional("fc3_scales", kFloats),
                 optional("fc3_bias", kFloats),
                 optional("fc1_zero_points", kBytes),
                 optional("fc2_zero_points", kBytes),
                 optional("fc3_zero_points", kBytes),
                 optional("router_weights", kFloats),
                 optional("expert_scales", kFloats),
                 optional("input_order", types(ElementType::i32))},
    .attributes = expert_attributes({{"expert_weight_bits", 4},
                                     {"block_size", 0},
                                     {"compute_type", "f32"},
                                     {"fc1_type", ""},
                                     {"fc2_type", ""},
                                     {"fc3_type", ""}}),
    .infer = infer_qmoe,
    .eval = evaluate_qmoe,
    .tokens = expert_tokens,
}};

}  // namespace lathe
