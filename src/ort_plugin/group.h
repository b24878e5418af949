// SPDX-License-Identifier: MIT
// A compiled group of nodes, which ONNX Runtime calls as one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/object_pool.h"
#include "ort_plugin/hip_memory.h"
#include "ort_plugin/host.h"
#include "ort_plugin/trace_file.h"
#include "runtime/environment.h"
#include "runtime/session.h"

namespace lathe::ort_plugin {

struct GroupOptions {
  std::shared_ptr<Environment> environment;
  int64_t memory_limit = 0;  // bytes; 0: none
  std::shared_ptr<TraceFile> trace;
  const Device* memory = nullptr;  // of values that do not lie in the host's
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
  void read_inputs(OrtKernelContext& context, Scratch& scratch);
  // True for a tensor that only a device may read.
  bool lies_there(const OrtValue& value) const {
    return options_.memory != nullptr && lies_on_device(host_, value);
  }
  // Copies in one batch; `begin` may return an idle stream of an earlier one.
  std::unique_ptr<Stream> begin_copies();
  void finish_copies(std::unique_ptr<Stream> stream);
  void read_boxed(const OrtValue& value, Argument& argument, Box& box) const;

  const Host& host_;
  std::string name_;
  GroupOptions options_;
  std::vector<size_t> inputs_;
  std::vector<size_t> outputs_;
  std::vector<bool> boxed_;    // by parameter
  std::vector<bool> reads_;    // by parameter: the plan reads it in the memory of values
  std::vector<bool> needs_;    // by parameter: nowhere else
  std::vector<bool> writes_;   // by result
  std::vector<bool> makes_;    // by result: nowhere else
  std::vector<int> replaced_;  // by result (aliasing.h)
  Session session_;
  ObjectPool<Stream> streams_;
};

}  // namespace lathe::ort_plugin
