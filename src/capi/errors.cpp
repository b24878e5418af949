// SPDX-License-Identifier: MIT
#include "base/log.h"
#include "capi/handles.h"

namespace lathe::capi {
namespace {

// Returned if allocating an error fails.
lathe_error& last_error() {
  static lathe_error error{Error(ErrorKind::out_of_memory, "out of memory")};
  return error;
}

lathe_error_kind kind(const lathe_error* error) {
  switch (error->error.kind()) {
    case ErrorKind::invalid_argument:
      return LATHE_INVALID_ARGUMENT;
    case ErrorKind::invalid_model:
      return LATHE_INVALID_MODEL;
    case ErrorKind::unsupported:
      return LATHE_UNSUPPORTED;
    case ErrorKind::out_of_memory:
      return LATHE_OUT_OF_MEMORY;
    case ErrorKind::device:
      return LATHE_DEVICE;
    case ErrorKind::io:
      return LATHE_IO;
    case ErrorKind::interrupted:
      return LATHE_INTERRUPTED;
    case ErrorKind::internal:
      break;
  }
  return LATHE_INTERNAL;
}

const char* message(const lathe_error* error) { return error->error.what(); }

size_t note_count(const lathe_error* error) { return error->error.notes().size(); }

const char* note(const lathe_error* error, size_t index) {
  const auto& notes = error->error.notes();
  return index < notes.size() ? notes[index].c_str() : nullptr;
}

const char* get_reason(const lathe_error* error) {
  if (error->error.reason() != nullptr) return error->error.reason();
  switch (error->error.kind()) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::invalid_model:
      return "invalid_model";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::device:
      return "device";
    case ErrorKind::io:
      return "io";
    case ErrorKind::interrupted:
      return "interrupted";
    case ErrorKind::internal:
      break;
  }
  return "internal";
}

void free_error(lathe_error* error) {
  if (error != &last_error()) delete error;
}

void set_sink(lathe_log_sink sink, void* context) {
  if (sink == nullptr) {
    set_log_sink(nullptr);
    return;
  }
  set_log_sink([sink, context](int level, std::string_view text) {
    sink(context, level, std::string(text).c_str());
  });
}

void set_level(int level) { set_log_level(level); }

lathe_error* create_cancel(lathe_cancel** cancel) {
  return guarded([&] { demand(cancel, "cancel") = new lathe_cancel; });
}
void set_cancel(lathe_cancel* cancel) { cancel->token.cancel(); }
void reset_cancel(lathe_cancel* cancel) { cancel->token.reset(); }
void free_cancel(lathe_cancel* cancel) { delete cancel; }

}  // namespace

std::string_view view(lathe_text text, std::string_view what) {
  check(text.data != nullptr || text.bytes == 0, ErrorKind::invalid_argument,
        "argument '{}' is NULL for {} bytes", what, text.bytes);
  return text.bytes == 0 ? std::string_view() : std::string_view(text.data, text.bytes);
}

lathe_error* make_error(Error error) noexcept {
  try {
    return new lathe_error{std::move(error)};
  } catch (...) {
    return &last_error();
  }
}

void add_errors(lathe_api& api) {
  api.version_text = [] { return LATHE_VERSION; };
  api.error_kind = kind;
  api.error_message = message;
  api.error_note_count = note_count;
  api.error_note = note;
  api.error_free = free_error;
  api.error_reason = get_reason;
  api.log_set_sink = set_sink;
  api.log_set_level = set_level;
  api.cancel_create = create_cancel;
  api.cancel_set = set_cancel;
  api.cancel_reset = reset_cancel;
  api.cancel_free = free_cancel;
}

}  // namespace lathe::capi
