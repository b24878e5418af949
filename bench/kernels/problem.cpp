// SPDX-License-Identifier: MIT
#include "bench/kernels/problem.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace lathe::bench {
namespace {

int64_t output_size(int64_t in, int64_t kernel, int64_t dilation, int64_t stride, int64_t pads) {
  return (in + pads - (kernel - 1) * dilation - 1) / stride + 1;
}

int64_t bytes_of(std::string_view type) { return type == "f32" ? 4 : type == "bf16" ? 2 : 1; }

constexpr int64_t kColdBytes = int64_t{128} << 20;  // more than the weights of ResNet-50

}  // namespace

int64_t Problem::operator[](std::string_view name) const {
  const auto at = parameters.find(name);
  return at == parameters.end() ? 0 : at->second;
}

std::string Problem::line() const {
  std::string out = kind + " " + type + " " + activation;
  for (const auto& [name, value] : parameters) out += " " + name + "=" + std::to_string(value);
  return out;
}

Problem Problem::parse(std::string_view line) {
  std::istringstream words{std::string(line)};
  Problem p;
  words >> p.kind >> p.type >> p.activation;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    int64_t value = 0;
    const char* end = word.data() + word.size();
    if (equals == std::string::npos ||
        std::from_chars(word.data() + equals + 1, end, value).ptr != end) {
      throw std::runtime_error("'" + word + "' is not NAME=NUMBER");
    }
    p.parameters[word.substr(0, equals)] = value;
  }
  return p;
}

int64_t output_height(const Problem& p) {
  return output_size(p["ih"], p["kh"], p["dh"], p["sh"], p["pt"] + p["pb"]);
}

int64_t output_width(const Problem& p) {
  return output_size(p["iw"], p["kw"], p["dw"], p["sw"], p["pl"] + p["pr"]);
}

double Problem::flops() const {
  const Problem& p = *this;
  if (kind == "conv") {
    const int64_t outputs = p["n"] * p["oc"] * output_height(p) * output_width(p);
    return 2.0 * static_cast<double>(outputs * (p["ic"] / p["g"]) * p["kh"] * p["kw"]);
  }
  if (kind == "attention") {
    const double pairs = static_cast<double>(p["m"] * p["n"]) / (p["causal"] != 0 ? 2 : 1);
    return 4.0 * pairs * static_cast<double>(p["batch"] * p["heads"] * p["size"]);
  }
  if (kind == "lstm" || kind == "gru") {
    const int64_t gates = kind == "lstm" ? 4 : 3;
    const int64_t per_step = gates * p["hidden"] * (p["hidden"] + p["input"]);
    return 2.0 * static_cast<double>(p["batch"] * p["steps"] * per_step);
  }
  return 2.0 * static_cast<double>(std::max<int64_t>(1, p["batch"]) * p["m"] * p["n"] * p["k"]);
}

int64_t Problem::bytes() const {
  const Problem& p = *this;
  const int64_t size = bytes_of(type);
  if (kind == "conv") {
    const int64_t outputs = p["n"] * p["oc"] * output_height(p) * output_width(p);
    const int64_t weights = p["oc"] * p["ic"] / p["g"] * p["kh"] * p["kw"];
    return size * (p["n"] * p["ic"] * p["ih"] * p["iw"] + weights + outputs);
  }
  if (kind == "matmul_n_bits") {
    const int64_t groups = (p["k"] + p["block"] - 1) / p["block"];
    return p["n"] * groups * (p["block"] * p["bits"] / 8 + 4) + 4 * p["m"] * (p["k"] + p["n"]);
  }
  if (kind == "attention") {
    return size * p["batch"] * p["size"] * 2 * (p["heads"] * p["m"] + p["kv_heads"] * p["n"]);
  }
  if (kind == "lstm" || kind == "gru") {
    return size * (kind == "lstm" ? 4 : 3) * p["hidden"] * (p["hidden"] + p["input"]);
  }
  const int64_t batch = std::max<int64_t>(1, p["batch"]);
  const int64_t b = p["weights"] != 0 ? 1 : batch;
  return size * (batch * (p["m"] * p["k"] + p["m"] * p["n"]) + b * p["k"] * p["n"]);
}

int64_t rotations(const Problem& p) {
  constexpr int64_t kSpread = int64_t{24} << 20;
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(kSpread / std::max<int64_t>(1, p.bytes()), 2, kMost);
}

int64_t weight_rotations(const Problem& p) {
  if (p["far"] == 0) return rotations(p);
  const int64_t bytes = bytes_of(p.type) * p["oc"] * p["ic"] / p["g"] * p["kh"] * p["kw"];
  return std::max(rotations(p), kColdBytes / std::max<int64_t>(1, bytes));
}

}  // namespace lathe::bench
