// SPDX-License-Identifier: MIT
#include "targets/gpu/expression.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace lathe::gpu {

std::string_view type_name(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return "float";
    case ElementType::f64:
      return "double";
    case ElementType::boolean:
      return "bool";
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64:
      return to_string(type);
    default:
      return "";
  }
}

std::string_view type_name(ExprType type) {
  switch (type) {
    case ExprType::f32:
      return "float";
    case ExprType::f64:
      return "double";
    case ExprType::i32:
      return "i32";
    case ExprType::i64:
      return "i64";
    case ExprType::u64:
      return "u64";
    case ExprType::boolean:
      return "bool";
  }
  return "";
}

namespace {

class Printer {
 public:
  Printer(std::span<const std::string> arguments, const std::string& prefix)
      : arguments_(arguments), prefix_(prefix) {}

  std::string text;

  std::string value_of(const Expr& expr) {
    const auto at = names_.find(expr.id());
    if (at != names_.end()) return at->second;
    std::string name;
    if (expr.op() == ExprOp::argument) {
      name = arguments_[static_cast<size_t>(expr.argument_index())];
    } else if (expr.is_constant()) {
      name = constant(expr);
    } else {
      std::vector<std::string> inputs;
      for (const Expr& input : expr.inputs()) inputs.push_back(value_of(input));
      name = fmt::format("{}_{}", prefix_, names_.size());
      text += fmt::format("  const {} {} = {};\n", type_name(expr.type()), name,
                          operation(expr, inputs));
    }
    names_[expr.id()] = name;
    return name;
  }

 private:
  static std::string constant(const Expr& expr) {
    const uint64_t bits = expr.constant_bits();
    switch (expr.type()) {
      case ExprType::f32:
        return fmt::format("float_of({:#x}U)", static_cast<uint32_t>(bits));
      case ExprType::f64:
        return fmt::format("double_of({:#x}ULL)", bits);
      case ExprType::i32:
        return fmt::format("((i32){:#x}U)", static_cast<uint32_t>(bits));
      case ExprType::i64:
        return fmt::format("((i64){:#x}ULL)", bits);
      case ExprType::u64:
        return fmt::format("{:#x}ULL", bits);
      case ExprType::boolean:
        return bits != 0 ? "true" : "false";
    }
    return "";
  }

  static std::string converted(ExprType from, ExprType to, const std::string& x) {
    if (to == ExprType::boolean) return fmt::format("{} != 0", x);
    if (is_floating(from) && is_integer(to))
      return fmt::format("float_to_{}({})", type_name(to), x);
    return fmt::format("({}){}", type_name(to), x);
  }

  // Integers wrap: signed ones compute without a sign.
  static std::string wrapped(ExprType type, std::string_view sign, const std::string& a,
                             const std::string& b) {
    if (type == ExprType::i64) return fmt::format("(i64)((u64){} {} (u64){})", a, sign, b);
    if (type == ExprType::i32) return fmt::format("(i32)((u32){} {} (u32){})", a, sign, b);
    return fmt::format("{} {} {}", a, sign, b);
  }

  static std::string operation(const Expr& expr, const std::vector<std::string>& x) {
    const ExprType type = expr.type();
    const auto binary = [&](std::string_view sign) {
      return fmt::format("{} {} {}", x[0], sign, x[1]);
    };
    const auto call = [&](std::string_view name) {
      return fmt::format("{}({})", name, fmt::join(x, ", "));
    };
    const bool logical = type == ExprType::boolean;
    switch (expr.op()) {
      case ExprOp::add:
        return wrapped(type, "+", x[0], x[1]);
      case ExprOp::sub:
        return wrapped(type, "-", x[0], x[1]);
      case ExprOp::mul:
        return wrapped(type, "*", x[0], x[1]);
      case ExprOp::div:
        return call("divide");
      case ExprOp::fma:
        return call("fused");
      case ExprOp::neg:
        return is_floating(type) ? "-" + x[0] : wrapped(type, "-", "0", x[0]);
      case ExprOp::abs:
        return call("absolute");
      case ExprOp::min:
        return call("least");
      case ExprOp::max:
        return call("most");
      case ExprOp::floor:
        return call("floor_of");
      case ExprOp::ceil:
        return call("ceil_of");
      case ExprOp::trunc:
        return call("trunc_of");
      case ExprOp::round_even:
        return call("even_of");
      case ExprOp::sqrt:
        return call("square_root");
      case ExprOp::eq:
        return binary("==");
      case ExprOp::ne:
        return binary("!=");
      case ExprOp::lt:
        return binary("<");
      case ExprOp::le:
        return binary("<=");
      case ExprOp::gt:
        return binary(">");
      case ExprOp::ge:
        return binary(">=");
      case ExprOp::bit_and:
        return binary(logical ? "&&" : "&");
      case ExprOp::bit_or:
        return binary(logical ? "||" : "|");
      case ExprOp::bit_xor:
        return binary(logical ? "!=" : "^");
      case ExprOp::bit_not:
        return (logical ? "!" : "~") + x[0];
      case ExprOp::shift_left:
        return call("shift_left");
      case ExprOp::shift_right:
        return call("shift_right");
      case ExprOp::select:
        return fmt::format("{} ? {} : {}", x[0], x[1], x[2]);
      case ExprOp::convert:
        return converted(expr.inputs()[0].type(), type, x[0]);
      case ExprOp::bitcast:
        switch (type) {
          case ExprType::f32:
            return fmt::format("float_of((u32){})", x[0]);
          case ExprType::i32:
            return fmt::format("(i32)bits_of({})", x[0]);
          case ExprType::f64:
            return fmt::format("double_of((u64){})", x[0]);
          default:
            return fmt::format("(i64)bits_of({})", x[0]);
        }
      case ExprOp::is_nan:
        return fmt::format("{0} != {0}", x[0]);
      default:
        fail(ErrorKind::internal, "no device code for '{}'", to_string(expr.op()));
    }
  }

  std::span<const std::string> arguments_;
  std::string prefix_;
  std::map<const void*, std::string> names_;
};

}  // namespace

std::string print_expression(const Expr& expr, std::span<const std::string> arguments,
                             const std::string& result) {
  Printer printer(arguments, result);
  const std::string value = printer.value_of(expr);
  return fmt::format("{}  const {} {} = {};\n", printer.text, type_name(expr.type()), result,
                     value);
}

}  // namespace lathe::gpu
