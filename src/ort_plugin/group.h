// SPDX-License-Identifier: MIT
// A compiled group of nodes, which ONNX Runtime calls as one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ort_plugin/host.h"
#include "ort_plugin/trace_file.h"
#include "runtime/environment.h"
#include "runtime/session.h"

namespace lathe::ort_plugin {

struct GroupOptions {
  std::shared_ptr<Environment> environment;
  int64_t memory_limit = 0;  // bytes; 0: none
  std::shared_ptr<TraceFile> trace;
};

class Group {
 public:
  // `inputs`: for each parameter of main the input of the fused node, `outputs`: for each result
  // its output.
  Group(const Host& host, std::string name, const std::shared_ptr<const Plan>& plan,
        std::vector<size_t> inputs, std::vector<size_t> outputs, GroupOptions options);

  // Runs on the host's memory, from any number of threads. `log` receives warnings.
  void run(OrtKernelContext& context, const Log& log);

  const std::string& name() const { return name_; }
  const Plan& plan() const { return session_.plan(); }

 private:
  class Results;
  struct Scratch;
  void read_inputs(OrtKernelContext& context, Scratch& scratch) const;
  void read_boxed(const OrtValue& value, Argument& argument, Box& box) const;

  const Host& host_;
  std::string name_;
  GroupOptions options_;
  std::vector<size_t> inputs_;
  std::vector<size_t> outputs_;
  std::vector<bool> boxed_;    // by parameter
  std::vector<int> replaced_;  // by result (aliasing.h)
  Session session_;
};

}  // namespace lathe::ort_plugin
