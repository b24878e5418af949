// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "arrays.h"
#include "numpy_api.h"
#include "programs.h"

namespace lathe_python {

// An input or output of a session. `name` is interned.
struct Port {
  nb::object name;
  lathe_value_info info;
  bool is_fixed = false;  // a tensor of known shape, numeric, at least 8 bits per element
  bool may_be_omitted() const { return info.has_default != 0 || info.kind == LATHE_VALUE_OPTIONAL; }
};

class Call;

// A session of the C interface and what it takes and returns. Runs and bindings share it: opening
// the session again leaves them as they are.
struct OpenSession {
  nb::object plan;
  Handle<lathe_session> handle;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  // Indices by name; -1 for an unknown one.
  Py_ssize_t input_index(PyObject* name) const { return index_in(input_indices, name); }
  Py_ssize_t output_index(PyObject* name) const { return index_in(output_indices, name); }
  // The position of a feed's key; `expected` is tried first.
  size_t position_of(PyObject* name, size_t expected) const;
  void require_inputs(const Call& call) const;
  // Results in the order of names; all where there are none.
  nb::object select(const nb::list& results, nb::handle names) const;

  nb::dict input_indices;
  nb::dict output_indices;

 private:
  static Py_ssize_t index_in(const nb::dict& index, PyObject* name);
};

class Session {
 public:
  // Replaces the plan; a failure leaves the session as it was.
  void open(nb::object plan, int threads, int64_t memory_limit);
  // Runs with a dict of inputs; `names` None or empty: all outputs.
  nb::object run(nb::handle names, nb::handle feed, nb::handle options) {
    return run(names, feed, options, nullptr);
  }
  // The results, and the times of all launches as a JSON array.
  nb::tuple run_traced(nb::handle names, nb::handle feed, nb::handle options);
  // Raises before open().
  const std::shared_ptr<const OpenSession>& opened() const;

 private:
  nb::object run(nb::handle names, nb::handle feed, nb::handle options, std::string* trace);

  std::shared_ptr<const OpenSession> open_;
};

// The arguments and results of runs: views of NumPy arrays, which it keeps. Views of a vector that
// holds them inline up to a size that most models have.
class Call {
 public:
  explicit Call(std::shared_ptr<const OpenSession> session);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // Holds `value`. `is_bound`: for several runs, between which the program may reshape its array.
  void set_input(size_t index, PyObject* value, bool is_bound = false);
  void clear_input(size_t index);
  bool has_input(size_t index) const { return inputs_[index].data != nullptr || is_set_[index]; }
  // An array or a tensor on a device that receives the output in every run; null: a new array in
  // each.
  void set_output(size_t index, PyObject* array);
  // A new tensor on the device in every run.
  void set_output_on(size_t index, const lathe_device* device);
  void set_options(nb::handle options);
  // Receives the times of the launches; null: none.
  void set_trace(std::string* trace);
  // Runs without the GIL and returns the results in order of the outputs.
  nb::list run();

 private:
  static constexpr size_t kInline = 16;
  static constexpr int kInlineRank = 4;
  void make_output(size_t index, const Port& port);
  const lathe_device* device_for(size_t index) const {
    return index < devices_.size() ? devices_[index] : nullptr;
  }
  void drop_made() noexcept;

  // Copies the dims of an array that other threads may reshape.
  const int64_t* keep_dims(size_t index, PyArrayObject* array);

  std::shared_ptr<const OpenSession> session_;
  lathe_run_options options_;
  nb::object cancel_;
  size_t input_count_;
  size_t output_count_;
  lathe_view* inputs_;
  lathe_view* outputs_;
  bool* is_set_;       // an input without data (a tensor of no elements, a handle) is set
  PyObject** held_;    // arrays of inputs; owned
  PyObject** arrays_;  // of outputs: bound, or made for one run; owned
  bool* is_bound_;     // the array of an output stays
  lathe_view inline_views_[2 * kInline];
  PyObject* inline_arrays_[2 * kInline];
  bool inline_flags_[2 * kInline];
  int64_t inline_dims_[kInline][kInlineRank];
  std::vector<lathe_view> views_;
  std::vector<PyObject*> array_list_;
  std::vector<char> flags_;
  std::vector<std::pair<size_t, std::vector<int64_t>>> steps_;   // strides of inputs
  std::vector<std::pair<size_t, std::vector<int64_t>>> dims_;    // of inputs, beyond inline_dims_
  std::vector<std::pair<size_t, Handle<lathe_tensor>>> values_;  // handles of inputs
  std::vector<const lathe_device*> devices_;  // of outputs in new tensors; empty: all the host's
};

}  // namespace lathe_python
