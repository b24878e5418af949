// SPDX-License-Identifier: MIT
#include "ir/infer.h"

#include <algorithm>

namespace lathe {
namespace {

std::string operand_list(const Instruction& instruction) {
  std::string text = "operands:";
  const auto& operands = instruction.operands();
  const auto& specs = instruction.op().operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string_view label = specs.empty() ? "" : specs[std::min(i, specs.size() - 1)].name;
    text += fmt::format("{} {} {}", i > 0 ? "," : "", label,
                        operands[i] == nullptr ? "(absent)" : operands[i]->type().to_string());
  }
  return text;
}

template <class T>
const T& attribute_of(const Instruction& instruction, std::string_view name) {
  const Attribute* value = find_attribute(instruction.attributes(), name);
  check(value != nullptr && std::holds_alternative<T>(*value), ErrorKind::internal,
        "{} has no attribute '{}' of the requested kind", instruction.op().name, name);
  return std::get<T>(*value);
}

// True if integer arithmetic in `type` cannot wrap around at this value: dims do not wrap. Shapes
// computed in i32 are assumed not to overflow.
bool stays_in(ElementType type, const Dim& value) {
  const ElementTypeInfo& about = info(type);
  const Range range = value.range();
  const bool is_signed = about.cls == ElementClass::signed_int;
  if (is_signed && about.bits >= 32 && !value.is_constant()) {
    return range.min < kUnbounded && range.max > -kUnbounded;
  }
  const int bits = std::min(is_signed ? about.bits - 1 : about.bits, 63);
  const int64_t most = bits == 63 ? kUnbounded : (int64_t{1} << bits) - 1;
  return range.max <= most && range.min >= (is_signed ? -most - 1 : 0);
}

}  // namespace

bool Infer::has(int i) const {
  return i >= 0 && i < count() && instruction_.operands()[static_cast<size_t>(i)] != nullptr;
}

const Type& Infer::type(int i) const {
  check(has(i), "operand {} is missing, got {} operands", i, count());
  if (!probes_.empty()) return probes_[static_cast<size_t>(i)];
  return instruction_.operands()[static_cast<size_t>(i)]->type();
}

const std::vector<Dim>& Infer::dims(int i) const {
  const Type& operand = type(i);
  if (!operand.is_ranked()) {
    fail("operand {} is {}, expected a tensor of known rank", i, operand.to_string());
  }
  return *operand.dims;
}

const Dim& Infer::dim(int i, int axis) const {
  const std::vector<Dim>& all = dims(i);
  check(axis >= 0 && axis < static_cast<int>(all.size()),
        "operand {} has rank {}, axis {} is out of range", i, all.size(), axis);
  return all[static_cast<size_t>(axis)];
}

const std::vector<Dim>* Infer::elements(int i) const {
  if (!has(i)) return nullptr;
  const auto& elements = instruction_.operands()[static_cast<size_t>(i)]->elements();
  return elements ? &*elements : nullptr;
}

std::optional<std::vector<int64_t>> Infer::constants(int i) const {
  const std::vector<Dim>* dims = elements(i);
  if (dims == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  for (const Dim& dim : *dims) {
    if (!dim.is_constant()) return std::nullopt;
    values.push_back(*dim.constant());
  }
  return values;
}

const Tensor* Infer::literal(int i) const {
  if (!has(i)) return nullptr;
  const Instruction* definition = instruction_.operands()[static_cast<size_t>(i)]->definition();
  if (definition == nullptr || definition->literal() == nullptr) return nullptr;
  return &definition->literal()->tensor;
}

bool Infer::has_attribute(std::string_view name) const {
  return find_attribute(instruction_.attributes(), name) != nullptr;
}
int64_t Infer::integer(std::string_view name) const {
  return attribute_of<int64_t>(instruction_, name);
}
double Infer::number(std::string_view name) const {
  return attribute_of<double>(instruction_, name);
}
bool Infer::boolean(std::string_view name) const { return attribute_of<bool>(instruction_, name); }
const std::string& Infer::text(std::string_view name) const {
  return attribute_of<std::string>(instruction_, name);
}
ElementType Infer::element_type(std::string_view name) const {
  return attribute_of<ElementType>(instruction_, name);
}
const Integers& Infer::integers(std::string_view name) const {
  return attribute_of<Integers>(instruction_, name);
}
const std::vector<Dim>& Infer::dims_attribute(std::string_view name) const {
  return attribute_of<std::vector<Dim>>(instruction_, name);
}

int Infer::axis(int64_t value, int rank) const {
  check(value >= -rank && value < rank, "axis {} is out of range for rank {} (expected {} to {})",
        value, rank, -rank, rank - 1);
  return static_cast<int>(value < 0 ? value + rank : value);
}

std::vector<int> Infer::axes(std::string_view attribute, int rank) const {
  std::vector<int> out;
  if (has_attribute(attribute)) {
    for (const int64_t value : integers(attribute)) {
      const int at = axis(value, rank);
      check(std::find(out.begin(), out.end(), at) == out.end(), "axis {} is a duplicate", value);
      out.push_back(at);
    }
  }
  if (out.empty()) {
    for (int i = 0; i < rank; ++i) out.push_back(i);
  }
  return out;
}

void Infer::result(ElementType element, std::vector<Dim> dims) {
  result(Type::tensor(element, std::move(dims)));
}

void Infer::result(Type type) {
  if (type.is_ranked()) {
    check(type.rank() <= kMaxRank, "the result has rank {}, at most {} is supported", type.rank(),
          kMaxRank);
  }
  types_.push_back(std::move(type));
  elements_.emplace_back();
}

void Infer::result_elements(std::vector<Dim> elements) {
  if (static_cast<int64_t>(elements.size()) > kMaxSymbolicElements) return;
  const ElementType type = types_.back().element;
  for (const Dim& element : elements) {
    if (!stays_in(type, element)) return;
  }
  elements_.back() = std::move(elements);
}

Dim Infer::found(std::string_view hint, Range range) {
  if (!probes_.empty()) {
    return SymbolRef(
        std::make_shared<const Symbol>(Symbol{std::string(hint), SymbolKind::found, range, {}}));
  }
  if (found_count_ == instruction_.found().size()) {
    instruction_.add_found(
        instruction_.module()->program().add_symbol(hint, SymbolKind::found, range));
  }
  return instruction_.found()[found_count_++];
}

void Infer::require_equal(const Dim& a, const Dim& b, std::string_view what) {
  const Ternary known = equal(a, b);
  if (known == Ternary::no) fail("{}: {} and {} differ", what, a.to_string(), b.to_string());
  if (known == Ternary::unknown) {
    guards_.push_back({Guard::Kind::requirement, Guard::Relation::equal, a, b,
                       fmt::format("{}: {}", instruction_.op().name, what)});
  }
}

void Infer::require_less_equal(const Dim& a, const Dim& b, std::string_view what) {
  const Ternary known = less_equal(a, b);
  if (known == Ternary::no) fail("{}: {} exceeds {}", what, a.to_string(), b.to_string());
  if (known == Ternary::unknown) {
    guards_.push_back({Guard::Kind::requirement, Guard::Relation::less_equal, a, b,
                       fmt::format("{}: {}", instruction_.op().name, what)});
  }
}

Dim Infer::broadcast(const Dim& a, const Dim& b, std::string_view what) {
  if (a == b) return a;
  const bool a_constant = a.is_constant();
  const bool b_constant = b.is_constant();
  if (a_constant && *a.constant() == 1) return b;
  if (b_constant && *b.constant() == 1) return a;
  check(!(a_constant && b_constant), "{}: sizes {} and {} do not broadcast", what, a.to_string(),
        b.to_string());
  const Dim one = 1;
  const bool impossible =
      equal(a, b) == Ternary::no && equal(a, one) == Ternary::no && equal(b, one) == Ternary::no;
  check(!impossible, "{}: sizes {} and {} do not broadcast", what, a.to_string(), b.to_string());
  guards_.push_back({Guard::Kind::requirement, Guard::Relation::broadcast, a, b,
                     fmt::format("{}: {}", instruction_.op().name, what)});
  return Dim::bcast(a, b);
}

std::vector<Dim> Infer::broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  const std::vector<Dim>& longer = a.size() >= b.size() ? a : b;
  const std::vector<Dim>& shorter = a.size() >= b.size() ? b : a;
  std::vector<Dim> out = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    out[lead + i] = broadcast(longer[lead + i], shorter[i], fmt::format("axis {}", lead + i));
  }
  return out;
}

std::vector<Dim> Infer::broadcast_operands() {
  std::vector<Dim> out;
  for (int i = 0; i < count(); ++i) {
    if (has(i)) out = broadcast(out, dims(i));
  }
  return out;
}

void Infer::raise(std::string message) const {
  Error error(ErrorKind::invalid_model,
              fmt::format("{}: {}", instruction_.op().name, std::move(message)));
  error.note(operand_list(instruction_));
  throw error;
}

void Infer::check_operand(const OperandSpec& spec, int i) const {
  if (!has(i)) {
    check(spec.arity == Arity::optional, "operand {} ('{}') is missing", i, spec.name);
    return;
  }
  if (spec.any_kind) return;
  const Type& operand = type(i);
  if (operand.kind != spec.kind) {
    fail("operand '{}' is a {}, which is not supported", spec.name, operand.to_string());
  }
  if (operand.is_tensor()) {
    check((spec.types & type_bit(operand.element)) != 0,
          "operand '{}' has element type {}, which is not supported", spec.name,
          to_string(operand.element));
  }
}

void Infer::check_operands() const {
  const Op& op = instruction_.op();
  const bool variadic = !op.operands.empty() && op.operands.back().arity == Arity::variadic;
  const int most = static_cast<int>(op.operands.size());
  check(variadic || count() <= most, "got {} operands, expected at most {}", count(), most);
  std::array<int, 128> first_of_group;
  first_of_group.fill(-1);
  for (int i = 0; i < std::max(count(), most); ++i) {
    const OperandSpec& spec = op.operands[static_cast<size_t>(std::min(i, most - 1))];
    // A variadic operand may be empty if the op declares it optional.
    if (i >= count() && spec.arity == Arity::variadic) continue;
    check_operand(spec, i);
    if (spec.group == 0 || !has(i) || !type(i).is_tensor()) continue;
    int& first = first_of_group[static_cast<size_t>(spec.group)];
    if (first < 0) first = i;
    check(element(i) == element(first), "operand '{}' has element type {}, operand {} has {}",
          spec.name, to_string(element(i)), first, to_string(element(first)));
  }
}

// Elementwise ops broadcast their operands; small integer values follow the dim formula.
void Infer::infer_elementwise() {
  const Op& op = instruction_.op();
  const std::vector<Dim> dims = broadcast_operands();
  const bool fixed = op.result_element != ElementType::string;
  result(fixed ? op.result_element : element(op.result_like), dims);
  if (op.dim_formula == nullptr) return;
  for (int i = 0; i < count(); ++i) {
    if (elements(i) == nullptr) return;
  }
  int64_t total = 1;
  for (const Dim& dim : dims) {
    if (!dim.is_constant() || *dim.constant() > kMaxSymbolicElements) return;
    total *= *dim.constant();
    if (total > kMaxSymbolicElements) return;
  }
  std::vector<Dim> values(static_cast<size_t>(total));
  std::vector<Dim> arguments(static_cast<size_t>(count()));
  for (size_t flat = 0; flat < values.size(); ++flat) {
    for (int i = 0; i < count(); ++i) {
      // Flat index of the operand's element that is broadcast to `flat`.
      size_t rest = flat;
      size_t at = 0;
      size_t stride = 1;
      const int lead = static_cast<int>(dims.size()) - rank(i);
      for (int axis = static_cast<int>(dims.size()) - 1; axis >= lead; --axis) {
        const auto extent = static_cast<size_t>(*dims[static_cast<size_t>(axis)].constant());
        const auto own = static_cast<size_t>(*dim(i, axis - lead).constant());
        at += own == 1 ? 0 : (rest % extent) * stride;
        rest /= extent;
        stride *= own;
      }
      arguments[static_cast<size_t>(i)] = (*elements(i))[at];
    }
    try {
      std::optional<Dim> value = op.dim_formula(arguments);
      if (!value) return;
      values[flat] = *value;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      return;  // beyond 64 bits integers wrap around, dims do not
    }
  }
  result_elements(std::move(values));
}

// An operand has unknown rank: tries each rank. The element types of the first rank that infers are
// valid for all.
void Infer::infer_unranked() {
  const auto& operands = instruction_.operands();
  for (int rank = 0; rank <= 6; ++rank) {
    probes_.clear();
    for (const Value* operand : operands) {
      Type type = operand == nullptr ? Type::unranked(ElementType::f32) : operand->type();
      if (type.is_tensor() && !type.dims) {
        type.dims.emplace();
        for (int axis = 0; axis < rank; ++axis) {
          type.dims->push_back(SymbolRef(std::make_shared<const Symbol>(
              Symbol{fmt::format("probe_{}", axis), SymbolKind::bound, {0, kUnbounded}, {}})));
        }
      }
      probes_.push_back(std::move(type));
    }
    try {
      types_.clear();
      elements_.clear();
      instruction_.op().infer != nullptr ? instruction_.op().infer(*this) : infer_elementwise();
    } catch (const Error&) {
      if (rank == 6) throw;
      continue;
    }
    break;
  }
  probes_.clear();
  guards_.clear();
  for (Type& type : types_) {
    if (type.is_tensor()) type.dims.reset();
  }
  elements_.assign(types_.size(), std::nullopt);
}

void Infer::run() {
  check_operands();
  const Op& op = instruction_.op();
  bool unranked = false;
  for (const Value* operand : instruction_.operands()) {
    unranked |= operand != nullptr && operand->type().is_tensor() && !operand->type().dims;
  }
  if (unranked && (op.traits & kTakesUnranked) == 0) {
    infer_unranked();
  } else if (op.infer != nullptr) {
    op.infer(*this);
  } else {
    infer_elementwise();
  }
  check(types_.size() == instruction_.results().size(),
        "inferred {} results, the instruction has {}", types_.size(),
        instruction_.results().size());
}

InferRun::InferRun(Instruction& instruction) {
  Infer context(instruction);
  context.run();
  types = std::move(context.types_);
  elements = std::move(context.elements_);
  guards = std::move(context.guards_);
}

void infer(Instruction& instruction) {
  InferRun run(instruction);
  for (size_t i = 0; i < run.types.size(); ++i) {
    Value* result = instruction.result(static_cast<int>(i));
    result->set_type(std::move(run.types[i]));
    result->set_elements(std::move(run.elements[i]));
  }
  for (Guard& guard : run.guards) instruction.module()->add_guard(std::move(guard));
}

void infer(Module& module) {
  for (const auto& instruction : module.instructions()) {
    if (instruction->op().bind_bodies != nullptr) instruction->op().bind_bodies(*instruction);
    infer(*instruction);
  }
}

}  // namespace lathe
