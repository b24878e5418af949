// SPDX-License-Identifier: MIT
// Applies tables of rules.
#include "base/error.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "ir/rule.h"

namespace lathe {
namespace {

thread_local RuleWatch* current_watch = nullptr;

// Erases instructions inserted between `before` and the root, and their guards and symbols.
class Undo {
 public:
  explicit Undo(Instruction& root) : module_(*root.module()), root_(root) {
    count_ = module_.instructions().size();
    guards_ = module_.guards().size();
  }

  void run() {
    auto at = module_.instructions().begin();
    while (at->get() != &root_) ++at;
    for (size_t built = module_.instructions().size() - count_; built > 0; --built) {
      Instruction* last = std::prev(at)->get();
      for (const SymbolRef& symbol : last->found()) module_.program().remove_symbol(symbol->name);
      module_.erase(last);
    }
    module_.guards().resize(guards_);
  }

 private:
  Module& module_;
  Instruction& root_;
  size_t count_ = 0;
  size_t guards_ = 0;
};

bool is_unused(const Instruction& instruction) {
  for (const Value& result : instruction.results()) {
    if (!result.uses().empty()) return false;
  }
  return true;
}

}  // namespace

RuleTable::RuleTable(std::vector<Rule> rules) : rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Op* root = root_op(rules_[i].pattern);
    check(root != nullptr, ErrorKind::internal, "rule '{}' has no op at its root", rules_[i].name);
    by_root_[root].push_back(i);
  }
}

Value* RuleTable::rewrite(Instruction& root, const Rule*& applied) const {
  const auto rows = by_root_.find(&root.op());
  if (rows == by_root_.end()) return nullptr;
  for (const size_t row : rows->second) {
    const Rule& rule = rules_[row];
    Builder builder(*root.module(), &root);
    builder.set_origins(root.origins());
    Match match(root, builder);
    if (!match.fits(rule.pattern)) continue;
    Undo undo(root);
    try {
      Value* replacement = rule.replace(match);
      applied = &rule;
      if (replacement != nullptr && replacement != root.result() &&
          replacement->type() == root.result()->type()) {
        return replacement;
      }
    } catch (Error& error) {
      error.note(fmt::format("while applying rule '{}' ({}:{})", rule.name, rule.place.file_name(),
                             rule.place.line()));
      throw;
    }
    undo.run();
  }
  return nullptr;
}

bool RuleTable::apply(Module& module, int64_t& budget) const {
  bool changed = false;
  for (auto at = module.instructions().begin(); at != module.instructions().end();) {
    Instruction& root = *(at++)->get();
    if (is_unused(root)) continue;
    const Rule* rule = nullptr;
    Value* replacement = rewrite(root, rule);
    if (replacement == nullptr) continue;
    check(--budget >= 0, ErrorKind::internal,
          "rule '{}' ({}:{}) applies without end: the rules of its table form a cycle", rule->name,
          rule->place.file_name(), rule->place.line());
    const bool same_elements = replacement->elements() == root.result()->elements();
    module.replace_uses(root.result(), replacement);
    if (root.found().empty()) module.erase(&root);
    if (!same_elements) infer_users(*replacement);
    if (current_watch != nullptr) current_watch->function_(*rule, module.program());
    changed = true;
  }
  return changed;
}

bool RuleTable::apply(Program& program) const {
  int64_t budget = 1000;
  for (const auto& module : program.modules()) {
    budget += 100 * static_cast<int64_t>(module->instructions().size());
  }
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    for (const auto& module : program.modules()) again |= apply(*module, budget);
    changed |= again;
  }
  return changed;
}

RuleWatch::RuleWatch(Function function) : function_(std::move(function)), outer_(current_watch) {
  current_watch = this;
}

RuleWatch::~RuleWatch() { current_watch = outer_; }

}  // namespace lathe
