// SPDX-License-Identifier: MIT
#include "ort_plugin/trace_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lathe::ort_plugin {

TraceFile::TraceFile(const std::string& path) : file_(path, std::ios::trunc) {
  check(file_.good(), ErrorKind::io, "option 'trace': cannot create the file '{}'", escape(path));
  file_ << "[";
}

TraceFile::~TraceFile() {
  file_ << R"({"name": "end", "ph": "i", "ts": 0, "pid": 1, "tid": 0})" << "]\n";
}

void TraceFile::add(std::string_view group, Time begin, std::string_view events,
                    const CopiedBytes& copied) {
  nlohmann::json list = nlohmann::json::parse(events);
  const double offset = std::chrono::duration<double, std::micro>(begin - start_).count();
  std::string text;
  for (nlohmann::json& event : list) {
    event["ts"] = event["ts"].get<double>() + offset;
    text += event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ",\n";
  }
  const nlohmann::json copies = {{"name", "copied bytes"},
                                 {"ph", "C"},
                                 {"ts", offset},
                                 {"pid", 1},
                                 {"args", {{"inputs", copied.inputs}, {"outputs", copied.outputs}}},
                                 {"cat", group}};
  text += copies.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ",\n";
  const std::scoped_lock lock(mutex_);
  file_ << text << std::flush;
}

}  // namespace lathe::ort_plugin
