// SPDX-License-Identifier: MIT
// Registers, memory and occupancy of kernels at the shapes of Llama-3.1-8B and ResNet-50, as
// compilers of each card report them. TEST_KERNELS_PAGE=FILE writes the table there.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <regex>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/parse.h"
#include "targets/compile.h"
#include "targets/gpu/code/compiler.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/kernel_resources.h"
#include "tests/support/llama_kernels.h"
#include "tests/support/parallel.h"
#include "tests/support/sanitized.h"

namespace lathe::test {
namespace {

// The number that the text defines, or "".
std::string defined(const std::string& text, const std::string& name) {
  const std::string line = "#define " + name + " ";
  const size_t at = text.find(line);
  if (at == std::string::npos) return "";
  const size_t begin = at + line.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// The type of `typedef f16 NAME;`, or "".
std::string type_of(const std::string& text, const std::string& name) {
  std::smatch match;
  const std::regex line("\ntypedef (\\w+) " + name + ";");
  return std::regex_search(text, match, line) ? match[1].str() : "";
}

std::string label_of(const gpu::Source& source) {
  std::string label = source.name;
  std::string type = type_of("\n" + source.text, "TA");
  if (type.empty()) type = type_of("\n" + source.text, "T");
  if (!type.empty()) label += ", " + (type == "float" ? "f32" : type);
  for (const auto& [name, unit] : {std::pair("ROWS", "rows"), {"COLUMNS", "columns"}}) {
    const std::string value = defined(source.text, name);
    if (!value.empty() && value.find('(') == std::string::npos) {
      label += fmt::format(", {} {}", value, unit);
    }
  }
  for (const auto& [name, word] :
       {std::pair("FRAGMENTS", "fragments"), {"FINISH", "sums"}, {"INTEGERS", "integers"}}) {
    if (defined(source.text, name) == "1") label += fmt::format(", {}", word);
  }
  for (const auto& [name, unit] :
       {std::pair("BITS", "bits"), {"WAVES", "waves"}, {"SPLIT", "parts of keys"}}) {
    const std::string value = defined(source.text, name);
    if (!value.empty()) label += fmt::format(", {} {}", value, unit);
  }
  if (const std::string part = defined(source.text, "PART"); !part.empty()) {
    label += ", part " + part;
  }
  return label;
}

std::string framed(const std::string& module) {
  return "program \"kernels\" stage imported {\n  module @main(" + module + "\n  }\n}";
}

// Kernels of other programs than a language model's products and attention.
std::vector<std::string> more_programs() {
  std::vector<std::string> out;
  for (const char* type : {"f32", "f16"}) {
    for (const char* body :
         {"%x: {0}[8, 64, 56, 56], %w: {0}[64, 64, 3, 3]) {{\n    %y = conv(%x, %w) {{pads = [1, "
          "1, 1, 1]}}\n    return %y as \"y\"",
          "%x: {0}[8, 64, 112, 112]) {{\n    %y, %i = max_pool(%x) {{kernel_shape = [3, 3], "
          "strides = [2, 2], "
          "pads = [1, 1, 1, 1]}}\n    return %y as \"y\"",
          "%x: {0}[8, 256, 768], %g: {0}[768], %b: {0}[768]) {{\n    %y, %m, %d = "
          "layer_normalization(%x, "
          "%g, %b)\n    return %y as \"y\"",
          "%x: {0}[32, 4096]) {{\n    %a = literal i64[1] {{1}}\n    %y = reduce_mean(%x, %a)\n    "
          "return %y as \"y\"",
          "%w: {0}[128256, 4096], %i: i64[32]) {{\n    %y = gather(%w, %i)\n    return %y as \"y\"",
          "%x: {0}[8, 256, 12, 64]) {{\n    %y = transpose(%x) {{permutation = [0, 2, 1, 3]}}\n"
          "    return %y as \"y\"",
          "%x: {0}[32, 4096], %z: {0}[32, 4096]) {{\n    %y = concat(%x, %z) {{axis = 0}}\n"
          "    return %y as \"y\""}) {
      out.push_back(framed(fmt::format(fmt::runtime(body), type)));
    }
  }
  out.push_back(
      framed("%l: f32[32, 128256], %i: i64[32, 8], %n: f64[32, 6], %b: i32[33]) {\n"
             "    %e = literal i32[0, 2] {}\n    %v = literal f64[0] {}\n    %r = literal i32[0] "
             "{}\n    %t, %p, %m, %q = choose_tokens(%l, %i, %n, %b, %e, %v, %r, _)\n"
             "    return %t as \"t\""));
  return out;
}

// Kernels of which no register may lie in memory.
bool is_judged(const std::string& label) {
  return label.starts_with("attention") || label.starts_with("sequence_attention") ||
         label.starts_with("gemm") || label.starts_with("n_bits");
}

// Those that compiling the programs requests, by label, for waves of a width.
std::map<std::string, gpu::Source> sources_for(int wave, bool all) {
  std::vector<std::string> programs;
  if (all) programs = more_programs();
  for (const KernelProgram& row : llama_kernels()) programs.push_back(row.program);
  std::map<std::string, gpu::Source> sources;
  const auto previous = gpu::CodeStore::watch([&](const gpu::Source& source) {
    const std::string label = label_of(source);
    if (all || is_judged(label)) sources.emplace(label, source);
  });
  const auto target = std::make_shared<GpuTarget>(
      "gpu:host", gpu::make_host_driver({.wave = wave, .multiprocessors = 132}), 0,
      gpu::CodeStore::default_folder());
  for (const std::string& program : programs) {
    compile(parse_program(program), {.target = target});
  }
  gpu::CodeStore::watch(previous);
  return sources;
}

using Table = std::map<std::string, std::map<std::string, KernelResources>>;

std::string text_of(const Table& table, const std::vector<std::string>& columns) {
  std::string text = "| kernel |";
  for (const std::string& column : columns) text += fmt::format(" {} |", column);
  text += "\n|---|";
  for (size_t i = 0; i < columns.size(); ++i) text += "---|";
  for (const auto& [label, row] : table) {
    text += fmt::format("\n| {} |", label);
    for (const std::string& column : columns) {
      const auto at = row.find(column);
      if (at == row.end()) {
        text += " |";
        continue;
      }
      const KernelResources& r = at->second;
      text += fmt::format(" {} · {:.1f} · {:.0f} %", r.registers, r.shared_bytes / 1024.0,
                          100 * r.occupancy);
      text += r.frame_bytes > 0 ? fmt::format(" · {} B |", r.frame_bytes) : " |";
    }
  }
  return text + "\n";
}

constexpr const char* kPage = R"(# Kernels on GPUs

Registers of a thread, KB of shared memory of a block, and the share of a multiprocessor's threads
that run together; bytes of a thread's frame in memory, where it has one: spilled registers, arrays,
addresses that functions push (8 bytes on sm_120). NVRTC reports for `sm_*`, clang 19 for `gfx*`.
Shapes are those of Llama-3.1-8B and ResNet-50. `scripts/make_kernels_page.sh`, which writes this
page, fails if products or attention spill more than `tests/gpu/resources_test.cpp` lists: nothing
but what AMD does not use. `gpu_tests` judges sm_80 and gfx1100.

)";

// Kernels that spill still: bytes of a thread at most.
struct Spilled {
  std::string_view architecture;
  std::string_view label;
  int frame_bytes;
};
constexpr Spilled kSpilled[] = {
    // Not used there.
    {"gfx1100", "n_bits, f16, 16 rows, integers, 4 bits", 196},
    {"gfx1100", "sequence_attention, f32, 2 waves, part 3", 128},
};

int allowed_frame(const std::string& label, const std::string& architecture) {
  for (const Spilled& each : kSpilled) {
    if (each.label == label && each.architecture == architecture) return each.frame_bytes;
  }
  // Functions that divide push an address.
  return architecture == "sm_120" ? 8 : 0;
}

class GpuResources : public testing::TestWithParam<std::string> {
 protected:
  static void TearDownTestSuite() {
    const std::string table = text_of(found_, columns_);
    std::cout << table;
    if (const auto page = environment_variable("TEST_KERNELS_PAGE")) {
      std::ofstream(*page) << kPage << table;
    }
  }

  static inline Table found_;
  static inline std::vector<std::string> columns_;
};

TEST_P(GpuResources, ProductsAndAttentionSpillNothing) {
  if (kSanitized) GTEST_SKIP() << "compilers of cards are not sanitized";
  const auto start = std::chrono::steady_clock::now();
  const std::string& architecture = GetParam();
  const bool cuda = architecture.starts_with("sm_");
  std::unique_ptr<gpu::Compiler> compiler;
  try {
    compiler =
        gpu::make_offline_compiler(cuda ? gpu::Vendor::cuda : gpu::Vendor::hip, architecture);
  } catch (const Error& error) {
    GTEST_SKIP() << architecture << ": " << error.what();
  }
  columns_.push_back(architecture);
  const bool wide = architecture == "gfx90a" || architecture == "gfx942";
  const bool all = environment_variable("TEST_KERNELS_PAGE").has_value();
  const auto sources = sources_for(wide ? 64 : 32, all);
  EXPECT_FALSE(sources.empty());
  std::vector<const std::pair<const std::string, gpu::Source>*> each;
  for (const auto& source : sources) each.push_back(&source);
  std::vector<KernelResources> resources(each.size());
  in_parallel(each.size(), [&](size_t i) {
    try {
      resources[i] = resources_of(compiler->compile(each[i]->second), architecture);
    } catch (const Error& error) {
      ADD_FAILURE() << each[i]->first << ": " << error.what();
    }
  });
  for (size_t i = 0; i < each.size(); ++i) {
    const std::string& label = each[i]->first;
    const KernelResources& r = resources[i];
    if (is_judged(label)) {
      EXPECT_LE(r.frame_bytes, allowed_frame(label, architecture)) << label;
    }
    EXPECT_GT(r.occupancy, 0) << label;
    found_[label][architecture] = r;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{}: {} kernels, {:.1f} s\n", architecture, sources.size(),
                           took.count());
}

// The page's, or those where kernels have spilled most, as six take a minute.
std::vector<std::string> architectures() {
  if (!environment_variable("TEST_KERNELS_PAGE")) return {"sm_80", "gfx1100"};
  return {"sm_80", "sm_90", "sm_120", "gfx90a", "gfx942", "gfx1100"};
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuResources, testing::ValuesIn(architectures()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lathe::test
