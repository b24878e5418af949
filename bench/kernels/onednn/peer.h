// SPDX-License-Identifier: MIT
// What one case needs of oneDNN, over the interfaces of versions 2 and 3.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/kernels/inputs.h"
#include "bench/kernels/problem.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace lathe::bench {

using Arguments = std::unordered_map<int, dnnl::memory>;

// A primitive with a set of arguments for each rotation; weights are reordered already.
class Prepared {
 public:
  Prepared(const dnnl::engine& engine, const Problem& problem)
      : engine_(engine), stream_(engine), problem_(problem) {}

  std::string implementation;
  void run(int64_t count);
  // Runs once over fresh operands; the result in plain row-major f32.
  std::vector<float> result();

  // For whoever prepares.
  const Problem& problem() const { return problem_; }
  const dnnl::engine& engine() const { return engine_; }
  // Memory of this description with `values` in plain row-major order in it, once per rotation.
  void add(int argument, const dnnl::memory::desc& wanted, const std::vector<float>& values);
  // The same memory in every rotation: scales and biases.
  void add_vector(int argument, const std::vector<float>& values);
  // A primitive before the last one: its result, of this description, is the next one's source.
  void pass_on(dnnl::primitive primitive, const dnnl::memory::desc& dst);
  void finish(dnnl::primitive primitive, const dnnl::memory::desc& dst, std::string name);
  // Added to what the result's memory holds: the residual.
  std::vector<float> residual;

 private:
  dnnl::memory plain(const dnnl::memory::dims& dims, const std::vector<float>& values) const;
  void convert(const dnnl::memory& from, const dnnl::memory& to) const;
  dnnl::engine engine_;
  mutable dnnl::stream stream_;
  Problem problem_;
  dnnl::primitive before_, primitive_;
  std::vector<Arguments> arguments_before_, arguments_;  // none before where one primitive is all
  int64_t next_ = 0;
};

dnnl::memory::data_type data_type(const std::string& type, bool is_unsigned);
dnnl::memory::dims row_major(const dnnl::memory::dims& dims);
void append_activation(dnnl::post_ops& ops, const std::string& activation);

// Throws dnnl::error where oneDNN has no such primitive.
std::unique_ptr<Prepared> prepare_matmul(const dnnl::engine& engine, const Problem& problem);
std::unique_ptr<Prepared> prepare_conv(const dnnl::engine& engine, const Problem& problem);
std::unique_ptr<Prepared> prepare_pair(const dnnl::engine& engine, const Problem& problem);
std::unique_ptr<Prepared> prepare_recurrent(const dnnl::engine& engine, const Problem& problem);

}  // namespace lathe::bench
