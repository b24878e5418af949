// SPDX-License-Identifier: MIT
#include "import/checkpoint/experts.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "import/checkpoint/packed_experts.h"
#include "ir/ops.h"
#include "ops/support/block_format.h"

namespace lathe::checkpoint {
namespace {

// The order of gates and values, as the attribute swiglu_fusion has it.
enum Fusion : int64_t { kApart = 0, kAlternating = 1, kGatesFirst = 2 };

class ExpertsWriter {
 public:
  ExpertsWriter(DecoderBuilder& builder, const ExpertsBlock& block, const std::string& prefix,
                Value* x, Value* router)
      : b_(builder),
        weights_(builder.weights()),
        block_(block),
        prefix_(prefix),
        joined_(weights_.has(prefix + "gate_up_proj")),
        alternating_(weights_.has(prefix + "gate_up_proj_bias")),
        x_(x),
        router_(builder.reshape(router, {-1, block.experts})) {}

  Value* write() {
    if (Value* y = from_blocks()) return y;
    if (Value* y = from_quantised()) return y;
    return from_floats();
  }

 private:
  // Null unless all matrices are stacks of GGUF blocks, those of gates and values of one type.
  Value* from_blocks() {
    const std::array<std::string, 3> names = {joined_ ? "gate_up_proj" : "gate_proj", "down_proj",
                                              "up_proj"};
    const size_t count = joined_ ? 2 : 3;
    std::array<const StoredTensor*, 3> stored{};
    for (size_t i = 0; i < count; ++i) {
      stored[i] = weights_.find(prefix_ + names[i]);
      if (stored[i] == nullptr || stored[i]->rank() != 3 || stored[i]->quantised != nullptr ||
          find_block_format(stored[i]->type) == nullptr) {
        return nullptr;
      }
      check_stack(prefix_ + names[i], *stored[i]);
    }
    if (!joined_ && (stored[2]->type != stored[0]->type || stored[2]->dims != stored[0]->dims)) {
      return nullptr;
    }
    std::vector<Value*> operands(17);
    Attributes types;
    for (size_t i = 0; i < count; ++i) {
      operands[2 + 3 * i] = b_.blocks_literal(*stored[i], stored[i]->stored_name);
      operands[4 + 3 * i] = bias(names[i]);
      types.emplace_back(fmt::format("fc{}_type", i + 1), stored[i]->type);
    }
    return qmoe(std::move(operands), std::move(types), joined_ ? kGatesFirst : kApart);
  }

  // Null unless all matrices are quantised in one form that qmoe reads.
  Value* from_quantised() {
    std::vector<const StoredTensor*> fc1, fc2;
    if (joined_) {
      fc1 = {&weights_.get(prefix_ + "gate_up_proj")};
      fc2 = {&weights_.get(prefix_ + "down_proj")};
      if (fc1[0]->rank() != 3 || fc2[0]->rank() != 3) return nullptr;
    } else {
      for (int64_t i = 0; i < block_.experts; ++i) {
        for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
          const StoredTensor* one = weights_.find(name_of(part, i));
          if (one == nullptr || one->rank() != 2) return nullptr;
          (part[0] == 'd' ? fc2 : fc1).push_back(one);
        }
      }
    }
    std::optional<PackedExperts> first = pack_experts(fc1, block_.experts);
    if (!first) return nullptr;
    std::optional<PackedExperts> second = pack_experts(fc2, block_.experts);
    if (!second || second->bits != first->bits || second->block != first->block) return nullptr;
    Value* bias1 = bias("gate_up_proj");
    const bool sorts = second->order.data() != nullptr;
    if (sorts && (bias1 != nullptr || first->codes.dims()[1] != 2 * second->order.dims()[1])) {
      return nullptr;
    }
    sort_rows(*first, *second, alternating_);
    const auto part = [&](const Tensor& tensor, const char* name) {
      return tensor.data() == nullptr ? nullptr : b_.literal(tensor, prefix_ + name);
    };
    std::vector<Value*> operands(17);
    operands[2] = part(first->codes, "fc1.codes");
    operands[3] = part(first->scales, "fc1.scales");
    operands[4] = bias1;
    operands[5] = part(second->codes, "fc2.codes");
    operands[6] = part(second->scales, "fc2.scales");
    operands[7] = bias("down_proj");
    operands[11] = part(first->zeros, "fc1.zeros");
    operands[12] = part(second->zeros, "fc2.zeros");
    operands[16] = part(first->order, "fc1.order");
    return qmoe(std::move(operands),
                {{"expert_weight_bits", first->bits}, {"block_size", first->block}},
                alternating_ ? kAlternating : kGatesFirst);
  }

  Value* from_floats() {
    std::vector<Value*> first =
        joined_ ? matrices({"gate_up_proj"}) : matrices({"gate_proj", "up_proj"});
    std::vector<Value*> operands = {x_,
                                    router_,
                                    first.front(),
                                    bias(joined_ ? "gate_up_proj" : "gate_proj"),
                                    matrices({"down_proj"}).front(),
                                    bias("down_proj"),
                                    joined_ ? nullptr : first.back(),
                                    bias("up_proj"),
                                    block_.scales};
    trim(operands);
    const Fusion fusion = !joined_ ? kApart : alternating_ ? kAlternating : kGatesFirst;
    return b_.ops()(ops::moe, std::move(operands), attributes(fusion));
  }

  // Sets the operands that all forms share. qmoe normalises the weights of the selected experts
  // unless it is given them.
  Value* qmoe(std::vector<Value*> operands, Attributes own, Fusion fusion) {
    operands[0] = x_;
    operands[1] = router_;
    if (!block_.normalised && !block_.sparse_mixer) {
      operands[14] = b_.ops()(ops::softmax, {router_});
    }
    operands[15] = block_.scales;
    trim(operands);
    const Attributes common = attributes(fusion);
    own.insert(own.end(), common.begin(), common.end());
    own.emplace_back("compute_type", std::string("int8"));
    return b_.ops()(ops::qmoe, std::move(operands), std::move(own));
  }

  Attributes attributes(Fusion fusion) const {
    return {{"k", block_.selected},
            {"activation_type", block_.activation},
            {"activation_alpha", block_.alpha},
            {"activation_beta", block_.beta},
            {"normalize_routing_weights", block_.normalised},
            {"swiglu_fusion", int64_t{fusion}},
            {"swiglu_limit", block_.limit},
            {"use_sparse_mixer", block_.sparse_mixer}};
  }

  static void trim(std::vector<Value*>& operands) {
    while (operands.back() == nullptr) operands.pop_back();
  }

  // Null without one.
  Value* bias(const std::string& part) {
    const std::string name = prefix_ + part + "_bias";
    return weights_.has(name) ? b_.literal(float_tensor(weights_.get(name), name), name) : nullptr;
  }

  std::string name_of(std::string_view part, int64_t expert) const {
    return fmt::format("{}{}.{}.weight", prefix_, expert, part);
  }

  void check_stack(const std::string& name, const StoredTensor& stack) const {
    check(stack.rank() == 3 && stack.dims[0] == block_.experts, ErrorKind::invalid_model,
          "tensor '{}' has shape [{}], expected 3 axes, the first of {} experts", escape(name),
          fmt::join(stack.dims, ", "), block_.experts);
  }

  // The 16-bit type of all, else f32.
  static ElementType kept_type(const std::vector<const StoredTensor*>& all) {
    const std::string& type = all.front()->type;
    const bool alike = std::ranges::all_of(all, [&](const StoredTensor* one) {
      return one->quantised == nullptr && one->type == type;
    });
    if (!alike || (type != "BF16" && type != "F16")) return ElementType::f32;
    return type == "BF16" ? ElementType::bf16 : ElementType::f16;
  }

  // Matrices [experts, outputs, inputs] of one type: of each part a stack, or a tensor of each
  // expert.
  std::vector<Value*> matrices(const std::vector<const char*>& parts) {
    const bool stacked = weights_.has(prefix_ + parts.front());
    const int64_t count = stacked ? 1 : block_.experts;
    std::vector<std::string> names;
    std::vector<const StoredTensor*> stored;
    for (const char* part : parts) {
      for (int64_t i = 0; i < count; ++i) {
        const std::string& name = names.emplace_back(stacked ? prefix_ + part : name_of(part, i));
        const StoredTensor& own = *stored.emplace_back(&weights_.get(name));
        if (stacked) check_stack(name, own);
        check(stacked || own.rank() == 2, ErrorKind::invalid_model,
              "tensor '{}' has rank {}, expected 2", escape(name), own.rank());
        check(own.dims == stored.front()->dims, ErrorKind::invalid_model,
              "tensor '{}' has shape [{}], expected [{}] as {}", escape(name),
              fmt::join(own.dims, ", "), fmt::join(stored.front()->dims, ", "),
              stacked ? "the gates'" : "the first expert's");
      }
    }
    const ElementType type = kept_type(stored);
    std::vector<Value*> made, each;
    for (size_t i = 0; i < names.size(); ++i) {
      const StoredTensor& own = *stored[i];
      Dims dims = own.dims;
      if (!stacked) dims.insert(dims.begin(), 1);
      Value* literal = b_.stored_literal(own, names[i], dims);
      each.push_back(type == ElementType::f32 ? b_.ops().cast(literal, type) : literal);
      if (std::ssize(each) < count) continue;
      Value* all = each.front();
      if (count > 1) all = b_.ops()(ops::concat, each, {{"axis", int64_t{0}}});
      // Quantisers have outputs by rows.
      if (alternating_ && own.quantised == nullptr) all = b_.ops().transpose(all, {0, 2, 1});
      made.push_back(all);
      each.clear();
    }
    return made;
  }

  DecoderBuilder& b_;
  const Weights& weights_;
  const ExpertsBlock& block_;
  const std::string& prefix_;
  const bool joined_;       // gates and values are one tensor
  const bool alternating_;  // as in gpt-oss
  Value* const x_;
  Value* const router_;  // [tokens, experts]
};

}  // namespace

Value* add_experts(DecoderBuilder& builder, const ExpertsBlock& block, const std::string& prefix,
                   Value* x, Value* router) {
  return ExpertsWriter(builder, block, prefix, x, router).write();
}

}  // namespace lathe::checkpoint
