// SPDX-License-Identifier: MIT
// Rows over ONNX files: heap allocations and session memory of a run, the text of a lowered
// program.
#pragma once

#include <filesystem>

#include "bench/runtime/heap.h"
#include "bench/runtime/line.h"
#include "bench/runtime/settings.h"
#include "bench/runtime/time.h"
#include "import/load_model.h"
#include "ir/literal_file.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "targets/compile.h"
#if __has_include("targets/pack_weights.h")
#include "targets/pack_weights.h"
#define LATHE_PACK_INSTRUCTIONS  // older commits pack again
#endif
#if __has_include("targets/cpu/weight_store.h")
#include "targets/cpu/weight_store.h"
#endif

namespace lathe::bench {

// Floats between -1 and 1; integers 1, a valid token id, mask and token type.
inline Tensor made_input(const Type& type, const Settings& settings, uint32_t seed) {
  Dims dims;
  for (const Dim& dim : *type.dims) {
    dims.push_back(*dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
      const auto size = settings.dims.find(symbol.name);
      return size == settings.dims.end() ? 1 : size->second;
    }));
  }
  Tensor tensor(type.element, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    seed = seed * 1664525 + 1013904223;
    if (type.element == ElementType::f32) {
      tensor.as<float>()[i] = static_cast<float>(seed >> 8) / float{1 << 23} - 1;
    } else if (type.element == ElementType::i64) {
      tensor.as<int64_t>()[i] = 1;
    } else if (type.element == ElementType::i32) {
      tensor.as<int32_t>()[i] = 1;
    } else {
      fail(ErrorKind::unsupported, "no values are made for an input {}", type.to_string());
    }
  }
  return tensor;
}

inline std::vector<Box> made_inputs(const Program& program, const Settings& settings) {
  std::vector<Box> inputs;
  for (const auto& parameter : program.main().parameters()) {
    check(parameter->type().is_ranked(), ErrorKind::unsupported, "input '{}' is {}, not a tensor",
          parameter->name(), parameter->type().to_string());
    inputs.push_back(
        {made_input(parameter->type(), settings, static_cast<uint32_t>(inputs.size()))});
  }
  return inputs;
}

inline std::shared_ptr<const Plan> plan_of(std::unique_ptr<Program> program,
                                           const Settings& settings) {
  return compile(std::move(program), {.target = settings.target, .pool = settings.pool});
}

// A session that has run twice, with equal finite results.
struct WarmModel {
  WarmModel(const Model& model, const Settings& settings)
      : plan(plan_of(load_model(model.path), settings)),
        session(plan, {.pool = settings.pool}),
        inputs(made_inputs(*plan->program, settings)),
        results(plan->program->main().results().size()) {
    run();
    hash = hash_of(results);
    run();
    check(hash == hash_of(results), ErrorKind::internal, "two runs of '{}' differ", model.path);
  }
  void run() { session.run(inputs, results, {}); }

  std::shared_ptr<const Plan> plan;
  Session session;
  std::vector<Box> inputs;
  std::vector<Box> results;
  std::string hash;
};

inline Lines measure_run_allocations(const Settings& settings) {
  constexpr int64_t kRuns = 5;
  Lines lines;
  for (const Model& model : settings.models) {
    WarmModel warm(model, settings);
    const int64_t allocations = allocations_in([&] {
      for (int64_t i = 0; i < kRuns; ++i) warm.run();
    });
    lines.push_back({model.name, "heap allocations per run, from the third on",
                     static_cast<double>(allocations) / kRuns, "", true, false, warm.hash});
  }
  return lines;
}

inline Lines measure_session_memory(const Settings& settings) {
  Lines lines;
  for (const Model& model : settings.models) {
    WarmModel warm(model, settings);
    lines.push_back({model.name, "session, results included",
                     1e-6 * static_cast<double>(warm.session.memory().peak()), "MB", true, false,
                     warm.hash});
  }
  return lines;
}

// From the call to the first launch, where no run before had these sizes of dims.
inline Lines measure_new_bindings(const Settings& settings) {
  constexpr int64_t kBindings = 5;
  Lines lines;
  for (const Model& model : settings.models) {
    WarmModel warm(model, settings);
    if (warm.plan->symbols.empty()) continue;
    double best = 0;
    for (int64_t more = 1; more <= kBindings; ++more) {
      Settings other = settings;
      for (const SymbolRef& symbol : warm.plan->symbols) {
        other.dims.try_emplace(symbol->name, 1);
        other.dims[symbol->name] += more;
      }
      const std::vector<Box> inputs = made_inputs(*warm.plan->program, other);
      Profiler launches;
      RunOptions options;
      options.profiler = &launches;
      const auto begin = Clock::now();
      warm.session.run(inputs, options);
      const auto first = std::ranges::min(launches.events(), {}, &Profiler::Event::begin).begin;
      const double seconds = std::chrono::duration<double>(first - begin).count();
      best = more == 1 ? seconds : std::min(best, seconds);
    }
    check(warm.plan->compilations == 1, ErrorKind::internal, "'{}' was compiled {} times",
          model.path, warm.plan->compilations.load());
    lines.push_back({model.name, "first launch of new sizes", 1e3 * best, "ms"});
  }
  return lines;
}

// Weights packed in this process, in older trees those still in use; 0 where there is no counter.
inline double packed_weights() {
#if defined(LATHE_PACK_INSTRUCTIONS)
  return static_cast<double>(cpu::weights_packed());
#elif __has_include("targets/cpu/weight_store.h")
  return static_cast<double>(cpu::weight_store_size().entries);
#else
  return 0;
#endif
}

inline void lower(Program& program, const CompileOptions& options) {
  run_pipeline(program, options);
#if defined(LATHE_PACK_INSTRUCTIONS)
  add_packings(program, options);
#endif
}

inline Lines measure_text(const Model& model, const Settings& settings) {
  std::unique_ptr<Program> program = load_model(model.path);
  const double lowering =
      seconds_of([&] { lower(*program, {.target = settings.target, .pool = settings.pool}); });
  const std::vector<Box> inputs = made_inputs(*program, settings);
  const std::filesystem::path side =
      std::filesystem::temp_directory_path() / fmt::format("bench_runtime_{}.literals", getpid());
  struct Remove {
    const std::filesystem::path& path;
    ~Remove() { std::filesystem::remove(path); }
  } const remove{side};
  std::string text;
  const double printing = seconds_of([&] {
    text = print(*program);
    write_literals(side, *program);
  });
  const auto read = [&] {
    const LiteralFile literals = LiteralFile::open(side);
    ParseOptions options = with_literals_of(*program);
    options.literal_by_hash = [&](uint64_t hash, const Type&) { return literals.find(hash); };
    return parse_program(text, options);
  };
  std::unique_ptr<Program> again;
  const double reading = seconds_of([&] { again = read(); });
  std::shared_ptr<const Plan> plan = plan_of(load_model(model.path), settings);
  const std::string expected = hash_of(Session(plan, {.pool = settings.pool}).run(inputs));
  plan.reset();  // and its packed weights, which the next plan would share
  const double before = packed_weights();
  const double planning = seconds_of([&] { plan = plan_of(std::move(again), settings); });
  const double packed = packed_weights() - before;
  const std::string got = hash_of(Session(plan, {.pool = settings.pool}).run(inputs));
  check(got == expected, ErrorKind::internal, "'{}' read from its text computes other bits",
        model.path);
  return {{model.name, "load and lower, for comparison", 1e3 * lowering, "ms"},
          {model.name, "print the lowered program, literals included", 1e3 * printing, "ms"},
          {model.name, "read it", 1e3 * reading, "ms"},
          {model.name, "plan it", 1e3 * planning, "ms"},
          {model.name, "weights packed by planning it", packed, "", true, false, expected}};
}

inline Lines measure_texts(const Settings& settings) {
  Lines lines;
  for (const Model& model : settings.models) {
    for (Line& line : measure_text(model, settings)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace lathe::bench
