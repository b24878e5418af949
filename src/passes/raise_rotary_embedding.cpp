// SPDX-License-Identifier: MIT
#include "passes/raise_rotary_embedding.h"

#include <algorithm>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int kRank = 4;    // [batch, heads, positions, size]
constexpr int kDepth = 12;  // of instructions between tables and what they repeat

std::optional<int64_t> last_extent(const Value& value) {
  const Type& type = value.type();
  if (!type.is_ranked() || type.rank() == 0) return std::nullopt;
  return type.dims->back().constant();
}

// True if an axis attribute names the last axis.
bool is_last_axis(const Instruction& instruction) {
  const auto axis = std::get<int64_t>(*find_attribute(instruction.attributes(), "axis"));
  return axis == -1 || axis == instruction.operands()[0]->type().rank() - 1;
}

// What a slice keeps of the last axis, if it cuts no other.
struct Part {
  Value* of;
  int64_t begin;
  int64_t end;
};

std::optional<Part> part_of(const Value& value) {
  const Instruction* slice = defined_by(value, ops::slice);
  if (slice == nullptr || slice->operands().size() < 4 || slice->operands()[3] == nullptr) {
    return std::nullopt;
  }
  Value* x = slice->operands()[0];
  const std::optional<int64_t> extent = last_extent(*x);
  const std::optional<double> axis = number_of(*slice->operands()[3]);
  const bool steps = slice->operands().size() > 4 && slice->operands()[4] != nullptr &&
                     number_of(*slice->operands()[4]) != 1;
  if (!extent || !axis || steps || (*axis != -1 && *axis != x->type().rank() - 1)) {
    return std::nullopt;
  }
  const auto at = [&](size_t i) -> std::optional<int64_t> {
    const std::optional<double> number = number_of(*slice->operands()[i]);
    if (!number) return std::nullopt;
    const auto size = static_cast<double>(*extent);
    return static_cast<int64_t>(std::clamp(*number < 0 ? *number + size : *number, 0.0, size));
  };
  const std::optional<int64_t> begin = at(1), end = at(2);
  if (!begin || !end) return std::nullopt;
  return Part{x, *begin, *end};
}

// x if the value is concat(-x[half:], x[:half]).
Value* rotated_of(const Value& value) {
  const Instruction* concat = defined_by(value, ops::concat);
  if (concat == nullptr || concat->operands().size() != 2 || !value.type().is_ranked() ||
      !is_last_axis(*concat)) {
    return nullptr;
  }
  const Instruction* minus = defined_by(*concat->operands()[0], ops::neg);
  if (minus == nullptr) return nullptr;
  const std::optional<Part> high = part_of(*minus->operands()[0]);
  const std::optional<Part> low = part_of(*concat->operands()[1]);
  if (!high || !low || high->of != low->of) return nullptr;
  const int64_t size = *last_extent(*low->of);
  const bool halves = size % 2 == 0 && low->begin == 0 && low->end == size / 2 &&
                      high->begin == size / 2 && high->end == size;
  return halves ? low->of : nullptr;
}

// The left half of a literal whose columns are repeated once; null if they are not.
Value* half_of_literal(Builder* b, Value& value, int64_t half) {
  const std::vector<double> all = numbers_of(value);
  if (all.empty()) return nullptr;
  const Type& type = value.type();
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
  dims.back() = half;
  const Tensor left(type.element, dims);
  const auto width = static_cast<size_t>(half);
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t row = i / (2 * width), column = i % (2 * width);
    if (column < width) {
      store_double(type.element, left.data(), static_cast<int64_t>(row * width + column), all[i]);
    } else if (all[i] != all[i - width]) {
      return nullptr;
    }
  }
  return b == nullptr ? &value : b->literal(left);
}

// The left half of the last axis of a value whose halves are equal; null where that is unknown.
// Without a builder some value that is not null.
Value* half_of(Builder* b, Value& value, int64_t half, int depth = kDepth) {
  if (depth == 0 || last_extent(value) != 2 * half) return nullptr;
  const Instruction* made = value.definition();
  if (made == nullptr || made->results().size() != 1) return nullptr;
  if (is_any_of(made->op(), {&ops::literal})) return half_of_literal(b, value, half);
  const std::vector<Value*>& operands = made->operands();
  if (made->op() == ops::concat) {
    const bool twice = operands.size() == 2 && operands[0] == operands[1] && is_last_axis(*made) &&
                       last_extent(*operands[0]) == half;
    return twice ? operands[0] : nullptr;
  }
  // A gather along another axis keeps columns, and so do elementwise ops and new axes of size 1.
  const bool gathers = made->op() == ops::gather && !is_last_axis(*made);
  const bool inserts = made->op() == ops::unsqueeze || gathers;
  if (!inserts && made->op().formula == nullptr) return nullptr;
  std::vector<Value*> halves;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) return nullptr;
    const bool kept = inserts
                          ? i > 0
                          : operands[i]->type().is_ranked() &&
                                (operands[i]->type().rank() == 0 || last_extent(*operands[i]) == 1);
    Value* own = kept ? operands[i] : half_of(b, *operands[i], half, depth - 1);
    if (own == nullptr) return nullptr;
    halves.push_back(own);
  }
  return b == nullptr ? &value : (*b)(made->op(), halves, made->attributes());
}

// Which tables rotary_embedding takes: of each sequence, or of all, then from position 0.
enum class Tables : uint8_t { none, own, shared };

Tables tables_of(const Value& table, const Type& x) {
  const Type& type = table.type();
  if (x.rank() != kRank || !type.is_ranked() || type.rank() < 2 || type.rank() > kRank) {
    return Tables::none;
  }
  std::vector<Dim> dims(static_cast<size_t>(kRank - type.rank()), Dim(1));
  dims.insert(dims.end(), type.dims->begin(), type.dims->end());
  if (!(dims[1] == Dim(1)) || !(dims[2] == (*x.dims)[2])) return Tables::none;
  if (type.rank() == kRank && dims[0] == (*x.dims)[0]) return Tables::own;
  return dims[0] == Dim(1) ? Tables::shared : Tables::none;
}

// Without the axis of heads, and if all sequences share it, without that of sequences.
Value* without_heads(Builder& b, Value* table, Tables kind) {
  std::vector<int64_t> axes;
  const int rank = table->type().rank();
  for (int64_t axis = kind == Tables::own ? 1 : 0; axis < rank - 2; ++axis) axes.push_back(axis);
  return axes.empty() ? table : b(ops::squeeze, {table, b.integers(axes)});
}

Value* raise(Match& match) {
  const Value* product = match["product"];
  Value* x = rotated_of(*match["rotated"]);
  const Instruction* scaled = defined_by(*product, ops::mul);
  if (x == nullptr || scaled == nullptr || !(x->type() == match.root().result()->type()) ||
      x->type().element == ElementType::f64) {  // the op computes in f32
    return nullptr;
  }
  const auto& operands = scaled->operands();
  if (operands[0] != x && operands[1] != x) return nullptr;
  Value* cos = operands[operands[0] == x ? 1 : 0];
  Value* sin = match["sin"];
  const int64_t half = *last_extent(*x) / 2;
  Builder& b = match.b;
  const Tables kind = tables_of(*cos, x->type());
  if (kind == Tables::none || tables_of(*sin, x->type()) != kind ||
      half_of(nullptr, *cos, half) == nullptr || half_of(nullptr, *sin, half) == nullptr) {
    return nullptr;
  }
  const auto table = [&](Value* whole) {
    return without_heads(b, half_of(&b, *whole, half), kind);
  };
  std::vector<Value*> all{x, table(cos), table(sin)};
  if (kind == Tables::shared) all.push_back(b.integers({0}));
  return b(ops::rotary_embedding, all);
}

const RuleTable& rules() {
  const Pattern rotated = op(ops::concat, {value("low"), value("high")}).named("rotated");
  static const RuleTable table({
      {"raise_rotary_embedding", value("product") + rotated * value("sin"), raise},
  });
  return table;
}

}  // namespace

const Pass raise_rotary_embedding{
    .name = "raise_rotary_embedding",
    .doc = "Recognises RoPE written out as rotated halves.",
    .run = [](Program& program) { return rules().apply(program); },
};

}  // namespace lathe
