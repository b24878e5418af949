// SPDX-License-Identifier: MIT
#include "base/error_reason.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "capi/load_options.h"
#include "capi/modules.h"
#include "import/compiled/compiled_file.h"
#include "import/load_model.h"
#include "import/onnx/reader.h"
#include "ir/compiled_source.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "passes/promote_state.h"
#include "runtime/environment.h"
#include "runtime/tune.h"
#include "targets/compile.h"
#include "targets/fix_dims.h"

namespace lathe::capi {

ImportOptions import_options(const lathe_load_options& options) {
  ImportOptions out;
  for (size_t i = 0; i < options.overridden_initialiser_count; ++i) {
    out.fed.emplace(&demand(options.overridden_initialisers[i],
                            fmt::format("options->overridden_initialisers[{}]", i)));
  }
  return out;
}

MemoryFiles data_files(const lathe_load_options& options, std::shared_ptr<const void> owner) {
  MemoryFiles files;
  if (options.data_count > 0) demand(options.data, "options->data");
  for (const lathe_data_file& file : std::span(options.data, options.data_count)) {
    const std::string name = &demand(file.name, "options->data[].name");
    const std::string_view text = view({static_cast<const char*>(file.data), file.bytes}, name);
    files[name] = owner != nullptr ? MemoryFile{text, owner} : MemoryFile::copy_of(text);
  }
  return files;
}

namespace {

lathe_error* load(const char* path, const lathe_load_options* given, lathe_program** out) {
  return guarded([&] {
    demand(out, "program");
    const lathe_load_options options = known(given);
    const InterruptScope interrupt(options.poll, options.poll_context);
    auto handle = std::make_unique<lathe_program>();
    handle->program =
        load_model(&demand(path, "path"), import_options(options), data_files(options, nullptr));
    if (options.name != nullptr) handle->program->name = options.name;
    refresh(*handle);
    *out = handle.release();
  });
}

// Keeps the bytes alive: those of the caller until `release`, else a copy.
std::shared_ptr<const void> own(std::string_view& bytes, const lathe_load_options& options) {
  if (options.release != nullptr) {
    return {bytes.data(), [release = options.release,
                           context = options.release_context](const void*) { release(context); }};
  }
  auto copy = std::make_shared<std::string>(bytes);
  bytes = *copy;
  return copy;
}

std::unique_ptr<Program> read_program(std::string_view bytes, const std::string& name,
                                      const std::shared_ptr<const void>& owner,
                                      const lathe_load_options& options) {
  if (looks_like_container(bytes)) {
    return CompiledFile::open(name, bytes, owner)->program(kMainProgram);
  }
  if (looks_like_program(bytes)) return parse_program(bytes, {.file = name});
  const std::string folder = options.folder != nullptr ? options.folder : "";
  const MemoryFiles files = data_files(options, options.release != nullptr ? owner : nullptr);
  return import_onnx(onnx::parse_model(bytes, name, owner, folder, files), import_options(options));
}

lathe_error* load_memory(const void* data, size_t size, const lathe_load_options* given,
                         lathe_program** out) {
  return guarded([&] {
    demand(out, "program");
    const lathe_load_options options = known(given);
    const InterruptScope interrupt(options.poll, options.poll_context);
    std::string_view bytes = view({static_cast<const char*>(data), size}, "data");
    const std::shared_ptr<const void> owner = own(bytes, options);
    const std::string name = options.name != nullptr ? options.name : "<memory>";
    auto handle = std::make_unique<lathe_program>();
    try {
      handle->program = read_program(bytes, name, owner, options);
    } catch (Error& error) {
      if (error.kind() == ErrorKind::invalid_model) error.set_reason(reason::kBadGraph);
      throw;
    }
    refresh(*handle);
    *out = handle.release();
  });
}

size_t input_count(const lathe_program* program) { return program->inputs.size(); }
size_t output_count(const lathe_program* program) { return program->outputs.size(); }

lathe_error* input(const lathe_program* program, size_t index, lathe_value_info* info) {
  return guarded([&] { fill_info(demand(program, "program").inputs, index, info); });
}

lathe_error* output(const lathe_program* program, size_t index, lathe_value_info* info) {
  return guarded([&] { fill_info(demand(program, "program").outputs, index, info); });
}

// Changes a copy: on an error the program stays unchanged.
lathe_error* promote(lathe_program* program, const char* const* past, const char* const* present,
                     size_t count) {
  return guarded([&] {
    lathe_program& handle = demand(program, "program");
    std::vector<StatePair> pairs;
    for (size_t i = 0; i < count; ++i) {
      pairs.push_back({&demand(past[i], fmt::format("past[{}]", i)),
                       &demand(present[i], fmt::format("present[{}]", i))});
    }
    const CompiledSource* file = compiled_source(*handle.program);
    std::unique_ptr<Program> changed = file != nullptr ? file->portable() : handle.program->clone();
    promote_state(*changed, pairs);
    for (const auto& module : handle.modules) point_to(*module, *changed);
    handle.program = std::move(changed);
    refresh(handle);
  });
}

lathe_error* print_program(const lathe_program* program, lathe_text_sink sink, void* context) {
  return guarded([&] {
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    const std::string text = print(*demand(program, "program").program);
    sink(context, text.data(), text.size());
  });
}

void free_program(lathe_program* program) { delete program; }

std::vector<DimRange> dim_ranges(std::span<const lathe_dim_range> dims) {
  std::vector<DimRange> out;
  for (const lathe_dim_range& dim : dims) {
    const std::string name = &demand(dim.name, "options->dims[].name");
    const Range range{dim.least, dim.most < 0 ? kUnbounded : dim.most};
    check(dim.least >= 0 && dim.least <= range.max, ErrorKind::invalid_argument,
          "dim '{}' has the range {}..{}", escape(name), dim.least, dim.most);
    check(dim.preferred_count == 0 || dim.preferred != nullptr, ErrorKind::invalid_argument,
          "dim '{}' has {} preferred sizes at NULL", escape(name), dim.preferred_count);
    out.push_back({name, range, {dim.preferred, dim.preferred + dim.preferred_count}});
  }
  return out;
}

std::shared_ptr<Tuning> tune_plan(const Program& program, const CompileOptions& compiling,
                                  const lathe_compile_options& options) {
  constexpr double kMostSeconds = 86400;
  check(options.tune_seconds >= 0 && options.tune_seconds <= kMostSeconds,
        ErrorKind::invalid_argument, "tune_seconds is {}, expected 0 to {}", options.tune_seconds,
        kMostSeconds);
  if (options.tune_seconds == 0) return nullptr;
  TuneOptions how;
  how.seconds = options.tune_seconds;
  how.cache = tuning_cache();
  if (options.cancel != nullptr) how.run.cancel = &options.cancel->token;
  const TuneResult result = tune_on_zeros(program, compiling, how);
  log_line(1, to_string(result));
  return result.tuning;
}

// "auto" is the target of a compiled file if it is present, else the best one.
std::shared_ptr<const Target> target_for(const Program& program, std::string_view name) {
  const CompiledSource* file = compiled_source(program);
  if (name == kAutoTarget && file != nullptr) {
    if (auto target = present_target(file->target())) return target;
  }
  return find_target(name);
}

lathe_error* compile_plan(const lathe_program* program, const lathe_compile_options* given,
                          lathe_plan** out) {
  return guarded([&] {
    demand(out, "plan");
    const lathe_compile_options options = known(given);
    const InterruptScope interrupt(options.poll, options.poll_context);
    CompileOptions compile_options;
    compile_options.target = target_for(*demand(program, "program").program,
                                        options.target != nullptr ? options.target : kAutoTarget);
    compile_options.passes.check_interrupt = [&] {
      check(options.cancel == nullptr || !options.cancel->token.cancelled(), ErrorKind::interrupted,
            "compilation of '{}' was cancelled", program->program->name);
    };
    if (options.compute != nullptr) {
      compile_options.compute = parse_compute(options.compute, "compute");
    }
    if (options.trace != nullptr) {
      compile_options.passes.trace = [&](const std::string& line) {
        options.trace(options.trace_context, line.data(), line.size());
      };
    }
    constexpr int kMostThreads = 1024;
    check(options.threads >= 0 && options.threads <= kMostThreads, ErrorKind::invalid_argument,
          "threads is {}, expected 0 to {}", options.threads, kMostThreads);
    const std::shared_ptr<Environment> environment =
        options.threads == 0 ? Environment::process()
                             : std::make_shared<Environment>(options.threads);
    compile_options.pool = &environment->pool();
    std::unique_ptr<Program> copy = demand(program, "program").program->clone();
    if (options.dim_count > 0) {
      constexpr size_t kMostDims = 1 << 16;
      check(options.dim_count <= kMostDims, ErrorKind::invalid_argument,
            "dim_count is {}, expected at most {}", options.dim_count, kMostDims);
      // A compiled file's program was lowered for other dims.
      if (const CompiledSource* file = compiled_source(*copy)) copy = file->portable();
      set_dims(*copy, dim_ranges({&demand(options.dims, "options->dims"), options.dim_count}));
    }
    compile_options.tuning = tune_plan(*copy, compile_options, options);
    auto handle = std::make_unique<lathe_plan>();
    handle->plan = compile(std::move(copy), compile_options);
    handle->options.target = compile_options.target;
    handle->options.compute = compile_options.compute;
    handle->options.tuning = compile_options.tuning;
    handle->inputs = inputs_of(*handle->plan->program);
    handle->outputs = outputs_of(*handle->plan->program);
    *out = handle.release();
  });
}

lathe_error* plan_input(const lathe_plan* plan, size_t index, lathe_value_info* info) {
  return guarded([&] { fill_info(demand(plan, "plan").inputs, index, info); });
}

lathe_error* plan_output(const lathe_plan* plan, size_t index, lathe_value_info* info) {
  return guarded([&] { fill_info(demand(plan, "plan").outputs, index, info); });
}

const char* target_name(size_t index) {
  const std::vector<std::string_view> names = target_names();
  return index < names.size() ? names[index].data() : nullptr;  // string literals
}

}  // namespace

void refresh(lathe_program& handle) {
  handle.inputs = inputs_of(*handle.program);
  handle.outputs = outputs_of(*handle.program);
  handle.defaults = defaults_of(*handle.program);
}

void add_programs(lathe_api& api) {
  api.program_load = load;
  api.program_load_memory = load_memory;
  api.program_input_count = input_count;
  api.program_output_count = output_count;
  api.program_input = input;
  api.program_output = output;
  api.program_promote_states = promote;
  api.program_print = print_program;
  api.program_free = free_program;
}

void add_plans(lathe_api& api) {
  api.target_count = [] { return target_names().size(); };
  api.target_name = target_name;
  api.plan_compile = compile_plan;
  api.plan_input_count = [](const lathe_plan* plan) { return plan->inputs.size(); };
  api.plan_output_count = [](const lathe_plan* plan) { return plan->outputs.size(); };
  api.plan_input = plan_input;
  api.plan_output = plan_output;
  api.plan_free = [](lathe_plan* plan) { delete plan; };
}

}  // namespace lathe::capi
