// SPDX-License-Identifier: MIT
// Worker process for one oneDNN version. Reads commands from standard input and prints one line
// each: "prepare PROBLEM" → "ok IMPLEMENTATION" or "no REASON"; "add TIMES PROBLEM" → same, appends
// a problem to run TIMES; "run COUNT" → nanoseconds of COUNT runs of all problems in order; "result
// FILE" → "ok" after writing the first problem's result in f32; "quit".
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <vector>

#include "bench/kernels/onednn/peer.h"

namespace lathe::bench {
namespace {

std::string_view isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

std::unique_ptr<Prepared> prepare(const dnnl::engine& engine, const Problem& problem) {
  if (problem.kind == "matmul") return prepare_matmul(engine, problem);
  if (problem.kind == "conv") return prepare_conv(engine, problem);
  if (problem.kind == "lstm" || problem.kind == "gru") return prepare_recurrent(engine, problem);
  throw std::runtime_error("unknown kind " + problem.kind);
}

struct Part {
  std::unique_ptr<Prepared> prepared;
  int64_t times = 1;
};

int64_t time_of(const std::vector<Part>& parts, int64_t count) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  if (parts.size() == 1) {
    parts.front().prepared->run(count * parts.front().times);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      for (const Part& part : parts) part.prepared->run(part.times);
    }
  }
  return std::chrono::nanoseconds(Clock::now() - begin).count();
}

std::string add_part(const dnnl::engine& engine, std::vector<Part>& parts, const std::string& line,
                     int64_t times) {
  parts.push_back({prepare(engine, Problem::parse(line)), times});
  return "ok " + parts.back().prepared->implementation;
}

std::string answer(const dnnl::engine& engine, std::vector<Part>& parts, const std::string& line) {
  const auto cut = [](const std::string& text) {
    const size_t space = text.find(' ');
    return std::pair(text.substr(0, space),
                     space == std::string::npos ? "" : text.substr(space + 1));
  };
  const auto [command, rest] = cut(line);
  if (command == "prepare") {
    parts.clear();
    return add_part(engine, parts, rest, 1);
  }
  if (command == "add") {
    const auto [times, problem] = cut(rest);
    return add_part(engine, parts, problem, std::stoll(times));
  }
  if (parts.empty()) return "no: no problem is prepared";
  if (command == "run") return std::to_string(time_of(parts, std::stoll(rest)));
  if (command == "result") {
    const std::vector<float> values = parts.front().prepared->result();
    std::ofstream file(rest, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    return file ? "ok" : "no: cannot write " + rest;
  }
  return "no: unknown command " + command;
}

int serve() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl_version_t* version = dnnl_version();
  std::cout << "oneDNN " << version->major << "." << version->minor << "." << version->patch << " "
            << isa_name() << std::endl;
  std::vector<Part> parts;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    try {
      std::cout << answer(engine, parts, line) << std::endl;
    } catch (const std::exception& error) {
      parts.clear();
      std::cout << "no: " << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main() { return lathe::bench::serve(); }
