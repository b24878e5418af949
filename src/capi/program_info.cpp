// SPDX-License-Identifier: MIT
// What a model's file states beside its graph.
#include "capi/handles.h"
#include "ir/model_info.h"

namespace lathe::capi {
namespace {

lathe_error* get_info(const lathe_program* program, lathe_program_info* info) {
  return guarded([&] {
    static const ModelInfo nothing;
    const Program& source = *demand(program, "program").program;
    const ModelInfo& model = source.model != nullptr ? *source.model : nothing;
    lathe_program_info out = known(&demand(info, "info"));
    out.size = info->size;
    out.producer = model.producer.c_str();
    out.producer_version = model.producer_version.c_str();
    out.domain = model.domain.c_str();
    out.description = model.description.c_str();
    out.graph_name = model.graph_name.c_str();
    out.graph_description = model.graph_description.c_str();
    out.model_version = model.version;
    std::memcpy(info, &out, std::min(info->size, sizeof out));
  });
}

size_t metadata_count(const lathe_program* program) {
  const auto& model = program->program->model;
  return model == nullptr ? 0 : model->properties.size();
}

lathe_error* metadata(const lathe_program* program, size_t index, const char** key,
                      const char** value) {
  return guarded([&] {
    const size_t count = metadata_count(&demand(program, "program"));
    check(index < count, ErrorKind::invalid_argument, "index {} is out of range for {} pairs",
          index, count);
    demand(key, "key");
    const auto& pair = program->program->model->properties[index];
    demand(value, "value") = pair.second.c_str();
    *key = pair.first.c_str();
  });
}

lathe_error* get_default(const lathe_program* program, size_t index, lathe_value_info* info) {
  return guarded([&] { fill_info(demand(program, "program").defaults, index, info); });
}

}  // namespace

void add_program_info(lathe_api& api) {
  api.program_info = get_info;
  api.program_metadata_count = metadata_count;
  api.program_metadata = metadata;
  api.program_default_count = [](const lathe_program* program) { return program->defaults.size(); };
  api.program_default = get_default;
}

}  // namespace lathe::capi
