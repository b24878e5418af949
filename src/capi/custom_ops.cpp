// SPDX-License-Identifier: MIT
// Ops whose inference and evaluation are callbacks.
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/error_reason.h"
#include "capi/attributes_json.h"
#include "capi/handles.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe::capi {
namespace {

struct CustomOp {
  std::string name;
  std::string doc;
  std::deque<std::string> texts;  // names that the record refers to
  int results = 1;
  lathe_op_infer infer = nullptr;
  lathe_op_evaluate evaluate = nullptr;
  void* context = nullptr;
};

// Registered ops stay for the life of the process.
class CustomOps {
 public:
  static CustomOps& all() {
    static CustomOps* const ops = new CustomOps;  // callbacks may run while the process ends
    return *ops;
  }
  const CustomOp& find(const Op& op) const {
    const std::shared_lock lock(mutex_);
    return *ops_.at(op.name);
  }
  void add(std::unique_ptr<CustomOp> op, Op record) {
    const std::unique_lock lock(mutex_);
    check(find_op(op->name) == nullptr, ErrorKind::invalid_argument,
          "op '{}' exists: choose another name", op->name);
    const std::string_view name = op->name;
    ops_.emplace(name, std::move(op));
    try {
      const Register registered(std::move(record));
    } catch (...) {
      ops_.erase(name);
      throw;
    }
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string_view, std::unique_ptr<CustomOp>> ops_;
};

std::string attributes_of(const Instruction& instruction) {
  return to_json(instruction.attributes())
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void collect_text(void* context, const char* text, size_t bytes) {
  static_cast<std::vector<std::string>*>(context)->emplace_back(text, bytes);
}

void infer_custom(Infer& c) {
  const CustomOp& op = CustomOps::all().find(c.instruction().op());
  if (op.infer == nullptr) {
    c.check(c.has(0), "an op without an inference callback takes {} operand or more", 1);
    for (int i = 0; i < op.results; ++i) c.result(c.type(0));
    return;
  }
  std::vector<std::unique_ptr<ValueRecord>> records;
  std::vector<lathe_value_info> operands;
  for (int i = 0; i < c.count(); ++i) {
    lathe_value_info info{};
    info.size = sizeof info;
    info.rank = -1;
    info.name = info.type = "";
    if (c.has(i)) {
      const std::string_view name = c.instruction().operands()[static_cast<size_t>(i)]->name();
      records.push_back(record(std::string(name), c.type(i), nullptr));
      fill_info(*records.back(), &info);
    }
    operands.push_back(info);
  }
  std::vector<std::string> types;
  const std::string attributes = attributes_of(c.instruction());
  const int status = op.infer(op.context, operands.data(), operands.size(), attributes.c_str(),
                              collect_text, &types);
  if (status != 0) {
    Error error({ErrorKind::invalid_model, reason::kCallback},
                fmt::format("{}: its inference callback returned {}", op.name, status));
    for (const std::string& text : types) error.note(escape(text, 2000));
    throw error;
  }
  c.check(types.size() == static_cast<size_t>(op.results),
          "its inference callback stated {} types, expected {}", types.size(), op.results);
  for (const std::string& text : types) {
    c.result(type_from_text(text, c.instruction().module()->program(), false));
  }
}

lathe_view to_view(const TensorView& view) {
  lathe_view out{};
  out.size = sizeof out;
  out.type = to_c(view.type);
  out.rank = view.rank;
  out.dims = view.dims.data();
  out.strides = view.strides.data();
  out.data = view.data;
  return out;
}

void evaluate_custom(Evaluation& c) {
  const CustomOp& op = CustomOps::all().find(c.instruction().op());
  std::vector<lathe_view> operands;
  std::vector<lathe_view> results;
  for (int i = 0; i < c.count(); ++i) {
    operands.push_back(c.has(i) ? to_view(c.in(i)) : lathe_view{});
    operands.back().size = sizeof(lathe_view);
  }
  for (int i = 0; i < c.results(); ++i) results.push_back(to_view(c.out(i)));
  const std::string attributes = attributes_of(c.instruction());
  std::vector<std::string> messages;
  lathe_op_call call{};
  call.size = sizeof call;
  call.attributes = attributes.c_str();
  call.operands = operands.data();
  call.operand_count = operands.size();
  call.results = results.data();
  call.result_count = results.size();
  call.message = collect_text;
  call.message_context = &messages;
  const int status = op.evaluate(op.context, &call);
  if (status == 0) return;
  Error error({ErrorKind::invalid_argument, reason::kCallback},
              fmt::format("{}: its evaluation callback returned {}", op.name, status));
  for (const std::string& text : messages) error.note(escape(text, 2000));
  throw error;
}

bool is_op_name(std::string_view name) {
  constexpr size_t kMostBytes = 100;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kMostBytes && name.front() >= 'a' && name.front() <= 'z' &&
         std::ranges::all_of(name, fits);
}

// "x", "bias?" (optional), "values..." (variadic)
OperandSpec operand_of(std::string_view text, bool is_last, CustomOp& op) {
  OperandSpec out;
  std::string_view name = text;
  if (name.ends_with("...")) {
    out.arity = Arity::variadic;
    name.remove_suffix(3);
    check(is_last, ErrorKind::invalid_argument, "{}: operand '{}' must be the last", op.name,
          escape(text));
  } else if (name.ends_with("?")) {
    out.arity = Arity::optional;
    name.remove_suffix(1);
  }
  check(is_op_name(name), ErrorKind::invalid_argument, "{}: '{}' is not a valid name of an operand",
        op.name, escape(text));
  out.name = op.texts.emplace_back(name);
  out.types = kAnyType & ~kString;
  return out;
}

AttributeSpec attribute_of(std::string_view name, const nlohmann::ordered_json& value,
                           CustomOp& op) {
  check(is_op_name(name), ErrorKind::invalid_argument,
        "{}: '{}' is not a valid name of an attribute", op.name, escape(name));
  const std::string_view kept = op.texts.emplace_back(name);
  if (value.is_object() && value.contains("kind")) {
    for (int i = 0; i <= static_cast<int>(AttributeKind::type); ++i) {
      const auto kind = static_cast<AttributeKind>(i);
      if (value["kind"] == std::string(kind_name(kind))) return {kept, kind};
    }
  }
  if (value.is_boolean()) return {kept, value.get<bool>()};
  if (value.is_number_integer()) return {kept, Attribute(value.get<int64_t>())};
  if (value.is_number()) return {kept, value.get<double>()};
  if (value.is_string()) return {kept, Attribute(value.get<std::string>())};
  const auto all = [&](auto&& test) {
    return value.is_array() && std::ranges::all_of(value, test);
  };
  if (all([](const auto& item) { return item.is_number_integer(); })) {
    return {kept, Attribute(value.get<Integers>())};
  }
  if (all([](const auto& item) { return item.is_number(); })) {
    return {kept, Attribute(value.get<Numbers>())};
  }
  if (all([](const auto& item) { return item.is_string(); })) {
    return {kept, Attribute(value.get<Texts>())};
  }
  fail(ErrorKind::invalid_argument,
       "{}: attribute '{}' has the default {}, expected a value or {{\"kind\": …}}", op.name,
       escape(name), escape(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

lathe_error* register_op(const lathe_op_definition* given) {
  return guarded([&] {
    const lathe_op_definition definition = known(&demand(given, "definition"));
    auto op = std::make_unique<CustomOp>();
    op->name = &demand(definition.name, "definition->name");
    check(is_op_name(op->name), ErrorKind::invalid_argument,
          "'{}' is not a valid name of an op: letters a to z, digits and '_'", escape(op->name));
    op->doc = definition.doc == nullptr ? "" : definition.doc;
    check(definition.evaluate != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL",
          "definition->evaluate");
    constexpr size_t kMostOperands = 64;
    check(definition.operand_count <= kMostOperands && definition.result_count >= 1 &&
              definition.result_count <= kMostOperands,
          ErrorKind::invalid_argument, "{}: got {} operands and {} results, expected at most {}",
          op->name, definition.operand_count, definition.result_count, kMostOperands);
    op->infer = definition.infer;
    op->evaluate = definition.evaluate;
    op->context = definition.context;
    op->results = static_cast<int>(definition.result_count);
    Op record{.name = op->name, .doc = op->doc};
    if (definition.operand_count > 0) demand(definition.operands, "definition->operands");
    for (size_t i = 0; i < definition.operand_count; ++i) {
      const char& text = demand(definition.operands[i], fmt::format("definition->operands[{}]", i));
      record.operands.push_back(operand_of(&text, i + 1 == definition.operand_count, *op));
    }
    if (definition.attributes != nullptr) {
      const auto attributes =
          parse_argument(definition.attributes, fmt::format("{}: the attributes", op->name));
      check(attributes.is_object(), ErrorKind::invalid_argument, "{}: the attributes are a {}",
            op->name, attributes.type_name());
      for (const auto& [name, value] : attributes.items()) {
        record.attributes.push_back(attribute_of(name, value, *op));
      }
    }
    record.traits = definition.impure != 0 ? uint32_t{kImpure} : uint32_t{kPure};
    record.results = op->results;
    record.infer = infer_custom;
    record.eval = evaluate_custom;
    CustomOps::all().add(std::move(op), std::move(record));
  });
}

}  // namespace

void add_custom_ops(lathe_api& api) { api.op_register = register_op; }

}  // namespace lathe::capi
