// SPDX-License-Identifier: MIT
#include "tests/support/pass_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "ir/parse.h"
#include "ir/pass_runner.h"
#include "ir/print.h"
#include "passes/eliminate_dead_code.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tests/support/compare.h"
#include "tests/support/random_inputs.h"

namespace lathe::test {
namespace {

constexpr std::string_view kUnchanged = "unchanged\n";
constexpr int kRuns = 8;  // bindings per case

std::unique_ptr<Program> program_of(const std::string& text, const PassCase& row) {
  return parse_program(fmt::format("program \"test\" stage imported {{\n{}}}\n", text),
                       {.file = row.file});
}

// The text between the braces of the program, unindented by two columns.
std::string inner_text(const Program& program) {
  std::istringstream text(print(program));
  std::string out;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("program ") || line == "}") continue;
    if (line.empty() && out.empty()) continue;
    out += (line.starts_with("  ") ? line.substr(2) : line) + "\n";
  }
  return out;
}

bool run_pass(Program& program, const Pass& pass) {
  const Pipeline pipeline{.stages = {{Stage::canonical, {pass}}}, .cleanup = eliminate_dead_code};
  program.stage = Stage::imported;
  return run_passes(program, pipeline, {.verify_each_pass = true, .round_trip = true})
      .front()
      .changed;
}

// Lowers and runs the program on `ref` without passes that could hide an error of this one.
std::vector<Box> run_on_ref(const Program& program, const std::vector<Box>& inputs) {
  std::unique_ptr<Program> copy = program.clone();
  copy->stage = Stage::fused;
  Session session(compile(std::move(copy), {.target = find_target("ref")}),
                  {.warn = [](std::string_view) {}});
  return session.run(inputs);
}

// Requires equal elements, including signs of zeros; any NaN equals any NaN.
std::string exact_difference(const Box& actual, const Box& expected) {
  const std::string rough = difference(actual, expected, 0);
  if (!rough.empty() || !expected.is_tensor() || !is_floating(expected.tensor().type())) {
    return rough;
  }
  const Tensor a = actual.tensor().dense();
  const Tensor b = expected.tensor().dense();
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = load_double(a.type(), a.data(), i);
    const double y = load_double(b.type(), b.data(), i);
    if (x == 0 && std::signbit(x) != std::signbit(y)) {
      return fmt::format("is {}\n  expected {}", to_text(actual), to_text(expected));
    }
  }
  return "";
}

// Replaces infinities and NaN by 1.
void make_finite(Box& box) {
  if (!box.is_tensor() || !is_floating(box.tensor().type())) return;
  const Tensor tensor = box.tensor().clone();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (!std::isfinite(load_double(tensor.type(), tensor.data(), i))) {
      store_double(tensor.type(), tensor.data(), i, 1);
    }
  }
  box = Box{tensor};
}

void compare_runs(const PassCase& row, const Program& before, const Program& after) {
  std::optional<double> tolerance;
  if (row.options.starts_with("within ")) tolerance = std::stod(row.options.substr(7));
  std::mt19937_64 random(7);
  for (int run = 0; run < kRuns; ++run) {
    const std::optional<Bindings> bindings = bind_symbols(before, random);
    ASSERT_TRUE(bindings.has_value()) << "no values of the symbols satisfy all guards";
    std::vector<Box> inputs = random_inputs(before, *bindings, random);
    if (row.options.ends_with(" finite")) std::ranges::for_each(inputs, make_finite);
    const std::vector<Box> expected = run_on_ref(before, inputs);
    const std::vector<Box> actual = run_on_ref(after, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const std::string found = tolerance ? difference(actual[i], expected[i], tolerance)
                                          : exact_difference(actual[i], expected[i]);
      EXPECT_EQ(found, "") << row.file << ":" << row.line << ": result " << i
                           << " differs after the pass";
    }
  }
}

}  // namespace

std::vector<PassCase> read_pass_cases(const std::string& file) {
  std::ifstream stream(file);
  check(stream.good(), ErrorKind::io, "cannot read {}", file);
  std::vector<PassCase> cases;
  std::string* part = nullptr;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.starts_with("# ")) {
      cases.push_back({.file = file, .line = number, .sentence = line.substr(2)});
      part = &cases.back().before;
    } else if (line.starts_with("=>")) {
      check(part != nullptr && part == &cases.back().before, ErrorKind::invalid_argument,
            "{}:{}: expected '=>' once, between the programs before and after", file, number);
      cases.back().options = line.size() > 3 ? line.substr(3) : "";
      part = &cases.back().after;
    } else if (part != nullptr) {
      if (!line.empty() || !part->empty()) *part += line + "\n";
    } else {
      check(line.empty(), ErrorKind::invalid_argument, "{}:{}: expected a '# ' comment before '{}'",
            file, number, line);
    }
  }
  for (PassCase& row : cases) {
    for (std::string* text : {&row.before, &row.after}) {
      while (text->ends_with("\n\n")) text->pop_back();
    }
  }
  return cases;
}

std::string print_pass_cases(const std::vector<PassCase>& cases) {
  std::string out;
  for (const PassCase& row : cases) {
    out += fmt::format("{}# {}\n{}=>{}{}\n{}", out.empty() ? "" : "\n", row.sentence, row.before,
                       row.options.empty() ? "" : " ", row.options, row.after);
  }
  return out;
}

std::string run_pass_case(const PassCase& row, const Pass& pass, bool idempotent) {
  const std::unique_ptr<Program> before = program_of(row.before, row);
  const std::unique_ptr<Program> after = before->clone();
  const bool changed = run_pass(*after, pass);
  const std::string once = inner_text(*after);
  if (idempotent) {
    const auto again = after->clone();
    EXPECT_FALSE(run_pass(*again, pass)) << "the pass is not idempotent";
    EXPECT_EQ(inner_text(*again), once);
  }
  EXPECT_EQ(changed, once != inner_text(*before)) << "the pass returns the wrong `changed`";
  if (!row.options.starts_with("not run: ")) compare_runs(row, *before, *after);
  return changed ? once : std::string(kUnchanged);
}

}  // namespace lathe::test
