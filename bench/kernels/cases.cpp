// SPDX-License-Identifier: MIT
#include "bench/kernels/cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "import/load_model.h"
#include "ir/op.h"

namespace lathe::bench {
namespace {

constexpr int64_t kPositions = 128;

int64_t value_of(const Dim& dim) {
  const auto value = dim.evaluate([](const Symbol& symbol) -> std::optional<int64_t> {
    return symbol.name.find("batch") != std::string::npos ? 1 : kPositions;
  });
  check(value.has_value(), ErrorKind::invalid_argument, "no size for dim '{}'", dim.to_string());
  return *value;
}

std::vector<int64_t> dims_of(const Value& value) {
  std::vector<int64_t> dims;
  for (const Dim& dim : *value.type().dims) dims.push_back(value_of(dim));
  return dims;
}

bool is_literal(const Value* value) {
  return value->definition() != nullptr && value->definition()->literal() != nullptr;
}

const Instruction* only_user(const Value& value) {
  return value.uses().size() == 1 ? value.uses()[0].user : nullptr;
}

bool is_op(const Instruction* instruction, std::string_view name) {
  return instruction != nullptr && instruction->op().name == name;
}

// Adds the operations after a GEMM or convolution that an epilogue can apply to the problem.
// Returns the last value.
const Value* add_epilogue(const Value& result, Problem& p) {
  const Value* value = &result;
  const Instruction* user = only_user(*value);
  if (is_op(user, "add")) {
    const Value* other = user->operands()[user->operands()[0] == value ? 1 : 0];
    const bool is_bias = is_literal(other) && other->type().rank() == 1;
    const bool same_shape = other->type().is_ranked() && dims_of(*other) == dims_of(*value);
    if (is_bias || same_shape) {
      p.parameters[is_bias ? "bias" : "sum"] = 1;
      value = user->result();
      user = only_user(*value);
    }
  }
  if (is_op(user, "relu") || is_op(user, "gelu") || is_op(user, "hard_swish")) {
    p.activation = user->op().name;
    return user->result();
  }
  for (const Use& use : value->uses()) {
    const Instruction* next = is_op(use.user, "sigmoid") ? only_user(*use.user->result()) : nullptr;
    const bool gates =
        is_op(next, "mul") && (next->operands()[0] == value || next->operands()[1] == value);
    if (value->uses().size() != 2 || !gates) continue;
    p.activation = "silu";
    return next->result();
  }
  return value;
}

Problem convolution_of(const Instruction& instruction) {
  const std::vector<int64_t> x = dims_of(*instruction.operands()[0]);
  const std::vector<int64_t> w = dims_of(*instruction.operands()[1]);
  const auto list = [&](std::string_view name, size_t size, int64_t fallback) {
    const Attribute* found = find_attribute(instruction.attributes(), name);
    const auto* values = found == nullptr ? nullptr : std::get_if<Integers>(found);
    return values == nullptr || values->size() != size ? Integers(size, fallback) : *values;
  };
  const Integers strides = list("strides", 2, 1);
  const Integers dilations = list("dilations", 2, 1);
  const Integers pads = list("pads", 4, 0);
  Problem p{"conv", "f32", "none", {}};
  p.parameters = {
      {"n", x[0]},        {"ic", x[1]},       {"ih", x[2]},         {"iw", x[3]},
      {"oc", w[0]},       {"g", x[1] / w[1]}, {"kh", w[2]},         {"kw", w[3]},
      {"sh", strides[0]}, {"sw", strides[1]}, {"dh", dilations[0]}, {"dw", dilations[1]},
      {"pt", pads[0]},    {"pl", pads[1]},    {"pb", pads[2]},      {"pr", pads[3]}};
  if (instruction.operands().size() > 2 && instruction.operands()[2] != nullptr) {
    p.parameters["bias"] = 1;
  }
  return p;
}

Problem gemm_type_of(const Instruction& instruction) {
  const std::vector<int64_t> a = dims_of(*instruction.operands()[0]);
  const std::vector<int64_t> y = dims_of(*instruction.result());
  const bool constant = is_literal(instruction.operands()[1]);
  const int64_t n = y.back();
  const int64_t m = constant ? element_count(y) / n : y[y.size() - 2];
  Problem p{"matmul", "f32", "none", {}};
  p.parameters = {{"m", m}, {"n", n}, {"k", a.back()}, {"weights", constant ? 1 : 0}};
  p.parameters["batch"] = element_count(y) / (m * n);
  const bool has_bias = is_op(&instruction, "gemm") && instruction.operands().size() > 2;
  if (has_bias && instruction.operands()[2] != nullptr) p.parameters["bias"] = 1;
  return p;
}

void add_case(std::vector<Case>& cases, const std::string& source, Problem problem) {
  for (Case& known : cases) {
    if (known.problem == problem && known.source == source) {
      ++known.count;
      return;
    }
  }
  cases.push_back({source, std::move(problem), 1});
}

Problem gemm(int64_t m, int64_t n, int64_t k, bool bias = false) {
  Problem p{"matmul", "f32", "none", {}};
  p.parameters = {{"m", m}, {"n", n}, {"k", k}, {"weights", 1}, {"batch", 1}};
  if (bias) p.parameters["bias"] = 1;
  return p;
}

}  // namespace

std::vector<Case> cases_of_graph(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path from(path);
  std::string pattern = (fs::temp_directory_path() / "lathe-bench-XXXXXX").string();
  check(mkdtemp(pattern.data()) != nullptr, ErrorKind::io, "cannot create folder '{}'", pattern);
  const fs::path folder(pattern);
  struct Remove {
    const fs::path& folder;
    ~Remove() { fs::remove_all(folder); }
  } const remove{folder};
  fs::copy_file(from, folder / from.filename());
  fs::permissions(folder / from.filename(), fs::perms::owner_all);
  const fs::path data = folder / (from.filename().string() + ".data");
  std::ofstream(data).flush();
  constexpr uintmax_t kZeros = uintmax_t{4} << 30;  // sparse file
  fs::resize_file(data, kZeros);

  const std::unique_ptr<Program> program = load_model((folder / from.filename()).string());
  std::vector<Case> cases;
  for (const auto& instruction : program->main().instructions()) {
    const bool is_conv = is_op(instruction.get(), "conv");
    if (!is_conv && !is_op(instruction.get(), "matmul") && !is_op(instruction.get(), "gemm")) {
      continue;
    }
    Problem problem = is_conv ? convolution_of(*instruction) : gemm_type_of(*instruction);
    add_epilogue(*instruction->result(), problem);
    add_case(cases, from.stem().string(), std::move(problem));
  }
  return cases;
}

std::vector<Case> cases_of_graphs(const std::string& folder) {
  std::vector<Case> all;
  for (const char* name :
       {"resnet50", "mobilenet_v3_large", "efficientnet_b0", "vit_b_16", "bert_base"}) {
    const std::string path = folder + "/" + name + ".onnx";
    if (!std::filesystem::exists(path)) {
      fmt::print(stderr, "{} not found: skipping its shapes\n", path);
      continue;
    }
    const std::vector<Case> cases = cases_of_graph(path);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::vector<Case> language_model_cases(int64_t rows) {
  struct Shape {
    const char* name;
    int64_t hidden, qkv, inner, layers, vocabulary;
  };
  constexpr Shape kShapes[] = {{"smollm2_135m", 576, 960, 1536, 30, 49152},
                               {"llama_1b", 2048, 3072, 8192, 16, 128256},
                               {"llama_8b", 4096, 6144, 14336, 32, 128256}};
  std::vector<Case> cases;
  for (const Shape& s : kShapes) {
    cases.push_back({s.name, gemm(rows, s.qkv, s.hidden), s.layers});
    cases.push_back({s.name, gemm(rows, s.hidden, s.hidden), s.layers});
    cases.push_back({s.name, gemm(rows, 2 * s.inner, s.hidden), s.layers});
    cases.push_back({s.name, gemm(rows, s.hidden, s.inner), s.layers});
  }
  return cases;
}

std::vector<Case> square_cases() {
  std::vector<Case> cases;
  for (const int64_t size : {512, 1024, 2048}) {
    cases.push_back({"square", gemm(size, size, size), 1});
  }
  return cases;
}

std::vector<Case> attention_cases() {
  const auto attention = [](const char* source, int64_t heads, int64_t kv_heads, int64_t m,
                            int64_t n, int64_t causal) {
    Problem p{"attention", "f32", "none", {}};
    p.parameters = {{"batch", 1}, {"heads", heads}, {"kv_heads", kv_heads}, {"size", 64},
                    {"m", m},     {"n", n},         {"causal", causal}};
    return Case{source, p, 1};
  };
  Case in_pages = attention("llama-1b", 32, 8, 1, 4096, 1);
  in_pages.problem.parameters["page"] = 16;
  return {attention("bert", 12, 12, 512, 512, 0), attention("llama-1b", 32, 8, 2048, 2048, 1),
          attention("llama-1b", 32, 8, 1, 4096, 1), in_pages};
}

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  for (const char* kind : {"lstm", "gru"}) {
    for (const int64_t hidden : {128, 256, 512, 1024}) {
      Problem p{kind, "f32", "none", {}};
      p.parameters = {{"batch", 1}, {"steps", 100}, {"input", hidden}, {"hidden", hidden}};
      cases.push_back({"recurrent", p, 1});
    }
  }
  return cases;
}

std::vector<Case> convolutions_again(const std::vector<Case>& cases) {
  std::vector<Case> out;
  const auto add = [&](Case c, const char* variant) {
    c.problem.parameters[variant] = 1;
    out.push_back(std::move(c));
  };
  for (const Case& c : cases) {
    const Problem& p = c.problem;
    if (p.kind != "conv" || c.source != "resnet50") continue;
    const bool may_filter = p["g"] == 1 && p["kh"] == 3 && p["kw"] == 3 && p["sh"] == 1 &&
                            p["sw"] == 1 && p["dh"] == 1 && p["dw"] == 1;
    if (may_filter) add(c, "direct");
    add(c, "far");
  }
  return out;
}

std::vector<Case> with_type(std::vector<Case> cases, const std::string& type) {
  for (Case& c : cases) c.problem.type = type;
  return cases;
}

}  // namespace lathe::bench
