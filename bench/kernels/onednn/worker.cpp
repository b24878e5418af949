// SPDX-License-Identifier: MIT
// A process of its own for oneDNN: two versions cannot share one. Commands on standard input, one
// answer line each: "prepare PROBLEM" → "ok IMPLEMENTATION" or "no REASON"; "run COUNT" →
// nanoseconds; "result FILE" → "ok", the result in f32 is in the file; "quit".
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

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
  if (problem.kind == "pair") return prepare_pair(engine, problem);
  if (problem.kind == "lstm" || problem.kind == "gru") return prepare_recurrent(engine, problem);
  throw std::runtime_error("no " + problem.kind + " here");
}

int64_t time_of(Prepared& prepared, int64_t count) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  prepared.run(count);
  return std::chrono::nanoseconds(Clock::now() - begin).count();
}

std::string answer(const dnnl::engine& engine, std::unique_ptr<Prepared>& prepared,
                   const std::string& line) {
  const size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (command == "prepare") {
    prepared.reset();
    prepared = prepare(engine, Problem::parse(rest));
    return "ok " + prepared->implementation;
  }
  if (prepared == nullptr) return "no case is prepared";
  if (command == "run") return std::to_string(time_of(*prepared, std::stoll(rest)));
  if (command == "result") {
    const std::vector<float> values = prepared->result();
    std::ofstream file(rest, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    return file ? "ok" : "no: cannot write " + rest;
  }
  return "no command " + command;
}

int serve() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl_version_t* version = dnnl_version();
  std::cout << "oneDNN " << version->major << "." << version->minor << "." << version->patch << " "
            << isa_name() << std::endl;
  std::unique_ptr<Prepared> prepared;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    try {
      std::cout << answer(engine, prepared, line) << std::endl;
    } catch (const std::exception& error) {
      prepared.reset();
      std::cout << "no: " << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main() { return lathe::bench::serve(); }
