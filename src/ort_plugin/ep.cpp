// SPDX-License-Identifier: MIT
#include "ort_plugin/ep.h"

#include <algorithm>

#include "base/log.h"
#include "import/onnx/importer.h"
#include "ort_plugin/constants.h"
#include "ort_plugin/tune_group.h"
#include "targets/compile.h"

namespace lathe::ort_plugin {
namespace {

// Sessions with equal numbers of threads share them.
std::shared_ptr<Environment> environment_of(int threads) {
  if (threads == 0) return Environment::process();
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Environment>> environments;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<Environment>& known = environments[threads];
  std::shared_ptr<Environment> found = known.lock();
  if (found == nullptr) known = found = std::make_shared<Environment>(threads);
  return found;
}

std::string value_of(const Entries& entries, std::string_view key) {
  const auto at = std::ranges::find(entries, key, &Entries::value_type::first);
  return at == entries.end() ? "" : at->second;
}

// What the keys of an EP's options begin with.
std::string option_prefix(std::string_view ep) {
  std::string prefix = fmt::format("ep.{}.", ep);
  std::ranges::transform(prefix, prefix.begin(),
                         [](unsigned char c) noexcept { return std::tolower(c); });
  return prefix;
}

const OrtNode* first_node(const Host& host, const OrtGraph& graph) {
  size_t count = 0;
  host.check(host->Graph_GetNumNodes(&graph, &count));
  std::vector<const OrtNode*> nodes(count);
  if (count > 0) host.check(host->Graph_GetNodes(&graph, nodes.data(), count));
  return count > 0 ? nodes.front() : nullptr;
}

// The host's handle of a group.
struct ComputeInfo : OrtNodeComputeInfo {
  ComputeInfo(const Host& from, const Log& into, std::unique_ptr<Group> compiled)
      : OrtNodeComputeInfo{}, host(from), log(into), group(std::move(compiled)) {
    ort_version_supported = kApiVersion;
    CreateState = [](OrtNodeComputeInfo* info, OrtNodeComputeContext* /*context*/,
                     void** state) noexcept -> OrtStatus* {
      *state = static_cast<ComputeInfo*>(info)->group.get();
      return nullptr;
    };
    Compute = [](OrtNodeComputeInfo* info, void* /*state*/,
                 OrtKernelContext* context) noexcept -> OrtStatus* {
      auto& me = *static_cast<ComputeInfo*>(info);
      return me.host.guarded([&] { me.group->run(*context, me.log); });
    };
    ReleaseState = [](OrtNodeComputeInfo* /*info*/, void* /*state*/) noexcept {};
  }

  const Host& host;
  const Log& log;
  std::unique_ptr<Group> group;
};

}  // namespace

// The graph of a group with the fused node's inputs and outputs, in its order.
struct FusedModel {
  onnx::Model model;
  std::vector<size_t> inputs;   // for each parameter
  std::vector<size_t> outputs;  // for each result
  Boundary boundary;            // by the fused node's order; absent values have no name
};

namespace {

FusedModel fused_model(const Host& host, GraphReader& reader, const OrtGraph& graph,
                       const OrtNode& fused) {
  FusedModel out;
  out.model = reader.read(graph).model;
  onnx::Graph& inner = out.model.graph;
  inner.inputs.clear();
  inner.outputs.clear();
  // Declared types of inner values may be those of scalars for an unknown rank.
  inner.value_infos.clear();
  std::set<std::string_view> given;
  const std::vector<const OrtValueInfo*> inputs = inputs_of(host, fused);
  for (size_t i = 0; i < inputs.size(); ++i) {
    onnx::ValueInfo& input = out.boundary.inputs.emplace_back();
    if (inputs[i] == nullptr) continue;
    input = reader.read_value(*inputs[i]);
    if (!given.insert(input.name).second) continue;
    inner.inputs.push_back(input);
    out.inputs.push_back(i);
  }
  std::erase_if(inner.initializers,
                [&](const onnx::TensorData& tensor) { return given.contains(tensor.name); });
  const std::vector<const OrtValueInfo*> outputs = outputs_of(host, fused);
  for (size_t i = 0; i < outputs.size(); ++i) {
    onnx::ValueInfo& output = out.boundary.outputs.emplace_back();
    if (outputs[i] == nullptr) continue;
    output = reader.read_value(*outputs[i]);
    inner.outputs.push_back(output);
    out.outputs.push_back(i);
  }
  return out;
}

// For each of a node's values its place among those of the fused node, which the host may order in
// another way.
std::vector<size_t> places_of(const std::vector<std::string_view>& names,
                              const std::vector<onnx::ValueInfo>& fused) {
  std::vector<size_t> out;
  for (const std::string_view name : names) {
    const auto at = std::ranges::find(fused, name, &onnx::ValueInfo::name);
    check(at != fused.end(), ErrorKind::invalid_model, "the context's value '{}' is not passed",
          escape(name));
    out.push_back(static_cast<size_t>(at - fused.begin()));
  }
  return out;
}

GroupPlan load_context(const FusedModel& fused_model, const std::string& model,
                       const CompileOptions& options) {
  const onnx::Node& node = fused_model.model.graph.nodes.front();
  const Boundary& fused = fused_model.boundary;
  const std::vector<size_t> inputs = places_of(node.inputs, fused.inputs);
  const std::vector<size_t> outputs = places_of(node.outputs, fused.outputs);
  const auto owner =
      std::make_shared<const std::vector<std::shared_ptr<const void>>>(fused_model.model.owners);
  Boundary boundary;
  for (const size_t place : inputs) boundary.inputs.push_back(fused.inputs[place]);
  for (const size_t place : outputs) boundary.outputs.push_back(fused.outputs[place]);
  GroupPlan group = load_group(*open_context(node, model, owner), boundary, options);
  for (size_t& place : group.inputs) place = inputs[place];
  for (size_t& place : group.outputs) place = outputs[place];
  return group;
}

}  // namespace

Ep::Ep(const Host& host, std::string name, const Entries& entries, const OrtLogger* logger,
       const Target* memory)
    : OrtEp{},
      host_(host),
      name_(std::move(name)),
      log_(host, logger),
      options_(read_options(entries, option_prefix(name_))),
      store_(options_, log_),
      contexts_(context_options(entries)) {
  folder_ = value_of(entries, "session.model_external_initializers_file_folder_path");
  for (const std::string& note : options_.notes) log_.info(note);
  if (options_.log > 0) set_log_level(options_.log);
  if (memory != nullptr) {
    options_.device_memory = true;
    if (options_.target == "auto") options_.target = memory->name();
    group_options_.memory = memory->device();
  }
  group_options_.environment = environment_of(options_.threads);
  group_options_.memory_limit = options_.memory_limit;
  if (!options_.trace.empty()) {
    group_options_.trace = std::make_shared<TraceFile>(options_.trace);
  }
  compatibility_ = compatibility(compile_options());
  ort_version_supported = kApiVersion;
  GetName = [](const OrtEp* ep) noexcept { return static_cast<const Ep*>(ep)->name_.c_str(); };
  GetCapability = [](OrtEp* ep, const OrtGraph* graph, OrtEpGraphSupportInfo* info) noexcept {
    Ep& me = *static_cast<Ep*>(ep);
    return me.host_.guarded([&] { me.claim(*graph, *info); });
  };
  Compile = [](OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused, size_t count,
               OrtNodeComputeInfo** infos, OrtNode** contexts) noexcept {
    Ep& me = *static_cast<Ep*>(ep);
    return me.host_.guarded([&] {
      for (size_t i = 0; i < count; ++i) {
        infos[i] = me.compile(*graphs[i], *fused[i],
                              me.contexts_.enabled && contexts != nullptr ? contexts + i : nullptr);
      }
    });
  };
  GetCompiledModelCompatibilityInfo = [](OrtEp* ep, const OrtGraph* /*graph*/) noexcept {
    Ep& me = *static_cast<Ep*>(ep);
    return me.compatibility_.c_str();
  };
  ReleaseNodeComputeInfos = [](OrtEp* /*ep*/, OrtNodeComputeInfo** infos, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
  };
}

void Ep::claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info) {
  const LogScope scope(log_);
  Claims claims;
  try {
    claims = find_claims(host_, graph, options_, folder_);
  } catch (const Error& error) {
    // The host would go on without this EP.
    if (!options_.strict) throw;
    if (problem_.empty()) {
      problem_ = fmt::format("option 'strict' is set, but Lathe cannot read the graph: {}",
                             error.message());
    }
    claims.is_body = true;
    claims.first = first_node(host_, graph);
  }
  // Before, fused nodes in different graphs of a model get equal names.
  constexpr Version kDistinctNames{1, 24, 4};
  if (host_.version() < kDistinctNames && !claims.groups.empty()) {
    if (claimed_graph_.empty()) claimed_graph_ = claims.graph;
    if (claimed_graph_ != claims.graph) {
      claims.groups.clear();
      claims.claimed = 0;
    }
  }
  report(claims);
  // Only Compile can fail a session: something must be compiled.
  if (!problem_.empty() && claims.groups.empty() && claims.first != nullptr) {
    claims.groups.push_back({claims.first});
  }
  OrtNodeFusionOptions options{};
  options.ort_version_supported = kApiVersion;
  options.drop_constant_initializers = true;
  for (const std::vector<const OrtNode*>& group : claims.groups) {
    host_.check(
        host_.ep().EpGraphSupportInfo_AddNodesToFuse(&info, group.data(), group.size(), &options));
  }
  unranked_.insert(claims.unranked.begin(), claims.unranked.end());
}

void Ep::report(const Claims& claims) {
  if (claims.is_body || claims.nodes == 0) return;
  const std::string text = summary(claims);
  if (claims.claimed == claims.nodes) {
    log_.info(text);
    return;
  }
  if (options_.strict && problem_.empty()) {
    problem_ = fmt::format("option 'strict' is set, but Lathe claims {} of {} nodes",
                           claims.claimed, claims.nodes);
    for (const Refusal& refusal : claims.refusals) {
      problem_ += fmt::format("\n  {}: {}", refusal.node, refusal.reason);
    }
  }
  if (reported_.insert(text).second) log_.warn(text);
}

CompileOptions Ep::compile_options() const {
  CompileOptions options;
  options.target = find_target(options_.target == "auto" ? kAutoTarget : options_.target);
  options.compute = options_.compute;
  options.pool = &group_options_.environment->pool();
  const bool there =
      group_options_.memory != nullptr && options.target->device() == group_options_.memory;
  options.boundary = there ? lathe::Boundary::device : lathe::Boundary::host;
  return options;
}

GroupPlan Ep::make_group(FusedModel fused) {
  CompileOptions options = compile_options();
  if (store_.is_used()) {
    store_.begin(fused.model, fused.inputs, fused.outputs, options);
    if (std::optional<GroupPlan> found = store_.load(fused.boundary, options)) {
      store_.save(*found);
      return *found;
    }
  }
  own_constants(fused.model.graph);
  std::unique_ptr<Program> program = import_onnx(fused.model);
  fused.model = {};
  if (options_.tune > 0)
    options.tuning = tune_group(*program, options, options_.tune, options_.memory_limit, log_);
  GroupPlan group{.plan = lathe::compile(std::move(program), options),
                  .options = options,
                  .inputs = std::move(fused.inputs),
                  .outputs = std::move(fused.outputs)};
  if (store_.is_used()) {
    store_.save(group);
    store_.keep(group);
  }
  return group;
}

OrtNodeComputeInfo* Ep::compile(const OrtGraph& graph, const OrtNode& fused, OrtNode** context) {
  const LogScope scope(log_);
  check(problem_.empty(), ErrorKind::unsupported, "{}", problem_);
  const char* name = "";
  host_.check(host_->Node_GetName(&fused, &name));
  const char* path = nullptr;
  host_.check(host_->Graph_GetModelPath(&graph, &path));
  const std::string model = path == nullptr ? "" : path;
  GraphReader reader(host_, folder_, &unranked_);
  FusedModel fused_graph = fused_model(host_, reader, graph, fused);
  GroupPlan group;
  const std::vector<onnx::Node>& nodes = fused_graph.model.graph.nodes;
  if (nodes.size() == 1 && is_own_context(nodes.front())) {
    group = load_context(fused_graph, model, compile_options());
  } else {
    group = make_group(std::move(fused_graph));
  }
  if (context != nullptr) {
    *context = make_context(host_, fused, group, contexts_, model);
  }
  auto made = std::make_unique<Group>(host_, name, group.plan, std::move(group.inputs),
                                      std::move(group.outputs), group_options_);
  return new ComputeInfo(host_, log_, std::move(made));
}

}  // namespace lathe::ort_plugin
