// SPDX-License-Identifier: MIT
#include "capi/handles.h"
#include "targets/save_program.h"

namespace lathe::capi {
namespace {

lathe_error* save(const lathe_plan* plan, const char* path) {
  return guarded([&] {
    const std::string file = &demand(path, "path");
    save_program(*demand(plan, "plan").plan, plan->options, file);
  });
}

lathe_error* save_memory(const lathe_plan* plan, lathe_text_sink sink, void* context) {
  return guarded([&] {
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    save_program(*demand(plan, "plan").plan, plan->options,
                 [&](std::string_view bytes) { sink(context, bytes.data(), bytes.size()); });
  });
}

}  // namespace

void add_compiled_files(lathe_api& api) {
  api.program_save = save;
  api.program_save_memory = save_memory;
}

}  // namespace lathe::capi
