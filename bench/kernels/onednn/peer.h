// SPDX-License-Identifier: MIT
// A case on oneDNN, for the interfaces of versions 2 and 3.
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

// A primitive with one set of arguments per rotation; weights are already reordered.
class Prepared {
 public:
  Prepared(const dnnl::engine& engine, const Problem& problem)
      : engine_(engine), stream_(engine), problem_(problem) {}

  std::string implementation;
  void run(int64_t count);
  // Runs once over new operands and returns the result in row-major f32.
  std::vector<float> result();

  // The prepare_* functions use the members below.
  const Problem& problem() const { return problem_; }
  const dnnl::engine& engine() const { return engine_; }
  // Adds an argument of this layout, filled from row-major `values`, once per rotation.
  void add(int argument, const dnnl::memory::desc& layout, const std::vector<float>& values);
  // Adds an argument that all rotations share: scales and biases.
  void add_vector(int argument, const std::vector<float>& values);
  // Adds a primitive before the last one: its result, of layout `dst`, is the next one's source.
  void pass_on(dnnl::primitive primitive, const dnnl::memory::desc& dst);
  void finish(dnnl::primitive primitive, const dnnl::memory::desc& dst, std::string name);
  // Initial content of the result, to which the primitive adds.
  std::vector<float> residual;

 private:
  dnnl::memory plain(const dnnl::memory::dims& dims, const std::vector<float>& values) const;
  void convert(const dnnl::memory& from, const dnnl::memory& to) const;
  dnnl::engine engine_;
  mutable dnnl::stream stream_;
  Problem problem_;
  dnnl::primitive before_, primitive_;
  std::vector<Arguments> arguments_before_, arguments_;  // empty for a single primitive
  int64_t next_ = 0;
};

dnnl::memory::data_type data_type(const std::string& type, bool is_unsigned);
dnnl::memory::dims row_major(const dnnl::memory::dims& dims);
void append_activation(dnnl::post_ops& ops, const std::string& activation);

// These throw dnnl::error if oneDNN has no such primitive.
std::unique_ptr<Prepared> prepare_matmul(const dnnl::engine& engine, const Problem& problem);
std::unique_ptr<Prepared> prepare_conv(const dnnl::engine& engine, const Problem& problem);
std::unique_ptr<Prepared> prepare_recurrent(const dnnl::engine& engine, const Problem& problem);

}  // namespace lathe::bench
