// SPDX-License-Identifier: MIT
// The C tables of one host (a copy of ONNX Runtime), its status objects and its log.
#pragma once

#include <onnxruntime_c_api.h>

#include <compare>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lathe::ort_plugin {

// The version of the C interface that the library is written for.
inline constexpr uint32_t kApiVersion = 23;

struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;
  auto operator<=>(const Version&) const = default;
};
// "1.23.2" or "1.24.0-dev"; zeros for another text.
Version parse_version(std::string_view text);

// Two hosts in one process have different tables: objects keep the host that made them.
class Host {
 public:
  // Unsupported for a host without version 23 of the interface.
  explicit Host(const OrtApiBase& base);

  const OrtApi* operator->() const { return api_; }
  const OrtEpApi& ep() const { return *ep_; }
  Version version() const { return version_; }

  // Throws what a call of the host returned, as Internal.
  void check(OrtStatus* status) const;
  OrtStatus* to_status(const Error& error) const noexcept;

  // Runs `body` and returns its exception as a status.
  template <class F>
  OrtStatus* guarded(F&& body) const noexcept {
    try {
      body();
      return nullptr;
    } catch (const Error& error) {
      return to_status(error);
    } catch (const std::bad_alloc&) {
      return api_->CreateStatus(ORT_RUNTIME_EXCEPTION, "error: out of memory");
    } catch (const std::exception& problem) {
      return api_->CreateStatus(ORT_RUNTIME_EXCEPTION, problem.what());
    } catch (...) {
      return api_->CreateStatus(ORT_RUNTIME_EXCEPTION, "error: an unknown exception");
    }
  }

 private:
  const OrtApi* api_ = nullptr;
  const OrtEpApi* ep_ = nullptr;
  Version version_;
};

// The status code of each error category.
OrtErrorCode code_of(ErrorKind kind);

// A session's log.
class Log {
 public:
  Log(const Host& host, const OrtLogger* logger) : host_(host), logger_(logger) {}
  void warn(std::string_view text) const { write(ORT_LOGGING_LEVEL_WARNING, text); }
  void info(std::string_view text) const { write(ORT_LOGGING_LEVEL_INFO, text); }
  void verbose(std::string_view text) const { write(ORT_LOGGING_LEVEL_VERBOSE, text); }

 private:
  void write(OrtLoggingLevel level, std::string_view text) const;
  const Host& host_;
  const OrtLogger* logger_;
};

// While it lives, what the library logs on this thread goes to `log`.
class LogScope {
 public:
  explicit LogScope(const Log& log);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  const Log* outer_;
};

}  // namespace lathe::ort_plugin
