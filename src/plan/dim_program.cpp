// SPDX-License-Identifier: MIT
#include "plan/dim_program.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "tensor/dim_node.h"

namespace lathe {

// Temporaries are reused from dim to dim: each dim's steps write them before they read them.
class DimProgram::Compiler {
 public:
  Compiler(DimProgram& program, std::span<const SymbolRef> symbols) : program_(program) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      symbols_.emplace(symbols[i]->name, ~static_cast<int32_t>(i));
    }
  }

  void compile(const Dim& dim, int32_t to) {
    const auto begin = static_cast<int32_t>(program_.steps_.size());
    temporaries_ = 0;
    const int32_t from = value_of(dim);
    Step* last =
        program_.steps_.size() > static_cast<size_t>(begin) ? &program_.steps_.back() : nullptr;
    if (last != nullptr && last->to == from) {
      last->to = to;
    } else {
      program_.steps_.push_back({Op::copy, to, from, from});
    }
    program_.ranges_[static_cast<size_t>(to)] = {begin,
                                                 static_cast<int32_t>(program_.steps_.size())};
  }

 private:
  int32_t constant(int64_t value) {
    const auto [at, added] =
        constants_.emplace(value, static_cast<int32_t>(program_.initial_.size()));
    if (added) program_.initial_.push_back(value);
    return at->second;
  }

  int32_t emit(Op op, int32_t a, int32_t b) {
    if (temporaries_ == registers_.size()) {
      registers_.push_back(static_cast<int32_t>(program_.initial_.size()));
      program_.initial_.push_back(-1);
    }
    const int32_t to = registers_[temporaries_++];
    program_.steps_.push_back({op, to, a, b});
    return to;
  }

  int32_t value_of(const Atom& atom) {
    if (atom.symbol != nullptr) {
      const auto at = symbols_.find(atom.symbol->name);
      check(at != symbols_.end(), ErrorKind::internal, "symbol '{}' is not in the program",
            atom.symbol->name);
      return at->second;
    }
    int32_t value = value_of(atom.args[0]);
    for (size_t i = 1; i < atom.args.size(); ++i) {
      value = emit(op_of(atom.func), value, value_of(atom.args[i]));
    }
    return value;
  }

  int32_t value_of(const Dim& dim) {
    const int64_t offset = Dim::Node::constant_of(dim);
    const auto terms = Dim::Node::terms_of(dim);
    if (terms.empty()) return constant(offset);
    int32_t sum = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      int32_t product = value_of(*terms[i].factors[0]);
      for (size_t k = 1; k < terms[i].factors.size(); ++k) {
        product = emit(Op::mul, product, value_of(*terms[i].factors[k]));
      }
      if (terms[i].coefficient != 1) {
        product = emit(Op::mul, product, constant(terms[i].coefficient));
      }
      sum = i == 0 ? product : emit(Op::add, sum, product);
    }
    return offset == 0 ? sum : emit(Op::add, sum, constant(offset));
  }

  static Op op_of(Dim::Func func) {
    switch (func) {
      case Dim::Func::floor_div:
        return Op::floor_div;
      case Dim::Func::ceil_div:
        return Op::ceil_div;
      case Dim::Func::mod:
        return Op::mod;
      case Dim::Func::min:
        return Op::min;
      case Dim::Func::max:
        return Op::max;
      case Dim::Func::bcast:
        break;
    }
    return Op::bcast;
  }

  DimProgram& program_;
  std::map<std::string, int32_t, std::less<>> symbols_;
  std::map<int64_t, int32_t> constants_;
  std::vector<int32_t> registers_;  // temporaries
  size_t temporaries_ = 0;          // in use by this dim
};

DimProgram::DimProgram(std::span<const Dim> dims, std::span<const SymbolRef> symbols)
    : ranges_(dims.size()), initial_(dims.size(), -1) {
  Compiler compiler(*this, symbols);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (const auto value = dims[i].constant()) {
      initial_[i] = *value;
    } else {
      compiler.compile(dims[i], static_cast<int32_t>(i));
    }
  }
}

namespace {

// False if the operation has no value.
bool apply(DimProgram::Op op, int64_t a, int64_t b, int64_t& to) {
  switch (op) {
    case DimProgram::Op::copy:
      to = a;
      return true;
    case DimProgram::Op::add:
      return !__builtin_add_overflow(a, b, &to);
    case DimProgram::Op::mul:
      return !__builtin_mul_overflow(a, b, &to);
    case DimProgram::Op::floor_div:
    case DimProgram::Op::ceil_div: {
      const auto quotient = checked_floor_div(a, b);
      if (!quotient) return false;
      // Cannot overflow: an inexact division has |b| > 1.
      to = *quotient + (op == DimProgram::Op::ceil_div && *checked_mod(a, b) != 0 ? 1 : 0);
      return true;
    }
    case DimProgram::Op::mod: {
      const auto rest = checked_mod(a, b);
      to = rest.value_or(-1);
      return rest.has_value();
    }
    case DimProgram::Op::min:
      to = std::min(a, b);
      return true;
    case DimProgram::Op::max:
      to = std::max(a, b);
      return true;
    case DimProgram::Op::bcast:
      to = a == 1 ? b : a;
      return a == b || a == 1 || b == 1;
  }
  return false;
}

}  // namespace

bool DimProgram::evaluate(int32_t dim, std::span<const int64_t> symbols,
                          std::span<int64_t> registers) const {
  const Range range = ranges_[static_cast<size_t>(dim)];
  for (int32_t i = range.begin; i < range.end; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    bool valid = true;
    const auto load = [&](int32_t from) {
      if (from >= 0) return registers[static_cast<size_t>(from)];
      const int64_t value = symbols[static_cast<size_t>(~from)];
      valid = valid && value >= 0;
      return value;
    };
    const int64_t a = load(step.a);
    const int64_t b = load(step.b);
    valid = valid && apply(step.op, a, b, registers[static_cast<size_t>(step.to)]);
    if (!valid) {
      registers[static_cast<size_t>(dim)] = -1;
      return false;
    }
  }
  return true;
}

}  // namespace lathe
