// SPDX-License-Identifier: MIT
#include <cxxabi.h>

#include <chrono>
#include <thread>

#include "core.h"

namespace lathe_python {
namespace {

// lathe._errors.make(kind, reason, message, notes) returns the exception.
[[noreturn]] void raise_made(int kind, nb::object reason, nb::object message, nb::object notes) {
  nb::object make = nb::module_::import_("lathe._errors").attr("make");
  nb::object exception = make(kind, reason, message, notes);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

nb::object text(const char* bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(
      bytes, static_cast<Py_ssize_t>(std::string_view(bytes).size()), "replace"));
}

// Until the process ends.
[[noreturn]] void stop_thread() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

void check(lathe_error* error) {
  if (error == nullptr) [[likely]] {
    return;
  }
  Handle<lathe_error> owned(error, api->error_free);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  nb::list notes;
  const size_t count = api->error_note_count(error);
  for (size_t i = 0; i < count; ++i) notes.append(text(api->error_note(error, i)));
  const int kind = api->error_kind(error);
  const nb::object message = text(api->error_message(error));
  const nb::object reason = text(api->error_reason(error));
  owned.reset();
  raise_made(kind, reason, message, notes);
}

void raise(lathe_error_kind kind, const std::string& message, const char* reason) {
  raise_made(kind, text(reason), text(message.c_str()), nb::list());
}

void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    stop_thread();
  }
}

PyGILState_STATE ensure_gil() {
  try {
    return PyGILState_Ensure();
  } catch (abi::__forced_unwind&) {
    stop_thread();
  }
}

CallLock::CallLock(CallMutex& calls) : calls_(calls) {
  const std::thread::id self = std::this_thread::get_id();
  if (calls.owner_.load(std::memory_order_relaxed) == self) {
    raise(LATHE_INVALID_ARGUMENT, std::string(calls.what_) + " is in use by a call of this thread");
  }
  if (!calls.mutex_.try_lock()) {
    PyThreadState* state = PyEval_SaveThread();
    calls.mutex_.lock();
    take_gil(state);
  }
  calls.owner_.store(self, std::memory_order_relaxed);
}

void release_object(void* object) {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = ensure_gil();
  Py_DECREF(static_cast<PyObject*>(object));
  PyGILState_Release(state);
}

int poll_signals(void*) {
  const PyGILState_STATE state = ensure_gil();
  const int result = PyErr_CheckSignals();
  PyGILState_Release(state);
  return result;
}

}  // namespace lathe_python
