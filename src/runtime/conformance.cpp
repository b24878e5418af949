// SPDX-License-Identifier: MIT
#include "runtime/conformance.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_map.h"
#include "import/load_model.h"
#include "runtime/data_set.h"
#include "runtime/verification.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// Additional tolerance for rounding to 16 bits: one rounding has a relative error of 2^-11 or 2^-8,
// and a model rounds several times.
double type_tolerance(ElementType type) {
  if (type == ElementType::f16) return 4e-3;
  if (type == ElementType::bf16) return 2e-2;
  return 0;
}

bool is_close(double a, double b, double relative, double absolute) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= absolute + relative * std::abs(b);
}

std::string compare_tensors(const Tensor& actual, const Tensor& expected, double relative,
                            double absolute) {
  if (actual.type() != expected.type() || actual.dims() != expected.dims()) {
    return fmt::format("got {}, expected {}", to_string(actual.type(), actual.dims()),
                       to_string(expected.type(), expected.dims()));
  }
  Tensor a = actual.dense();
  Tensor b = expected.dense();
  if (a.type() == ElementType::c64 || a.type() == ElementType::c128) {
    const ElementType part = a.type() == ElementType::c64 ? ElementType::f32 : ElementType::f64;
    a = Tensor(part, {a.count() * 2}, {1}, a.data(), a.owner());
    b = Tensor(part, {b.count() * 2}, {1}, b.data(), b.owner());
  }
  const bool floating = is_floating(a.type());
  if (!floating && identical(a, b)) return "";
  relative += type_tolerance(a.type());
  absolute += type_tolerance(a.type()) / 4;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (a.type() == ElementType::string) {
      const std::string& x = a.elements<std::string>()[static_cast<size_t>(i)];
      const std::string& y = b.elements<std::string>()[static_cast<size_t>(i)];
      if (x != y) return fmt::format("element {} is '{}', expected '{}'", i, escape(x), escape(y));
    } else if (floating) {
      const double x = load_double(a.type(), a.data(), i);
      const double y = load_double(b.type(), b.data(), i);
      if (!is_close(x, y, relative, absolute)) {
        return fmt::format("element {} is {}, expected {}", i, x, y);
      }
    } else {
      const int64_t x = load_int(a.type(), a.data(), i);
      const int64_t y = load_int(b.type(), b.data(), i);
      if (x != y) return fmt::format("element {} is {}, expected {}", i, x, y);
    }
  }
  return "";
}

std::string_view kind_name(const Box& box) {
  constexpr std::array<std::string_view, 4> kNames{"nothing", "a tensor", "a sequence", "a map"};
  return kNames[box.value.index()];
}

}  // namespace

std::string_view to_string(ConformanceStatus status) {
  constexpr std::array<std::string_view, 3> kNames{"passed", "failed", "unsupported"};
  return kNames[static_cast<size_t>(status)];
}

std::string compare_elements(const Box& actual, const Box& expected, double relative,
                             double absolute) {
  if (actual.value.index() != expected.value.index()) {
    return fmt::format("got {}, expected {}", kind_name(actual), kind_name(expected));
  }
  if (actual.is_tensor()) {
    return compare_tensors(actual.tensor(), expected.tensor(), relative, absolute);
  }
  if (actual.is_sequence()) {
    const auto& a = actual.sequence();
    const auto& b = expected.sequence();
    if (a.size() != b.size()) return fmt::format("got {} items, expected {}", a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const std::string wrong = compare_elements(a[i], b[i], relative, absolute);
      if (!wrong.empty()) return fmt::format("item {}: {}", i, wrong);
    }
    return "";
  }
  if (actual.empty()) return "";
  const auto& a = *std::get<std::shared_ptr<const BoxMap>>(actual.value);
  const auto& b = *std::get<std::shared_ptr<const BoxMap>>(expected.value);
  const std::string keys = compare_tensors(a.keys, b.keys, 0, 0);
  if (!keys.empty()) return "keys: " + keys;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const std::string wrong = compare_elements(a.values[i], b.values[i], relative, absolute);
    if (!wrong.empty()) return fmt::format("value {}: {}", i, wrong);
  }
  return "";
}

namespace {

// The model of a folder; "" if the folder has no model or no test data.
std::string model_in(const std::string& folder, const std::vector<std::string>& names) {
  std::string found;
  bool data = false;
  for (const std::string& name : names) {
    data |= name == "test_data_set_0";
    if (name.ends_with(".onnx") && (found.empty() || name == "model.onnx")) {
      found = join_path(folder, name);
    }
  }
  return data ? found : "";
}

void collect_folders(const std::string& folder, int depth, std::vector<std::string>& out) {
  constexpr int kDeepest = 16;  // links may be cyclic
  const std::vector<std::string> names = list_folder(folder);
  if (!model_in(folder, names).empty()) {
    out.push_back(folder);
    return;
  }
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    if (depth < kDeepest && is_folder(path)) collect_folders(path, depth + 1, out);
  }
}

struct Tolerances {
  double relative;
  double absolute;
};

Tolerances tolerances_of(const std::string& folder, const ConformanceOptions& options) {
  const std::string path = join_path(folder, "tolerance.json");
  if (!file_exists(path)) return {options.relative, options.absolute};
  const auto file = FileMap::open(path);
  const auto json = nlohmann::json::parse(file->text(), nullptr, false);
  check(json.is_object(), ErrorKind::invalid_argument, "'{}' is not a JSON object", escape(path));
  return {json.value("rtol", options.relative), json.value("atol", options.absolute)};
}

// Returns the first difference, or "".
std::string run_data_sets(const std::string& folder, const ConformanceOptions& options) {
  const std::string model = model_in(folder, list_folder(folder));
  check(!model.empty(), ErrorKind::invalid_argument, "'{}' has no model with test data",
        escape(folder));
  const Tolerances tolerance = tolerances_of(folder, options);
  const auto plan = compile(load_model(model), options.compile);
  Session session(plan, options.session);
  const Program& source = *plan->source;
  const bool quantises = quantises_at_run_time(source);
  for (const std::string& path : data_sets_beside(model)) {
    const DataSet data = read_data_set(path, source);
    session.reset();
    const std::vector<Box> results = session.run(data.inputs, options.run);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!data.outputs[i]) continue;
      const std::string wrong =
          compare_elements(results[i], *data.outputs[i], tolerance.relative, tolerance.absolute);
      const std::string& name = source.main().result_names()[i];
      // Rounding to integers amplifies differences: compares such outputs as distributions.
      const bool same =
          wrong.empty() ||
          (quantises && judge_value(name, results[i], *data.outputs[i], {}, true).problem.empty());
      if (same) continue;
      return fmt::format("{}: output '{}': {}", data.name, escape(name), wrong);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> find_model_folders(const std::string& root) {
  std::vector<std::string> out;
  collect_folders(root, 0, out);
  return out;
}

ConformanceResult run_model_folder(const std::string& folder, const ConformanceOptions& options) {
  ConformanceResult result{folder, ConformanceStatus::passed, "", 0};
  try {
    result.detail = run_data_sets(folder, options);
    if (!result.detail.empty()) result.status = ConformanceStatus::failed;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::interrupted) throw;
    result.detail = error.what();
    const bool unsupported = error.kind() == ErrorKind::unsupported;
    result.status = unsupported ? ConformanceStatus::unsupported : ConformanceStatus::failed;
    if (!unsupported) result.error_code = error_kind_info(error.kind()).exit_code;
  }
  return result;
}

}  // namespace lathe
