// SPDX-License-Identifier: MIT
#include "runtime/sizes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ir/op.h"

namespace lathe {
namespace {

// Backtracking over small sizes: each symbol tries its candidates until every guard with known
// symbols holds.
class SizeSearch {
 public:
  SizeSearch(const Program& program, const std::map<std::string, int64_t>& given,
             const SizeHints& hints)
      : hints_(hints), sizes_(hints.lengths) {
    for (const auto& [name, size] : given) sizes_[name] = size;
    for (const auto& [name, symbol] : program.symbols()) {
      if (symbol->kind != SymbolKind::bound || sizes_.contains(name)) continue;
      sizes_[name] = candidates(*symbol, free_.size())[0];
      free_.push_back(symbol);
    }
    for (const Guard& guard : program.main().guards()) add_guard(guard);
  }

  std::map<std::string, int64_t> run() {
    const std::map<std::string, int64_t> first = sizes_;
    return search(0) ? sizes_ : first;
  }

 private:
  struct BoundGuard {
    const Guard* guard;
    size_t after;  // number of free symbols that it requires
  };

  void add_guard(const Guard& guard) {
    std::vector<SymbolRef> symbols;
    guard.a.collect_symbols(symbols);
    guard.b.collect_symbols(symbols);
    size_t after = 0;
    for (const SymbolRef& symbol : symbols) {
      if (!sizes_.contains(symbol->name)) return;  // known only at run time
      for (size_t i = 0; i < free_.size(); ++i) {
        if (free_[i]->name == symbol->name) after = std::max(after, i + 1);
      }
    }
    guards_.push_back({&guard, after});
  }

  std::vector<int64_t> candidates(const Symbol& symbol, size_t place) const {
    constexpr std::array<int64_t, 12> kSizes{2, 3, 5, 4, 7, 6, 9, 8, 1, 16, 12, 10};
    std::vector<int64_t> out;
    if (const auto before = hints_.previous.find(symbol.name); before != hints_.previous.end()) {
      out.push_back(before->second);
    }
    if (hints_.variant == 0) out.push_back(1);
    const size_t start = place + static_cast<size_t>(std::max<int64_t>(hints_.variant - 1, 0));
    for (size_t i = 0; i < kSizes.size(); ++i) out.push_back(kSizes[(start + i) % kSizes.size()]);
    for (const int64_t size : {0, 32, 64, 128, 224, 256, 320, 512}) out.push_back(size);
    for (int64_t& size : out) size = std::clamp(size, symbol.range.min, symbol.range.max);
    return out;
  }

  bool holds(const Guard& guard) const {
    const auto value = [&](const Symbol& symbol) -> std::optional<int64_t> {
      return sizes_.at(symbol.name);
    };
    const std::optional<int64_t> a = guard.a.evaluate(value);
    const std::optional<int64_t> b = guard.b.evaluate(value);
    if (!a || !b) return false;
    switch (guard.relation) {
      case Guard::Relation::equal:
        return a == b;
      case Guard::Relation::less_equal:
        return *a <= *b;
      case Guard::Relation::broadcast:
        return a == b || a == 1 || b == 1;
    }
    return true;
  }

  bool search(size_t place) {
    constexpr int kMostSteps = 20000;
    if (++steps_ > kMostSteps) return false;
    for (const BoundGuard& known : guards_) {
      if (known.after == place && !holds(*known.guard)) return false;
    }
    if (place == free_.size()) return true;
    for (const int64_t size : candidates(*free_[place], place)) {
      sizes_[free_[place]->name] = size;
      if (search(place + 1)) return true;
    }
    return false;
  }

  const SizeHints& hints_;
  std::vector<SymbolRef> free_;
  std::vector<BoundGuard> guards_;
  std::map<std::string, int64_t> sizes_;
  int steps_ = 0;
};

}  // namespace

std::map<std::string, int64_t> choose_sizes(const Program& program,
                                            const std::map<std::string, int64_t>& given,
                                            const SizeHints& hints) {
  return SizeSearch(program, given, hints).run();
}

std::map<std::string, int64_t> lengths_after(const Program& program,
                                             const std::map<std::string, int64_t>& sizes,
                                             const std::map<std::string, int64_t>& lengths) {
  std::map<std::string, int64_t> out = lengths;
  for (const auto& instruction : program.main().instructions()) {
    if (instruction->op().structural != Structural::state_append) continue;
    const Attribute* name = find_attribute(instruction->attributes(), "state");
    const State* state =
        name == nullptr ? nullptr : program.find_state(std::get<std::string>(*name));
    if (state == nullptr || state->axis < 0) continue;
    const auto axis = static_cast<size_t>(state->axis);
    const SymbolRef length = (*state->type.dims)[axis].as_symbol();
    const Type& rows = instruction->operands()[1]->type();
    if (length == nullptr || !rows.is_ranked()) continue;
    const std::optional<int64_t> added =
        (*rows.dims)[axis].evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
          const auto found = sizes.find(symbol.name);
          return found == sizes.end() ? std::nullopt : std::optional<int64_t>(found->second);
        });
    const auto before = lengths.find(length->name);
    int64_t after = (before == lengths.end() ? 0 : before->second) + added.value_or(0);
    if (state->window > 0) after = std::min(after, state->window);
    out[length->name] = after;
  }
  return out;
}

}  // namespace lathe
