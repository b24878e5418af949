// SPDX-License-Identifier: MIT
// The hot path of a run: views of NumPy arrays, the run without the GIL, arrays of the results.
#include <algorithm>
#include <cstring>

#include "device_tensors.h"
#include "element_types.h"
#include "sessions.h"

namespace lathe_python {
namespace {

[[noreturn]] void wrong_type(const Port& port, lathe_element_type type) {
  raise(LATHE_INVALID_ARGUMENT,
        std::string("Unexpected input data type for input '") + port.info.name + "'. Actual: (" +
            onnx_type_name(type) + ") , expected: (" +
            (port.info.kind == LATHE_VALUE_TENSOR ? onnx_type_name(port.info.element_type)
                                                  : port.info.type) +
            ")",
        "type");
}

template <class Entry>
void erase(std::vector<std::pair<size_t, Entry>>& entries, size_t index) {
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (entry->first == index) {
      entries.erase(entry);
      return;
    }
  }
}

}  // namespace

Call::Call(std::shared_ptr<const OpenSession> session)
    : session_(std::move(session)),
      options_(init<lathe_run_options>()),
      input_count_(session_->inputs.size()),
      output_count_(session_->outputs.size()) {
  options_.poll = poll_signals;
  if (input_count_ <= kInline && output_count_ <= kInline) {
    inputs_ = inline_views_;
    outputs_ = inline_views_ + kInline;
    is_set_ = inline_flags_;
    is_bound_ = inline_flags_ + kInline;
    held_ = inline_arrays_;
    arrays_ = inline_arrays_ + kInline;
  } else {
    views_.resize(input_count_ + output_count_);
    flags_.resize(input_count_ + output_count_);
    array_list_.resize(input_count_ + output_count_);
    inputs_ = views_.data();
    outputs_ = inputs_ + input_count_;
    is_set_ = reinterpret_cast<bool*>(flags_.data());
    is_bound_ = is_set_ + input_count_;
    held_ = array_list_.data();
    arrays_ = held_ + input_count_;
  }
  for (size_t i = 0; i < input_count_; ++i) {
    inputs_[i] = init<lathe_view>();
    is_set_[i] = false;
    held_[i] = nullptr;
  }
  for (size_t i = 0; i < output_count_; ++i) {
    outputs_[i] = init<lathe_view>();
    is_bound_[i] = false;
    arrays_[i] = nullptr;
  }
}

Call::~Call() {
  for (size_t i = 0; i < input_count_; ++i) Py_XDECREF(held_[i]);
  for (size_t i = 0; i < output_count_; ++i) Py_XDECREF(arrays_[i]);
}

void Call::set_options(nb::handle options) {
  options_.cancel = nullptr;
  if (options.is_none()) return;
  cancel_ = options.attr("_cancel");
  options_.cancel = nb::cast<Cancel&>(cancel_).handle.get();
}

void Call::set_trace(std::string* trace) {
  options_.trace = trace != nullptr ? append_text : nullptr;
  options_.trace_context = trace;
}

void Call::clear_input(size_t index) {
  inputs_[index] = init<lathe_view>();
  if (!is_set_[index]) return;
  is_set_[index] = false;
  Py_XDECREF(std::exchange(held_[index], nullptr));
  erase(steps_, index);
  erase(dims_, index);
  erase(values_, index);
}

const int64_t* Call::keep_dims(size_t index, PyArrayObject* array) {
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  const int rank = PyArray_NDIM(array);
  const auto* dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
  if (index < kInline && rank <= kInlineRank) {
    std::copy(dims, dims + rank, inline_dims_[index]);
    return inline_dims_[index];
  }
  dims_.emplace_back(index, std::vector<int64_t>(dims, dims + rank));
  return dims_.back().second.data();
}

void Call::set_input(size_t index, PyObject* value, bool is_bound) {
  const Port& port = session_->inputs[index];
  clear_input(index);
  lathe_view& view = inputs_[index];
  if (PyArray_Check(value)) {
    auto* array = reinterpret_cast<PyArrayObject*>(value);
    const lathe_element_type type = type_of_number(PyArray_TYPE(array));
    const bool is_tensor = port.info.kind == LATHE_VALUE_TENSOR;
    if (type != port.info.element_type && is_tensor && type != 0) wrong_type(port, type);
    if (is_tensor && type != LATHE_STRING && bits_of(type) >= 8 &&
        PyArray_CHKFLAGS(array, NPY_ARRAY_ALIGNED) && PyArray_ISNOTSWAPPED(array)) {
      bool usable = true;
      if (!PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS)) {
        const npy_intp bytes = bits_of(type) / 8;
        std::vector<int64_t> steps(PyArray_STRIDES(array),
                                   PyArray_STRIDES(array) + PyArray_NDIM(array));
        for (int64_t& step : steps) {
          usable = usable && step % bytes == 0;
          step /= bytes;
        }
        steps_.emplace_back(index, std::move(steps));
        view.strides = steps_.back().second.data();
      }
      if (usable) {
        held_[index] = is_bound ? PyArray_View(array, nullptr, nullptr) : Py_NewRef(value);
        if (held_[index] == nullptr) throw nb::python_error();
        array = reinterpret_cast<PyArrayObject*>(held_[index]);
        view.type = type;
        view.rank = PyArray_NDIM(array);
        view.dims = is_bound ? reinterpret_cast<const int64_t*>(PyArray_DIMS(array))
                             : keep_dims(index, array);
        view.data = PyArray_DATA(array);
        is_set_[index] = true;
        return;
      }
      view.strides = nullptr;
      erase(steps_, index);
    }
  } else if (const DeviceTensor* tensor = device_tensor_of(value)) {
    held_[index] = Py_NewRef(value);
    view.value = tensor->handle.get();
    is_set_[index] = true;
    return;
  }
  values_.emplace_back(index, to_value(value, &port.info));
  view.value = values_.back().second.get();
  is_set_[index] = true;
}

void Call::set_output(size_t index, PyObject* array) {
  Py_XDECREF(std::exchange(arrays_[index], nullptr));
  is_bound_[index] = false;
  outputs_[index] = init<lathe_view>();
  if (index < devices_.size()) devices_[index] = nullptr;
  if (array == nullptr) return;
  if (const DeviceTensor* tensor = device_tensor_of(array)) {
    if (tensor->read_only) {
      raise(LATHE_INVALID_ARGUMENT, std::string("the tensor bound to output '") +
                                        session_->outputs[index].info.name + "' is read-only");
    }
    outputs_[index].value = tensor->handle.get();
    arrays_[index] = Py_NewRef(array);
    is_bound_[index] = true;
    return;
  }
  ArrayView found;
  auto* given = reinterpret_cast<PyArrayObject*>(array);
  if (!view_of(array, found) ||
      !PyArray_CHKFLAGS(given, NPY_ARRAY_WRITEABLE | NPY_ARRAY_C_CONTIGUOUS)) {
    raise(LATHE_INVALID_ARGUMENT,
          std::string("the array bound to output '") + session_->outputs[index].info.name +
              "' is not a writeable, contiguous numeric array in native byte order",
          "type");
  }
  // A view has dims of its own: the program may reshape its array between runs.
  PyObject* own_dims = PyArray_View(given, nullptr, nullptr);
  if (own_dims == nullptr) throw nb::python_error();
  lathe_view& view = outputs_[index];
  view.type = found.type;
  view.rank = found.rank;
  view.dims =
      reinterpret_cast<const int64_t*>(PyArray_DIMS(reinterpret_cast<PyArrayObject*>(own_dims)));
  view.data = found.data;
  arrays_[index] = own_dims;
  is_bound_[index] = true;
}

void Call::set_output_on(size_t index, const lathe_device* device) {
  set_output(index, nullptr);
  devices_.resize(output_count_);
  devices_[index] = device;
}

void Call::make_output(size_t index, const Port& port) {
  lathe_view& view = outputs_[index];
  view = init<lathe_view>();
  if (!port.is_fixed || device_for(index) != nullptr) return;
  arrays_[index] = new_array(port.info.element_type, port.info.dims, port.info.rank, &view.data);
  if (arrays_[index] == nullptr) throw nb::python_error();
  view.type = port.info.element_type;
  view.rank = port.info.rank;
  view.dims = port.info.dims;
}

void Call::drop_made() noexcept {
  for (size_t i = 0; i < output_count_; ++i) {
    if (!is_bound_[i]) Py_XDECREF(std::exchange(arrays_[i], nullptr));
  }
}

nb::list Call::run() {
  const std::vector<Port>& ports = session_->outputs;
  for (size_t i = 0; i < output_count_; ++i) {
    if (!is_bound_[i]) make_output(i, ports[i]);
  }
  options_.results_on_device =
      std::ranges::any_of(devices_, [](const lathe_device* device) { return device != nullptr; });
  PyThreadState* state = PyEval_SaveThread();
  lathe_error* error = api->session_run_views(session_->handle.get(), &options_, inputs_,
                                              input_count_, outputs_, output_count_);
  take_gil(state);
  if (error != nullptr) {
    drop_made();
    check(error);
  }
  // Results in new tensors become owned before anything can fail.
  std::vector<Handle<lathe_tensor>> tensors;
  for (size_t i = 0; i < output_count_; ++i) {
    if (arrays_[i] != nullptr) continue;
    tensors.resize(output_count_);
    tensors[i] = own(outputs_[i].value);
  }
  PyObject* results = PyList_New(static_cast<Py_ssize_t>(output_count_));
  if (results == nullptr) throw nb::python_error();
  nb::list out = nb::steal<nb::list>(results);
  for (size_t i = 0; i < output_count_; ++i) {
    PyObject* item = arrays_[i];
    if (item == nullptr) {
      item = result_on(std::move(tensors[i]), device_for(i)).release().ptr();
    } else if (is_bound_[i]) {
      Py_INCREF(item);
    } else {
      arrays_[i] = nullptr;
    }
    PyList_SetItem(results, static_cast<Py_ssize_t>(i), item);
  }
  return out;
}

}  // namespace lathe_python
