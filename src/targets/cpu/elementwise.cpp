// SPDX-License-Identifier: MIT
#include "targets/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/interpret.h"
#include "ops/interpret/access.h"
#include "ops/interpret/kernels.h"
#include "passes/fuse_regions.h"
#include "targets/cpu/activation_of.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/quantize_ops.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"
#include "targets/region_form.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

using interpret::Access;

constexpr int64_t kMaxChunk = 2048;         // elements, if every operand is contiguous
constexpr int64_t kChunkBytes = 24 * 1024;  // of all registers
constexpr size_t kMaxOperands = 16;
constexpr size_t kMaxLoads = 2 * kMaxOperands;  // an operand may be read as both

bool is_f32(const Instruction& instruction) {
  return instruction.result()->type().element == ElementType::f32 &&
         std::ranges::all_of(instruction.operands(), [](const Value* operand) {
           return operand->type().element == ElementType::f32;
         });
}

bool is_byte(const Value& value) {
  return value.type().element == ElementType::u8 || value.type().element == ElementType::i8;
}

bool is_quantisation(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::quantize_linear, &ops::dequantize_linear});
}

// Reason why the quantisation is no step of a region: between f32 and bytes with one scale.
std::string why_no_quantised_step(const Instruction& instruction) {
  const Value& x = *instruction.operands()[0];
  const Value& y = *instruction.result();
  const bool quantises = instruction.op() == ops::quantize_linear;
  const Value& real = quantises ? x : y;
  if (!is_byte(quantises ? y : x) || real.type().element != ElementType::f32 ||
      instruction.operands()[1]->type().element != ElementType::f32) {
    return fmt::format("{} to {}, supported: f32 and u8 or i8", to_string(x.type().element),
                       to_string(y.type().element));
  }
  for (size_t i = 1; i < instruction.operands().size(); ++i) {
    const Value* operand = instruction.operands()[i];
    if (operand != nullptr &&
        !std::ranges::all_of(*operand->type().dims, [](const Dim& dim) { return dim == Dim(1); })) {
      return "it has several scales or zero points";
    }
  }
  return "";
}

// The memory of one value of a chunk.
struct Register {
  ExprType type = ExprType::f32;
  bool bytes = false;  // quantised: u8 or i8, not `type`
};

// A region's operand as a register. `bytes`: read by dequantisations, in place where possible, else
// as f32.
struct Load {
  int operand = 0;
  bool bytes = false;
};

struct Quantisation {
  enum class Kind : uint8_t { none, quantise, dequantise } kind = Kind::none;
  bool is_signed = false;
  int scale = -1, zero = -1;  // operands of the launch; -1: absent
};

// One instruction on the registers of a chunk.
struct Step {
  std::array<int, kMaxOperands> inputs{};  // registers
  size_t count = 0;
  int output = 0;
  // One of these.
  std::optional<ActivationCall> activation;
  void (*binary)(const float*, const float*, float*, int64_t) = nullptr;
  bool is_swiglu = false;
  std::optional<CompiledExpr> formula;
  Quantisation quantisation;
  float alpha = 1;  // of swiglu
};

class Elementwise final : public Kernel {
 public:
  Elementwise(std::span<const Value* const> operands,
              std::span<const Instruction* const> instructions, Constants constants, Isa isa)
      : isa_(isa) {
    name_ = "cpu.";
    for (const Instruction* instruction : instructions) add_loads(operands, *instruction);
    std::vector<const Value*> values;
    for (const Load& load : loads_) {
      const Value* operand = operands[static_cast<size_t>(load.operand)];
      values.push_back(operand);
      registers_.push_back({load.bytes ? ExprType::f32 : register_of(*operand), load.bytes});
    }
    for (const Instruction* instruction : instructions) {
      if (instruction != instructions.front()) name_ += '+';
      name_ += instruction->op().name;
      steps_.push_back(make_step(operands, *instruction));
      Step& step = steps_.back();
      const bool dequantises = step.quantisation.kind == Quantisation::Kind::dequantise;
      const auto read =
          std::span(instruction->operands())
              .first(is_quantisation(*instruction) ? 1 : instruction->operands().size());
      for (const Value* operand : read) {
        size_t at = 0;
        while (values[at] != operand || (at < loads_.size() && loads_[at].bytes != dequantises))
          ++at;
        step.inputs[step.count++] = static_cast<int>(at);
      }
      step.output = static_cast<int>(values.size());
      values.push_back(instruction->result());
      registers_.push_back({register_of(*instruction->result()),
                            step.quantisation.kind == Quantisation::Kind::quantise});
    }
    out_type_ = values.back()->type().element;
    for (const Register& own : registers_) {
      offsets_.push_back(bytes_);
      // Bytes that are not read in place are loaded as f32.
      bytes_ += own.bytes ? int64_t{offsets_.size() <= loads_.size() ? 4 : 1}
                          : info(interpret::register_type(own.type)).bits / 8;
    }
    wide_ = bytes_;
    if (registers_.back().bytes) bytes_ += 8;
    make_table(constants);
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}", to_string(isa_), table_.empty() ? "" : ", a table of bytes");
  }
  // An element of the result depends on those of the same index.
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView& y = *args.out[0];
    std::array<Access, kMaxLoads + 1> all;
    for (size_t i = 0; i < loads_.size(); ++i) {
      all[i] = interpret::access_to(*args.in[static_cast<size_t>(loads_[i].operand)], y,
                                    loads_[i].operand);
    }
    all[loads_.size()] = {
        .data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides};
    interpret::Layout layout{.rank = y.rank, .dims = y.dims};
    const int64_t count = layout.count();
    if (count == 0) return;
    const auto used = std::span(all).first(loads_.size() + 1);
    interpret::collapse(layout, used);
    const bool contiguous = std::ranges::all_of(
        used, [](const Access& access) { return access.linear || access.scalar; });
    if (!table_.empty() && used[table_load_].linear && used.back().linear) {
      constexpr int64_t kTableGrain = 65536;
      return parallel_for(args.pool, count, kTableGrain, [&](int64_t begin, int64_t end) {
        quantize_ops(isa_).look_up(
            reinterpret_cast<const uint8_t*>(used[table_load_].data) + begin, table_.data(),
            reinterpret_cast<uint8_t*>(used.back().data) + begin, end - begin);
      });
    }
    const int64_t most = contiguous ? kMaxChunk : interpret::kMaxChunk;
    const int64_t chunk =
        std::max(std::min(most, kChunkBytes / bytes_) & -interpret::kLanes, interpret::kLanes);
    constexpr int64_t kGrain = 16384;
    const Parameters parameters =
        parameters_of([&](int operand) { return *args.in[static_cast<size_t>(operand)]; });
    parallel_for(args.pool, count, kGrain, [&](int64_t begin, int64_t end) {
      const ScratchBlock memory(chunk * bytes_ + kPadding);
      for (int64_t first = begin; first < end; first += chunk) {
        run(layout, used, parameters, first, std::min(chunk, end - first), chunk,
            static_cast<std::byte*>(memory.data()));
      }
    });
  }

  static constexpr size_t kMaxSteps = 32;

 private:
  // Loads of a scalar may write a whole vector.
  static constexpr int64_t kPadding = 64;
  // Scale and zero point of every step.
  struct Parameters {
    std::array<std::pair<float, float>, kMaxSteps> of;
  };

  static ExprType register_of(const Value& value) { return compute_type(value.type().element); }

  void add_loads(std::span<const Value* const> operands, const Instruction& instruction) {
    const bool dequantises = instruction.op() == ops::dequantize_linear;
    const auto read = std::span(instruction.operands())
                          .first(is_quantisation(instruction) ? 1 : instruction.operands().size());
    for (const Value* operand : read) {
      const auto at = std::ranges::find(operands, operand);
      if (at == operands.end()) continue;
      const auto place = static_cast<int>(at - operands.begin());
      const bool known = std::ranges::any_of(loads_, [&](const Load& load) {
        return load.operand == place && load.bytes == dequantises;
      });
      if (!known) loads_.push_back({place, dequantises});
    }
  }

  template <class View>
  Parameters parameters_of(View&& view) const {
    Parameters out;
    const auto number = [&](int operand) {
      float value = 0;
      if (operand < 0) return value;
      const TensorView& from = view(operand);
      convert(ElementType::f32, &value, from.type, from.data, 1);
      return value;
    };
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Quantisation& own = steps_[i].quantisation;
      if (own.kind != Quantisation::Kind::none) out.of[i] = {number(own.scale), number(own.zero)};
    }
    return out;
  }

  // A function of one byte and constants, to quantised values.
  void make_table(Constants constants) {
    const auto bytes = std::ranges::find_if(loads_, &Load::bytes);
    if (bytes == loads_.end() || !registers_.back().bytes) return;
    const auto constant = [&](int operand) {
      return constant_at(constants, static_cast<size_t>(operand));
    };
    for (const Load& load : loads_) {
      const Tensor* value = load.bytes ? nullptr : constant(load.operand);
      if (&load != &*bytes && (value == nullptr || value->count() != 1)) return;
    }
    for (const Step& step : steps_) {
      const Quantisation& own = step.quantisation;
      for (const int operand : {own.scale, own.zero}) {
        if (operand >= 0 && constant(operand) == nullptr) return;
      }
    }
    const Parameters parameters = parameters_of(
        [&](int operand) { return constant_at(constants, static_cast<size_t>(operand))->view(); });
    constexpr int64_t kBytes = 256;
    std::array<uint8_t, kBytes> index;
    for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<uint8_t>(i);
    table_.resize(kBytes);
    interpret::Layout layout{.rank = 1};
    layout.dims[0] = kBytes;
    std::array<Access, kMaxLoads + 1> all;
    for (size_t i = 0; i < loads_.size(); ++i) {
      const Tensor* value = loads_[i].bytes ? nullptr : constant(loads_[i].operand);
      all[i] = value == nullptr ? Access{.data = reinterpret_cast<std::byte*>(index.data()),
                                         .type = ElementType::u8,
                                         .strides = {1}}
                                : Access{.data = const_cast<std::byte*>(value->as<std::byte>()),
                                         .type = value->type()};
    }
    all[loads_.size()] = {
        .data = reinterpret_cast<std::byte*>(table_.data()), .type = out_type_, .strides = {1}};
    const auto used = std::span(all).first(loads_.size() + 1);
    for (Access& access : used) interpret::classify(layout, access);
    table_load_ = static_cast<size_t>(bytes - loads_.begin());
    const ScratchBlock memory(kBytes * bytes_ + kPadding);
    run(layout, used, parameters, 0, kBytes, kBytes, static_cast<std::byte*>(memory.data()));
  }

  Step make_step(std::span<const Value* const> operands, const Instruction& instruction) const {
    Step step;
    if (is_quantisation(instruction)) {
      const bool quantises = instruction.op() == ops::quantize_linear;
      const Value& bytes = quantises ? *instruction.result() : *instruction.operands()[0];
      const auto place = [&](size_t i) {
        if (!has_operand(instruction, i)) return -1;
        const auto at = std::ranges::find(operands, instruction.operands()[i]);
        return static_cast<int>(at - operands.begin());
      };
      step.quantisation = {
          quantises ? Quantisation::Kind::quantise : Quantisation::Kind::dequantise,
          bytes.type().element == ElementType::i8, place(1), place(2)};
      return step;
    }
    const RowOps& rows = row_ops(isa_);
    const Op& op = instruction.op();
    if (is_f32(instruction)) step.activation = activation_of(instruction);
    if (step.activation) return step;
    if (is_f32(instruction) && instruction.operands().size() == 2) {
      step.binary = op == ops::add   ? rows.add
                    : op == ops::sub ? rows.sub
                    : op == ops::mul ? rows.mul
                                     : nullptr;
      step.is_swiglu = op == ops::swiglu;
      if (step.is_swiglu) {
        step.alpha = static_cast<float>(attribute<double>(instruction, "alpha"));
      }
      if (step.binary != nullptr || step.is_swiglu) return step;
    }
    step.formula.emplace(formula_of(instruction));
    return step;
  }

  void run(const interpret::Layout& layout, std::span<const Access> all,
           const Parameters& parameters, int64_t first, int64_t count, int64_t chunk,
           std::byte* memory) const {
    std::array<const std::byte*, kMaxLoads + kMaxSteps> values;
    const auto place = [&](size_t i) { return memory + offsets_[i] * chunk; };
    for (size_t i = 0; i < loads_.size(); ++i) {
      values[i] = loads_[i].bytes && all[i].linear
                      ? all[i].data + first
                      : interpret::load(layout, all[i], registers_[i].type, first, count, place(i),
                                        converter_);
    }
    const Access& out = all.back();
    const Register& last = registers_.back();
    const bool same_format = last.bytes || (out.type == interpret::register_type(last.type) &&
                                            last.type != ExprType::boolean);
    std::byte* direct =
        out.linear && same_format ? out.data + first * (info(out.type).bits / 8) : nullptr;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      const auto at = static_cast<size_t>(step.output);
      std::byte* to = i + 1 == steps_.size() && direct != nullptr ? direct : place(at);
      if (step.quantisation.kind == Quantisation::Kind::none) {
        apply(step, values.data(), to, count);
      } else {
        const auto input = static_cast<size_t>(step.inputs[0]);
        const bool is_float = input < loads_.size() && !all[input].linear;
        const auto [scale, zero] = parameters.of[i];
        quantise(step.quantisation, {&scale, &zero, false}, values[input], is_float, to, count);
      }
      values[at] = to;
    }
    if (direct != nullptr) return;
    const std::byte* result = values[registers_.size() - 1];
    if (last.bytes) {  // as elements of the register's type
      std::byte* wide = memory + wide_ * chunk;
      convert(interpret::register_type(last.type), wide, out.type, result, count);
      result = wide;
    }
    interpret::store(layout, out, last.type, first, count, result, converter_);
  }

  // `is_float`: bytes that were loaded as f32.
  void quantise(const Quantisation& step, const QuantizeScale& by, const std::byte* x,
                bool is_float, std::byte* y, int64_t count) const {
    const QuantizeOps& ops = quantize_ops(isa_);
    if (step.kind == Quantisation::Kind::quantise) {
      const auto* from = reinterpret_cast<const float*>(x);
      if (step.is_signed) return ops.to_i8(from, by, reinterpret_cast<int8_t*>(y), count);
      return ops.to_u8(from, by, reinterpret_cast<uint8_t*>(y), count);
    }
    auto* to = reinterpret_cast<float*>(y);
    if (is_float) {
      const auto* from = reinterpret_cast<const float*>(x);
      for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - *by.zero) * *by.scale;
    } else if (step.is_signed) {
      ops.from_i8(reinterpret_cast<const int8_t*>(x), by, to, count);
    } else {
      ops.from_u8(reinterpret_cast<const uint8_t*>(x), by, to, count);
    }
  }

  void apply(const Step& step, const std::byte* const* registers, std::byte* to,
             int64_t count) const {
    const auto floats = [&](size_t i) {
      return reinterpret_cast<const float*>(registers[step.inputs[i]]);
    };
    auto* y = reinterpret_cast<float*>(to);
    if (step.activation) {
      const ActivationCall& call = *step.activation;
      vector_ops(isa_).activate(call.activation, call.a, call.b, floats(0), y, count);
    } else if (step.binary != nullptr) {
      step.binary(floats(0), floats(1), y, count);
    } else if (step.is_swiglu) {
      row_ops(isa_).swiglu(step.alpha, floats(0), floats(1), y, count);
    } else {
      std::array<ElementOperand, kMaxOperands> operands;
      for (size_t i = 0; i < step.count; ++i) {
        const auto input = static_cast<size_t>(step.inputs[i]);
        operands[i] = {registers[input], interpret::register_type(registers_[input].type), 1};
      }
      const auto output = static_cast<size_t>(step.output);
      step.formula->run(std::span(operands).first(step.count), to,
                        interpret::register_type(registers_[output].type), count);
    }
  }

  static void convert_with(const void* ops, ElementType to, void* dst, ElementType from,
                           const void* src, int64_t count) {
    convert_elements(*static_cast<const VectorOps*>(ops), to, dst, from, src, count);
  }

  std::string name_;
  Isa isa_;
  interpret::Converter converter_{convert_with, &vector_ops(isa_)};
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  std::vector<Register> registers_;  // of loads, then of results
  std::vector<int64_t> offsets_;     // of registers, times elements of a chunk
  int64_t wide_ = 0;                 // likewise, of a quantised result in its register's type
  int64_t bytes_ = 0;                // of all registers, per element
  ElementType out_type_ = ElementType::f32;
  std::vector<uint8_t> table_;  // by the byte of a load; empty: none
  size_t table_load_ = 0;
};

}  // namespace

std::string why_no_elementwise(const Instruction& instruction) {
  if (!is_elementwise(instruction.op())) return "it is not elementwise";
  if (instruction.operands().size() > kMaxOperands) return "it has too many operands";
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) return "an operand is absent";
    if (!has_compute_type(operand->type().element)) {
      return fmt::format("an operand is {}", to_string(operand->type().element));
    }
  }
  const ElementType result = instruction.result()->type().element;
  return has_compute_type(result) ? "" : fmt::format("the result is {}", to_string(result));
}

std::string why_not_fused(const Instruction& instruction) {
  if (is_quantisation(instruction)) return why_no_quantised_step(instruction);
  const std::string reason = why_no_elementwise(instruction);
  return reason.empty() ? why_not_in_register(instruction) : reason;
}

std::string why_no_elementwise_region(const Instruction& region) {
  return why_no_elementwise_body(region, {kMaxOperands, Elementwise::kMaxSteps}, why_not_fused);
}

std::unique_ptr<const Kernel> make_elementwise_region(const Instruction& region,
                                                      Constants constants, Isa isa) {
  const Module& body = *region.bodies()[0];
  std::vector<const Value*> operands;
  for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
  std::vector<const Instruction*> instructions;
  for (const auto& instruction : body.instructions()) instructions.push_back(instruction.get());
  return std::make_unique<Elementwise>(operands, instructions, constants, isa);
}

namespace {

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return why_no_elementwise(instruction);
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  const std::vector<const Value*> operands(instruction.operands().begin(),
                                           instruction.operands().end());
  const std::array<const Instruction*, 1> alone{&instruction};
  return {std::make_unique<Elementwise>(operands, alone, constants, isa), ""};
}

}  // namespace

const KernelEntry kElementwise{ops::identity, why_not, make};

}  // namespace lathe::cpu
