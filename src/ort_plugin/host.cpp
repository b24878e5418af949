// SPDX-License-Identifier: MIT
#include "ort_plugin/host.h"

#include <array>
#include <charconv>
#include <mutex>

#include "base/log.h"

namespace lathe::ort_plugin {

Version parse_version(std::string_view text) {
  std::array<int, 3> parts{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int& part : parts) {
    const auto [next, problem] = std::from_chars(at, end, part);
    if (problem != std::errc()) break;
    at = next;
    if (at == end || *at != '.') break;
    ++at;
  }
  return {parts[0], parts[1], parts[2]};
}

Host::Host(const OrtApiBase& base)
    : api_(base.GetApi(kApiVersion)), version_(parse_version(base.GetVersionString())) {
  lathe::check(api_ != nullptr, ErrorKind::unsupported,
               "this is ONNX Runtime {}, but Lathe's execution provider requires 1.23.0 or newer",
               base.GetVersionString());
  ep_ = api_->GetEpApi();
}

void Host::check(OrtStatus* status) const {
  if (status == nullptr) [[likely]]
    return;
  Error error(ErrorKind::internal,
              fmt::format("ONNX Runtime reports: {}", api_->GetErrorMessage(status)));
  api_->ReleaseStatus(status);
  throw error;
}

OrtErrorCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return ORT_INVALID_ARGUMENT;
    case ErrorKind::invalid_model:
      return ORT_INVALID_GRAPH;
    case ErrorKind::unsupported:
      return ORT_NOT_IMPLEMENTED;
    case ErrorKind::io:
      return ORT_NO_SUCHFILE;
    case ErrorKind::device:
      return ORT_EP_FAIL;
    case ErrorKind::out_of_memory:
    case ErrorKind::internal:
      return ORT_RUNTIME_EXCEPTION;
    case ErrorKind::interrupted:
      return ORT_FAIL;
  }
  return ORT_FAIL;
}

OrtStatus* Host::to_status(const Error& error) const noexcept {
  return api_->CreateStatus(code_of(error.kind()), error.what());
}

void Log::write(OrtLoggingLevel level, std::string_view text) const {
  if (logger_ == nullptr) return;
  const std::string line(text);
  OrtStatus* status =
      host_->Logger_LogMessage(logger_, level, line.c_str(), "lathe", 0, "execution provider");
  if (status != nullptr) host_->ReleaseStatus(status);
}

namespace {

thread_local const Log* current = nullptr;

void log_to_current(int level, std::string_view text) {
  if (current == nullptr) return;
  level <= 0 ? current->warn(text) : current->info(text);
}

}  // namespace

LogScope::LogScope(const Log& log) : outer_(current) {
  static std::once_flag installed;
  std::call_once(installed, [] { set_log_sink(log_to_current); });
  current = &log;
}

LogScope::~LogScope() { current = outer_; }

}  // namespace lathe::ort_plugin
