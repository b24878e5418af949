// SPDX-License-Identifier: MIT
// The steps of an elementwise program on one chunk.
#include "targets/cpu/elementwise_program.h"
#include "targets/cpu/kernels/elementwise/quantize_ops.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "tensor/convert.h"

namespace lathe::cpu {

void ElementwiseProgram::run(const interpret::Layout& layout,
                             std::span<const interpret::Access> all, const Parameters& parameters,
                             int64_t first, int64_t count, int64_t chunk, std::byte* memory) const {
  std::array<const std::byte*, kMaxLoads + kMaxSteps> values;
  const auto place = [&](size_t i) { return memory + offsets_[i] * chunk; };
  for (size_t i = 0; i < loads_.size(); ++i) {
    values[i] = loads_[i].bytes && all[i].linear
                    ? all[i].data + first
                    : interpret::load(layout, all[i], registers_[i].type, first, count, place(i),
                                      converter_);
  }
  const interpret::Access& out = all.back();
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
      quantise(step.quantisation, parameters.of[i], values[input], is_float, to, count);
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
void ElementwiseProgram::quantise(const Quantisation& step, std::pair<float, float> parameters,
                                  const std::byte* x, bool is_float, std::byte* y,
                                  int64_t count) const {
  const auto& [scale, zero] = parameters;
  const QuantizeScale by{&scale, &zero, false};
  const QuantizeOps& ops = quantize_ops(isa_);
  if (step.kind == Quantisation::Kind::quantise) {
    const auto* from = reinterpret_cast<const float*>(x);
    if (step.is_signed) return ops.to_i8(from, by, reinterpret_cast<int8_t*>(y), count);
    return ops.to_u8(from, by, reinterpret_cast<uint8_t*>(y), count);
  }
  auto* to = reinterpret_cast<float*>(y);
  if (is_float) {
    const auto* from = reinterpret_cast<const float*>(x);
    for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - zero) * scale;
  } else if (step.is_signed) {
    ops.from_i8(reinterpret_cast<const int8_t*>(x), by, to, count);
  } else {
    ops.from_u8(reinterpret_cast<const uint8_t*>(x), by, to, count);
  }
}

void ElementwiseProgram::apply(const Step& step, const std::byte* const* registers, std::byte* to,
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

}  // namespace lathe::cpu
