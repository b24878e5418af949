// SPDX-License-Identifier: MIT
#include "tests/support/llama_kernels.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace lathe::test {
namespace {

std::string framed(const std::string& module) {
  return fmt::format("program \"traffic\" stage imported {{\n  module @main({}\n  }}\n}}", module);
}

std::string product(std::string_view type, int64_t m, int64_t n, int64_t k) {
  return framed(fmt::format(
      "%a: {0}[{1}, {3}], %b: {0}[{2}, {3}]) {{\n    %y = gemm(%a, %b) {{trans_b = true}}\n"
      "    return %y as \"y\"",
      type, m, n, k));
}

std::string n_bits(int64_t m, int64_t n, int64_t k, int64_t bits, int64_t block,
                   std::string_view compute) {
  return framed(
      fmt::format("%a: f16[{0}, {2}], %codes: u8[{1}, {3}, {4}], %scales: f16[{1}, {3}]) {{\n"
                  "    %y = matmul_n_bits(%a, %codes, %scales) {{k = {2}, n = {1}, bits = {5}, "
                  "block_size = {6}{7}}}\n    return %y as \"y\"",
                  m, n, k, k / block, block * bits / 8, bits, block,
                  compute.empty() ? "" : fmt::format(", compute_type = \"{}\"", compute)));
}

// Normalised rows times two matrices of 4 bits, with their SwiGLU.
std::string gated(int64_t m) {
  const std::string product =
      "matmul_n_bits(%n, %{0}, %s) {{k = 4096, n = 14336, bits = 4, block_size = 128}}";
  return framed(fmt::format(
      "%x: f16[{0}, 4096], %g: f16[4096], %gate: u8[14336, 32, 64], %up: u8[14336, 32, 64], "
      "%s: f16[14336, 32]) {{\n    %n = rms_normalization(%x, %g)\n    %a = {1}\n    %b = {2}\n"
      "    %y = swiglu(%a, %b)\n    return %y as \"y\"",
      m, fmt::format(fmt::runtime(product), "gate"), fmt::format(fmt::runtime(product), "up")));
}

Box vector_of(Dims dims, const std::function<int32_t(int32_t)>& element) {
  Tensor tensor(ElementType::i32, std::move(dims));
  for (int32_t i = 0; i < tensor.count(); ++i) tensor.as<int32_t>()[i] = element(i);
  return Box{tensor};
}

// One token of each sequence, after `past` others.
KernelProgram decode(int32_t sequences, int32_t past) {
  constexpr int32_t kPage = 16;
  const int32_t columns = past / kPage + 1;
  KernelProgram row{
      fmt::format("attention {} x {}", sequences, past),
      framed(fmt::format(
          "%q: bf16[1, {0}, 4096], %k: bf16[1, {0}, 1024], %v: bf16[1, {0}, 1024], "
          "%ck: bf16[{1}, 8, {2}, 128], %cv: bf16[{1}, 8, {2}, 128], %bounds: i32[{3}], "
          "%past: i32[{0}], %table: i32[{0}, {4}]) {{\n"
          "    %y, %k1, %v1 = sequence_attention(%q, %k, %v, %ck, %cv, %bounds, %past, %table) "
          "{{num_heads = 32, kv_num_heads = 8}}\n    return %y as \"y\"",
          sequences, sequences * columns, kPage, sequences + 1, columns))};
  row.given[5] = vector_of({sequences + 1}, [](int32_t i) { return i; });
  row.given[6] = vector_of({sequences}, [=](int32_t) { return past; });
  row.given[7] = vector_of({sequences, columns}, [](int32_t i) { return i; });
  row.kernel = "sequence_attention";
  return row;
}

}  // namespace

std::vector<KernelProgram> llama_kernels() {
  std::vector<KernelProgram> all;
  for (const int64_t m : {1, 8, 64}) {
    all.push_back({fmt::format("bf16 product, {} rows", m), product("bf16", m, 4096, 4096)});
    all.back().printed_only = m > 8;
    for (const int64_t bits : {8, 4}) {
      all.push_back(
          {fmt::format("int{} product, {} rows", bits, m), n_bits(m, 4096, 4096, bits, 128, "")});
      all.push_back({fmt::format("int{} level 4, {} rows", bits, m),
                     n_bits(m, 4096, 4096, bits, 32, "int8")});
      all.back().fragments = all[all.size() - 2].fragments = bits == 4 && m > 1;
    }
    all.push_back({fmt::format("int4 level 4, block 128, {} rows", m),
                   n_bits(m, 4096, 4096, 4, 128, "int8")});
    // Each wave reads a scale of 2 bytes for each of 16 columns, whose neighbours caches have then.
    all.back().printed_only = m > 1;
  }
  for (const int64_t m : {1, 8}) {
    // Blocks read their rows twice, the second time from caches.
    all.push_back({fmt::format("int4 gated products, {} rows", m), gated(m)});
    all.back().printed_only = true;
  }
  for (const int32_t sequences : {1, 32}) {
    all.push_back(decode(sequences, 2047));
    all.back().fragments = true;
  }
  all.push_back({"attention prefill",
                 framed("%q: f16[1, 32, 256, 128], %k: f16[1, 8, 256, 128], "
                        "%v: f16[1, 8, 256, 128]) {\n    %y, %pk, %pv, %s = attention(%q, %k, %v) "
                        "{is_causal = true}\n    return %y as \"y\"")});
  all.back().printed_only = true;
  all.push_back({"RMS normalisation", framed("%x: bf16[32, 4096], %g: bf16[4096]) {\n    %y = "
                                             "rms_normalization(%x, %g)\n    return %y as \"y\"")});
  all.push_back({"SiLU, product",
                 framed("%x: bf16[32, 14336], %g: bf16[32, 14336]) {\n    %s = sigmoid(%x)\n"
                        "    %t = mul(%x, %s)\n    %y = mul(%t, %g)\n    return %y as \"y\"")});
  all.push_back({"softmax", framed("%x: bf16[32, 8, 2048]) {\n    %y = softmax(%x)\n"
                                   "    return %y as \"y\"")});
  return all;
}

}  // namespace lathe::test
