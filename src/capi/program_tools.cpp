// SPDX-License-Identifier: MIT
// Programs inferred for given sizes, written and verified.
#include <nlohmann/json.hpp>

#include "base/error_reason.h"
#include "base/interrupt.h"
#include "capi/devices.h"
#include "capi/handles.h"
#include "capi/views.h"
#include "ir/dot.h"
#include "ir/infer.h"
#include "ir/json.h"
#include "ir/print.h"
#include "runtime/environment.h"
#include "runtime/verification.h"
#include "targets/fix_dims.h"

namespace lathe::capi {
namespace {

// The given sizes of inputs, and the values of symbols that follow from them.
class GivenSizes {
 public:
  explicit GivenSizes(Program& program) : program_(program) {}

  void add(size_t index, const lathe_view& given) {
    Value& parameter = *program_.main().parameters()[index];
    const Type& type = parameter.type();
    check(given.rank >= 0 && given.rank <= kMaxRank, {ErrorKind::invalid_argument, reason::kRank},
          "input '{}' has rank {}, expected 0 to {}", escape(parameter.name()), given.rank,
          kMaxRank);
    if (given.rank > 0) demand(given.dims, "inputs[].dims");
    const std::span<const int64_t> sizes(given.dims, static_cast<size_t>(given.rank));
    if (!type.is_tensor() || (given.type != 0 && from_c(given.type) != type.element)) {
      const ElementType element = given.type == 0 ? type.element : from_c(given.type);
      fail({ErrorKind::invalid_argument, reason::kType}, "input '{}' is {}, expected {}",
           escape(parameter.name()), to_string(element, sizes), escape(type.to_string()));
    }
    if (!type.is_ranked()) {
      std::vector<Dim> dims;
      for (const int64_t size : sizes) dims.push_back(dim_of(size));
      parameter.set_type(Type::tensor(type.element, std::move(dims)));
      return;
    }
    check(given.rank == type.rank(), {ErrorKind::invalid_argument, reason::kRank},
          "input '{}' has rank {}, expected {}", escape(parameter.name()), given.rank,
          escape(type.to_string()));
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] < 0) continue;
      wanted_.push_back({parameter.name(), axis, (*type.dims)[axis], sizes[axis]});
      const SymbolRef symbol = wanted_.back().dim.as_symbol();
      if (symbol == nullptr) continue;
      check(sizes[axis] >= symbol->range.min && sizes[axis] <= symbol->range.max,
            {ErrorKind::invalid_argument, reason::kShape},
            "input '{}': axis {} has size {}, expected '{}' in {}..{}", escape(parameter.name()),
            axis, sizes[axis], escape(symbol->name), symbol->range.min, symbol->range.max);
      fixed_.emplace(symbol->name, Dim(sizes[axis]));
    }
  }

  void apply() {
    for (const Wanted& each : wanted_) {
      const std::optional<int64_t> size = each.dim.substitute(fixed_).constant();
      check(!size || *size == each.size, {ErrorKind::invalid_argument, reason::kShape},
            "input '{}': axis {} has size {}, expected {} (the value of '{}')", escape(each.input),
            each.axis, each.size, size.value_or(0), escape(each.dim.to_string()));
    }
    fix_dims(program_, fixed_);
  }

 private:
  struct Wanted {
    std::string input;
    size_t axis;
    Dim dim;
    int64_t size;
  };
  Dim dim_of(int64_t size) {
    if (size >= 0) return Dim(size);
    return Dim(program_.add_symbol("n", SymbolKind::bound, Range{}));
  }

  Program& program_;
  std::vector<Wanted> wanted_;
  FixedDims fixed_;
};

lathe_error* infer_program(const lathe_program* program, const lathe_view* inputs, size_t count,
                           lathe_value_sink sink, void* context) {
  return guarded([&] {
    const Program& source = *demand(program, "program").program;
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    check(count == source.main().parameters().size(),
          {ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
          count, escape(source.name), source.main().parameters().size());
    const std::unique_ptr<Program> changed = source.clone();
    GivenSizes sizes(*changed);
    const Views<const lathe_view> views(inputs, count, "inputs");
    for (size_t i = 0; i < count; ++i) {
      if (views[i].dims != nullptr || views[i].type != 0) sizes.add(i, views[i]);
    }
    sizes.apply();
    const Signature outputs = outputs_of(*changed);
    for (size_t i = 0; i < outputs.size(); ++i) {
      lathe_value_info info{};
      info.size = sizeof info;
      fill_info(outputs, i, &info);
      sink(context, i, &info);
    }
  });
}

lathe_error* write(const lathe_program* program, const char* format, lathe_text_sink sink,
                   void* context) {
  return guarded([&] {
    const Program& source = *demand(program, "program").program;
    const std::string_view name = &demand(format, "format");
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    check(name == "text" || name == "json" || name == "dot", ErrorKind::invalid_argument,
          "format is '{}', expected one of: text, json, dot", escape(name));
    const std::string text = name == "text"   ? print(source)
                             : name == "json" ? to_json(source)
                                              : to_dot(source);
    sink(context, text.data(), text.size());
  });
}

nlohmann::ordered_json json_of(const VerificationReport& report) {
  using Object = nlohmann::ordered_json;
  Object out{{"passed", report.passed()},
             {"quantises", report.quantises},
             {"skipped", report.skipped},
             {"stages", Object::array()}};
  for (const StageReport& stage : report.stages) {
    Object values = Object::array();
    for (const ValueReport& value : stage.values) {
      values.push_back({{"name", value.name},
                        {"type", value.type},
                        {"error", value.error},
                        {"limit", value.limit},
                        {"judged", value.judged},
                        {"problem", value.problem}});
    }
    out["stages"].push_back({{"name", stage.name},
                             {"passed", stage.passed()},
                             {"unchanged", stage.unchanged},
                             {"bad_pass", stage.bad_pass},
                             {"problem", stage.problem},
                             {"values", std::move(values)}});
  }
  return out;
}

lathe_error* verify_values(const lathe_program* program, const lathe_verify_options* given,
                           lathe_tensor* const* inputs, size_t count, lathe_text_sink report,
                           void* context, int* passed) {
  return guarded([&] {
    const Program& source = *demand(program, "program").program;
    const lathe_verify_options options = known(given);
    demand(passed, "passed");
    check(options.tolerance >= 0 && options.tolerance < 1e30, ErrorKind::invalid_argument,
          "tolerance is {}, expected 0 or more", options.tolerance);
    check(count == source.main().parameters().size(),
          {ErrorKind::invalid_argument, reason::kInputCount}, "got {} inputs, '{}' requires {}",
          count, escape(source.name), source.main().parameters().size());
    if (count > 0) demand(inputs, "inputs");
    VerificationCase only{"the given inputs", {{}}};
    for (size_t i = 0; i < count; ++i) {
      only.steps[0].push_back(host_box(inputs[i], fmt::format("inputs[{}]", i)));
    }
    const auto environment = Environment::process();
    VerificationOptions verification;
    verification.compile.target =
        find_target(options.target != nullptr ? options.target : kAutoTarget);
    check(verification.compile.target->computes(), ErrorKind::invalid_argument,
          "target '{}' computes no results to compare", verification.compile.target->name());
    if (options.compute != nullptr) {
      verification.compile.compute = parse_compute(options.compute, "compute");
    }
    verification.session.pool = &environment->pool();
    verification.tolerance = options.tolerance;
    if (options.cancel != nullptr) verification.cancel = &options.cancel->token;
    const InterruptScope interrupt(options.poll, options.poll_context);
    const VerificationReport found = verify_program(source, {&only, 1}, verification);
    if (report != nullptr) {
      const std::string text =
          json_of(found).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      report(context, text.data(), text.size());
    }
    *passed = found.passed() ? 1 : 0;
  });
}

}  // namespace

void add_program_tools(lathe_api& api) {
  api.program_infer = infer_program;
  api.program_write = write;
  api.program_verify = verify_values;
}

}  // namespace lathe::capi
