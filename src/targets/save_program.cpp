// SPDX-License-Identifier: MIT
#include "targets/save_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file_map.h"
#include "import/compiled/compiled_file.h"
#include "import/compiled/model_facts.h"
#include "ir/compiled_source.h"
#include "ir/ops.h"
#include "ir/print.h"
#include "plan/packing_observer.h"
#include "plan/packing_source.h"
#include "targets/pack_weights.h"
#include "targets/target.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kPage = 4096;
constexpr int64_t kWholePages = int64_t{1} << 20;   // weights of this size start at a page
constexpr int64_t kMostOfGraph = int64_t{1} << 20;  // constants that a graph alone has

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

// True if products alone read the value, as weights: no pass reads their elements.
bool is_weights(const Value& value) {
  const auto is_weight = [](const Use& use) {
    if (use.user == nullptr) return false;
    const Op& op = use.user->op();
    if (is_any_of(op, {&ops::cast, &ops::transpose})) return is_weights(*use.user->result());
    if (op == ops::quantize_blocks) return true;
    return use.index == 1 && is_any_of(op, {&ops::matmul, &ops::gemm, &ops::matmul_n_bits});
  };
  return !value.uses().empty() && std::ranges::all_of(value.uses(), is_weight);
}

std::string_view bytes_of(const Tensor& dense) {
  return {dense.as<char>(), static_cast<size_t>(dense.byte_size())};
}

// The constants and packed weights of all programs, each once.
class Store {
 public:
  struct Packed {
    std::string id;
    std::vector<PackedSource> sources;
    std::vector<uint64_t> hashes;
    std::shared_ptr<const void> owner;
    std::string_view bytes;
    uint64_t at = 0;
  };
  struct Constant {
    LiteralRef literal;
    bool kept = false;     // a plan reads the elements
    bool missing = false;  // only a graph has it, and it is large
    int packed = -1;
    size_t source = 0;
    uint64_t at = 0;
  };

  void add_packed(const ObservedPacking& found) {
    Packed packed;
    packed.id = found.id;
    for (const Tensor* source : found.sources) {
      if (source == nullptr) {
        packed.sources.emplace_back();
        packed.hashes.push_back(0);
        continue;
      }
      Literal literal;
      literal.tensor = *source;
      packed.sources.push_back({true, source->type(), source->dims()});
      packed.hashes.push_back(literal.hash());
    }
    if (!keys_.insert(packing_key(packed.id, packed.hashes)).second) return;
    packed.owner = found.owner;
    packed.bytes = {static_cast<const char*>(found.data), found.bytes};
    packed_.push_back(std::move(packed));
  }

  // Literals of a program that its text names by hash. `kept`: those that its plan reads.
  void add_literals(const Program& program, const std::set<const Literal*>* kept) {
    for (const auto& module : program.modules()) {
      for (const auto& instruction : module->instructions()) {
        const LiteralRef& literal = instruction->literal();
        if (!prints_as_hash(*instruction, {.inline_bytes = kTextLiteralBytes})) continue;
        add_literal(literal, kept == nullptr ? false : kept->contains(literal.get()));
      }
    }
  }

  // Literals of a graph, after those of all programs.
  void add_graph(const Program& program) {
    for (const auto& module : program.modules()) {
      for (const auto& instruction : module->instructions()) {
        const LiteralRef& literal = instruction->literal();
        if (!prints_as_hash(*instruction, {.inline_bytes = kTextLiteralBytes})) continue;
        const bool is_new = !constants_.contains(literal->hash());
        add_literal(literal, false);
        const auto added = constants_.find(literal->hash());
        if (!is_new || added == constants_.end()) continue;
        const int64_t most = is_weights(*instruction->result()) ? kDeferredBytes : kMostOfGraph;
        added->second.missing = literal->tensor.byte_size() > most;
      }
    }
  }

  std::string add_default(const Tensor& tensor) {
    auto literal = std::make_shared<Literal>();
    literal->tensor = tensor.aligned().dense();
    add_literal(literal, true);
    return hash_text(literal->hash());
  }

  // Decides how each constant is stored, and where.
  SavedSizes lay_out() {
    SavedSizes sizes;
    for (auto& [hash, constant] : constants_) find_packed_form(hash, constant, sizes);
    uint64_t at = 0;
    const auto place = [&](size_t bytes) {
      const uint64_t unit = static_cast<int64_t>(bytes) >= kWholePages ? kPage : 64;
      at = (at + unit - 1) / unit * unit;
      const uint64_t placed = at;
      at += bytes;
      return placed;
    };
    for (Packed& packed : packed_) {
      packed.at = place(packed.bytes.size());
      sizes.packed += static_cast<int64_t>(packed.bytes.size());
    }
    for (auto& [hash, constant] : constants_) {
      if (constant.packed >= 0 || constant.missing) continue;
      const int64_t bytes = constant.literal->tensor.byte_size();
      constant.at = place(static_cast<size_t>(bytes));
      sizes.constants += bytes;
    }
    std::set<uint64_t> counted;
    for (const LiteralRef& literal : small_) {
      if (counted.insert(literal->hash()).second) sizes.constants += literal->tensor.byte_size();
    }
    return sizes;
  }

  void describe(Json& index) const {
    Json& packed = index["packed"] = Json::array();
    for (const Packed& each : packed_) {
      Json sources = Json::array();
      for (size_t i = 0; i < each.sources.size(); ++i) {
        const PackedSource& source = each.sources[i];
        sources.push_back(source.present ? Json{{"hash", hash_text(each.hashes[i])},
                                                {"type", to_string(source.type)},
                                                {"dims", source.dims}}
                                         : Json(nullptr));
      }
      packed.push_back({{"id", each.id},
                        {"sources", std::move(sources)},
                        {"at", each.at},
                        {"bytes", each.bytes.size()}});
    }
    Json& constants = index["constants"] = Json::array();
    for (const auto& [hash, constant] : constants_) {
      const Tensor& tensor = constant.literal->tensor;
      constants.push_back(
          {{"hash", hash_text(hash)}, {"type", to_string(tensor.type())}, {"dims", tensor.dims()}});
      if (constant.missing) {
        constants.back()["missing"] = true;
      } else if (constant.packed < 0) {
        constants.back()["at"] = constant.at;
      } else {
        constants.back()["packed"] = constant.packed;
        constants.back()["source"] = constant.source;
      }
    }
  }

  void write_weights(ContainerWriter& out) const {
    const auto write_at = [&](uint64_t at, std::string_view bytes) {
      out.write(std::string(at - out.position(), '\0'));
      out.write(bytes);
    };
    for (const Packed& packed : packed_) write_at(packed.at, packed.bytes);
    for (const auto& [hash, constant] : constants_) {
      if (constant.packed >= 0 || constant.missing) continue;
      restore_stored(constant.literal->tensor);
      write_at(constant.at, bytes_of(constant.literal->tensor));
    }
  }

  const std::vector<LiteralRef>& small() const { return small_; }

 private:
  void add_literal(const LiteralRef& literal, bool kept) {
    const Tensor& tensor = literal->tensor;
    if (tensor.type() == ElementType::string || tensor.byte_size() < kMappedConstant) {
      small_.push_back(literal);
      return;
    }
    Constant& constant = constants_[literal->hash()];
    if (constant.literal == nullptr) constant.literal = literal;
    constant.kept |= kept || literal->bindable;
  }

  // A constant that no plan reads exists only in packed form, if that has an exact inverse.
  void find_packed_form(uint64_t hash, Constant& constant, SavedSizes& sizes) {
    if (constant.kept || constant.missing) return;
    const Tensor& tensor = constant.literal->tensor;
    bool is_packed = false;
    for (size_t i = 0; i < packed_.size(); ++i) {
      const Packed& packed = packed_[i];
      const auto source = std::ranges::find(packed.hashes, hash);
      if (source == packed.hashes.end()) continue;
      is_packed = true;
      const auto at = static_cast<size_t>(source - packed.hashes.begin());
      std::vector<char> restored(static_cast<size_t>(tensor.byte_size()));
      if (!unpack(packed.id, packed.sources, at, std::as_bytes(std::span(packed.bytes)),
                  restored.data())) {
        continue;
      }
      restore_stored(tensor);
      if (std::memcmp(restored.data(), tensor.data(), restored.size()) != 0) continue;
      constant.packed = static_cast<int>(i);
      constant.source = at;
      return;
    }
    if (is_packed) sizes.stored_twice += tensor.byte_size();
  }

  std::set<std::string> keys_;
  std::vector<Packed> packed_;
  std::map<uint64_t, Constant> constants_;
  std::vector<LiteralRef> small_;
};

// The literals whose elements a plan of the program reads.
std::set<const Literal*> kept_literals(const Plan& plan) {
  std::set<const Literal*> kept;
  for (const ModulePlan& module : plan.modules) {
    for (const Slot& slot : module.slots) {
      if (slot.kind != SlotKind::literal || slot.value == nullptr) continue;
      const Instruction* source = slot.value->definition();
      if (source == nullptr || source->literal() == nullptr) continue;
      // Planning restores those that deferred instructions alone read.
      const auto& uses = slot.value->uses();
      const bool deferred = !uses.empty() && std::ranges::all_of(uses, [](const Use& use) {
        return use.user != nullptr && use.user->deferred();
      });
      if (deferred) continue;
      // Planning leaves one element of those that it releases.
      const Tensor& tensor = plan.literals[static_cast<size_t>(slot.index)];
      if (plan.device != nullptr || tensor.is_dense()) kept.insert(source->literal().get());
    }
  }
  return kept;
}

struct Saved {
  std::string name;
  std::string lowered;
  std::string portable;
  Json facts;
};

Saved add_program(const SavedProgram& program, Store& store) {
  const Plan& plan = *program.plan;
  const PrintOptions text{.inline_bytes = kTextLiteralBytes};
  Saved saved;
  saved.name = program.name;
  std::unique_ptr<Program> lowered = plan.program->clone();
  lowered->stage = Stage::lowered;
  lowered->model = nullptr;  // of a compiled file that this one replaces
  make_self_contained(*lowered);
  saved.lowered = print(*lowered, text);
  const CompiledSource* file = compiled_source(*plan.program);
  std::unique_ptr<Program> portable = file == nullptr ? plan.source->clone() : file->portable();
  {
    GivenPackings none;
    take_packings(*portable, none);
  }
  CompileOptions options = program.options;
  if (options.target == nullptr) options.target = find_target("ref");
  options.passes = PassOptions{.verify_each_pass = options.passes.verify_each_pass};
  options.watch_kernels = nullptr;
  saved.facts = {
      {"name", program.name},
      {"target", plan.target},
      {"machine", machine_of(*options.target)},
      {"compute", file == nullptr ? std::string(to_string(options.compute)) : file->compute()}};
  const bool is_tuned = options.tuning != nullptr;
  // A compiled file's choices stay.
  if (!is_tuned && file != nullptr && !file->tuned().empty()) {
    options.tuning = read_tuning(file->tuned(), file->file());
    saved.facts["tuned"] = Json::parse(file->tuned());
  }
  run_pipeline(*portable, options, Stage::optimised);
  make_self_contained(*portable);
  saved.portable = print(*portable, text);
  if (is_tuned && options.tuning->differs()) {
    saved.facts["tuned"] = Json::parse(options.tuning->text(true));
  }
  const ModelInfo none;
  saved.facts["model"] =
      model_facts_json(plan.program->model == nullptr ? none : *plan.program->model,
                       [&](const Tensor& tensor) { return store.add_default(tensor); });
  store.add_literals(*portable, nullptr);
  // Planning again finds the packed weights of `plan`.
  std::shared_ptr<const Plan> again;
  {
    const PackingObserver observer([&](const ObservedPacking& found) { store.add_packed(found); });
    again = compile(std::move(lowered), options);
  }
  const std::set<const Literal*> kept = kept_literals(*again);
  store.add_literals(*again->program, &kept);
  return saved;
}

}  // namespace

void make_self_contained(Program& program) {
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal == nullptr) continue;
      auto own = std::make_shared<Literal>();
      own->tensor = literal->tensor.aligned().dense();
      own->bindable = literal->bindable;
      instruction->set_literal(std::move(own));
    }
  }
  evaluate_deferred(program);
}

SavedSizes save_programs(const std::vector<SavedProgram>& programs,
                         const std::vector<SavedGraph>& graphs, const MemoryFiles& files,
                         const std::function<void(std::string_view)>& write) {
  Store store;
  std::vector<Saved> all;
  Json index{{"programs", Json::array()}};
  for (const SavedProgram& program : programs) {
    all.push_back(add_program(program, store));
    index["programs"].push_back(all.back().facts);
  }
  for (const SavedGraph& graph : graphs) store.add_graph(*graph.program);
  SavedSizes sizes = store.lay_out();
  store.describe(index);
  const auto counted = [&](std::string_view bytes) {
    sizes.file += static_cast<int64_t>(bytes.size());
    write(bytes);
  };
  ContainerWriter out(counted);
  out.begin("index");
  out.write(index.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const Saved& program : all) {
    out.begin("lowered/" + program.name);
    out.write(program.lowered);
    out.begin("portable/" + program.name);
    out.write(program.portable);
  }
  for (const SavedGraph& graph : graphs) {
    out.begin("graph/" + graph.name);
    out.write(print(*graph.program, {.inline_bytes = kTextLiteralBytes}));
  }
  for (const auto& [name, file] : files) {
    out.begin("file/" + name);
    out.write(file.text);
  }
  out.begin("literals");
  write_literals(store.small(), [&](std::string_view bytes) { out.write(bytes); });
  out.begin("weights", kPage);
  store.write_weights(out);
  out.finish();
  return sizes;
}

SavedSizes save_program(const Plan& plan, const CompileOptions& options,
                        const std::function<void(std::string_view)>& write) {
  return save_programs({{std::string(kMainProgram), &plan, options}}, {}, {}, write);
}

SavedSizes save_program(const Plan& plan, const CompileOptions& options, const std::string& path) {
  FileWriter file(path);
  const SavedSizes sizes =
      save_program(plan, options, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
  return sizes;
}

}  // namespace lathe
