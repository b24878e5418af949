// SPDX-License-Identifier: MIT
// The class that the verifier's checks share.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/program.h"

namespace lathe {

// One verification. Structure is checked first: later checks follow pointers only if it is sound.
class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  // verify.cpp
  void check_structure();
  void check_stage(bool under_way);
  bool is_sound() const { return problems_.empty(); }
  std::vector<std::string> take_problems() { return std::move(problems_); }

  void check_types();    // verify_types.cpp
  void check_symbols();  // verify_symbols.cpp
  void check_states();   // verify_states.cpp

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    constexpr size_t kMost = 100;
    if (problems_.size() < kMost) {
      problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
  }
  // "%y = add(%a, %b) : f32[2] in @main"
  std::string place(const Instruction& instruction) const;

  void collect();
  void check_module(const Module& module);
  void check_operands(const Instruction& instruction, const std::unordered_set<const Value*>& seen);
  void check_uses(const Module& module);
  void check_uses_of(const Value& value, const std::vector<Use>& actual);
  void check_bodies();
  void check_cycles(const Module& module, std::set<const Module*>& path);

  void check_record(const Instruction& instruction);
  void check_inference(Instruction& instruction);
  void compare_inference(const Instruction& instruction);
  void check_captures(const Instruction& instruction);
  void check_deferred(const Instruction& instruction);

  using Names = std::set<std::string>;
  void check_scope(const Module& module, Names defined, bool implements);
  // `where` is called for a problem only.
  using Where = std::function<std::string()>;
  void check_type(const Type& type, const Names& defined, const Where& where);
  void check_dim(const Dim& dim, const Names& defined, const Where& where);

  void check_updates(const Instruction& instruction);
  void check_version(const Value& version);
  // The places of a module's instructions.
  const std::unordered_map<const Instruction*, size_t>& order_of(const Module& module);

  const Program& program_;
  std::vector<std::string> problems_;
  std::unordered_set<const Instruction*> instructions_;
  std::unordered_map<const Value*, const Module*> values_;
  std::unordered_map<const Module*, int> owners_;
  std::unordered_set<const Module*> implementations_;
  std::unordered_map<const Module*, std::unordered_map<const Instruction*, size_t>> orders_;
  std::map<std::string, int> found_;
};

}  // namespace lathe
