// SPDX-License-Identifier: MIT
// What the files of the extension share: the C table, errors, conversion of values.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/lathe.h"

namespace lathe_python {
namespace nb = nanobind;

// The table of liblathe; set before any other use.
inline const lathe_api* api = nullptr;

// Raises the Python exception of an error and frees it; a pending Python exception (of a callback
// or a signal) precedes it. Requires the GIL.
void check(lathe_error* error);
// Raises the exception of an error kind with a message of the binding's own. `reason` is a word of
// error_reason, or empty.
[[noreturn]] void raise(lathe_error_kind kind, const std::string& message, const char* reason = "");

// An owned handle of the C interface.
template <class T>
class Handle {
 public:
  using Free = void (*)(T*);
  Handle() = default;
  Handle(T* handle, Free free) : handle_(handle), free_(free) {}
  Handle(Handle&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), free_(other.free_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Handle() { reset(); }
  T* get() const { return handle_; }
  T* release() { return std::exchange(handle_, nullptr); }
  void reset() {
    if (handle_ != nullptr) free_(std::exchange(handle_, nullptr));
  }

 private:
  T* handle_ = nullptr;
  Free free_ = nullptr;
};

inline Handle<lathe_tensor> own(lathe_tensor* tensor) { return {tensor, api->tensor_free}; }

template <class T>
T init() {
  T out{};
  out.size = sizeof(T);
  return out;
}

inline lathe_text text_of(const std::string& text) { return {text.data(), text.size()}; }
inline void append_text(void* to, const char* text, size_t bytes) {
  static_cast<std::string*>(to)->append(text, bytes);
}
inline nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }

// The GIL of a thread that leaves it for a while. At the interpreter's end CPython unwinds a daemon
// thread that requests it, through frames whose destructors need the GIL: such a thread stops here.
void take_gil(PyThreadState* state);
PyGILState_STATE ensure_gil();

// Calls `body` without the GIL and raises its error.
template <class F>
void unlocked(F&& body) {
  PyThreadState* state = PyEval_SaveThread();
  lathe_error* error = body();
  take_gil(state);
  check(error);
}

// Admits one call of an object at a time, as calls leave the GIL. A call from inside another, as by
// the handler of a signal, is an error.
class CallMutex {
 public:
  explicit CallMutex(const char* what) : what_(what) {}

 private:
  friend class CallLock;
  const char* what_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;
};

// Holds a CallMutex. Requires the GIL, which it leaves while it waits.
class CallLock {
 public:
  explicit CallLock(CallMutex& calls);
  ~CallLock() {
    calls_.owner_.store({}, std::memory_order_relaxed);
    calls_.mutex_.unlock();
  }
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

 private:
  CallMutex& calls_;
};

// Drops a reference from any thread; `object` is a PyObject*.
void release_object(void* object);

struct Cancel {
  Cancel() {
    lathe_cancel* made = nullptr;
    check(api->cancel_create(&made));
    handle = Handle<lathe_cancel>(made, api->cancel_free);
  }
  Handle<lathe_cancel> handle;
};

// poll of the C interface: nonzero after a Python signal handler raised (Ctrl-C).
int poll_signals(void* context);

void add_arrays(nb::module_& module);
void add_programs(nb::module_& module);
void add_sessions(nb::module_& module);
void add_tokenizers(nb::module_& module);
void add_models(nb::module_& module);
void add_generators(nb::module_& module);
void add_commands(nb::module_& module);
void add_modules(nb::module_& module);
void add_custom_ops(nb::module_& module);
void add_dlpack(nb::module_& module);
void add_device_tensors(nb::module_& module);

}  // namespace lathe_python
