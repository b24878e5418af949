// SPDX-License-Identifier: MIT
#include "capi/handles.h"
#include "ir/model_info.h"

namespace lathe::capi {
namespace {

lathe_value_kind kind_of(const Type& type) {
  switch (type.kind) {
    case Type::Kind::sequence:
      return LATHE_VALUE_SEQUENCE;
    case Type::Kind::optional:
      return LATHE_VALUE_OPTIONAL;
    case Type::Kind::map:
      return LATHE_VALUE_MAP;
    case Type::Kind::tensor:
      break;
  }
  return LATHE_VALUE_TENSOR;
}

void add_denotations(ValueRecord& record, const ModelInfo& model) {
  const auto found = model.denotations.find(record.name);
  if (found == model.denotations.end()) return;
  record.denotation = found->second.type;
  for (size_t i = 0; i < record.dim_denotation_texts.size(); ++i) {
    if (i < found->second.dims.size()) record.dim_denotation_texts[i] = found->second.dims[i];
  }
}

}  // namespace

std::unique_ptr<ValueRecord> record(const std::string& name, const Type& type,
                                    const ModelInfo* model) {
  auto out = std::make_unique<ValueRecord>();
  out->name = name;
  out->type_text = type.to_string();
  out->kind = kind_of(type);
  if (type.is_tensor()) out->element = to_c(type.element);
  if (!type.is_ranked()) return out;
  out->rank = type.rank();
  for (const Dim& dim : *type.dims) {
    out->dims.push_back(dim.constant().value_or(-1));
    out->dim_texts.push_back(dim.to_string());
  }
  for (const std::string& text : out->dim_texts) out->dim_names.push_back(text.c_str());
  out->dim_denotation_texts.resize(out->dims.size());
  if (model != nullptr) add_denotations(*out, *model);
  for (const std::string& text : out->dim_denotation_texts) {
    out->dim_denotations.push_back(text.c_str());
  }
  return out;
}

Signature inputs_of(const Program& program) {
  Signature out;
  for (const auto& parameter : program.main().parameters()) {
    out.push_back(record(parameter->name(), parameter->type(), program.model.get()));
    if (program.model == nullptr) continue;
    for (const ModelInfo::Default& fallback : program.model->defaults) {
      if (fallback.name == parameter->name()) out.back()->has_default = true;
    }
  }
  return out;
}

Signature defaults_of(const Program& program) {
  Signature out;
  if (program.model == nullptr) return out;
  for (const ModelInfo::Default& fallback : program.model->defaults) {
    if (fallback.tensor.owner() != nullptr) continue;  // an input
    std::vector<Dim> dims(fallback.dims.begin(), fallback.dims.end());
    out.push_back(
        record(fallback.name, Type::tensor(fallback.type, std::move(dims)), program.model.get()));
    out.back()->has_default = true;
  }
  return out;
}

Signature outputs_of(const Program& program) {
  Signature out;
  const Module& main = program.main();
  for (size_t i = 0; i < main.results().size(); ++i) {
    out.push_back(record(main.result_names()[i], main.results()[i]->type(), program.model.get()));
  }
  return out;
}

void fill_info(const Signature& values, size_t index, lathe_value_info* info) {
  check(index < values.size(), ErrorKind::invalid_argument,
        "index {} is out of range for {} values", index, values.size());
  fill_info(*values[index], info);
}

void fill_info(const ValueRecord& value, lathe_value_info* info) {
  const size_t size = demand(info, "info").size;
  check(size >= sizeof(size_t), ErrorKind::invalid_argument,
        "info->size is {}: set it to sizeof(lathe_value_info)", size);
  lathe_value_info out{};
  out.size = size;
  out.name = value.name.c_str();
  out.kind = value.kind;
  out.element_type = value.element;
  out.rank = value.rank;
  out.dims = value.dims.data();
  out.dim_names = value.dim_names.data();
  out.type = value.type_text.c_str();
  out.denotation = value.denotation.c_str();
  out.dim_denotations = value.dim_denotations.data();
  out.has_default = value.has_default ? 1 : 0;
  std::memcpy(info, &out, std::min(size, sizeof out));
}

lathe_element_type to_c(ElementType type) {
  return static_cast<lathe_element_type>(info(type).onnx);
}

ElementType from_c(lathe_element_type type) {
  const std::optional<ElementType> found = element_type_from_onnx(static_cast<int64_t>(type));
  check(found.has_value(), ErrorKind::invalid_argument, "element type is {}, expected 1 to 26",
        static_cast<int>(type));
  return *found;
}

}  // namespace lathe::capi
