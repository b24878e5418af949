// SPDX-License-Identifier: MIT
// Programs built and read instruction by instruction.
#include "capi/modules.h"

#include "capi/attributes_json.h"
#include "capi/devices.h"
#include "ir/builder.h"
#include "ir/lexer.h"
#include "ir/ops.h"

namespace lathe::capi {
namespace {

size_t number_of(lathe_module& handle, Value* value) {
  const auto [at, added] = handle.numbers.emplace(value, handle.values.size());
  if (added) handle.values.push_back(value);
  return at->second;
}

Value* value_at(const lathe_module& handle, size_t number, std::string_view what) {
  check(number < handle.values.size(), ErrorKind::invalid_argument,
        "{} is value {} of module '{}', which has {} values", what, number,
        escape(handle.module->name()), handle.values.size());
  return handle.values[number];
}

lathe_module& open(lathe_module* module) {
  lathe_module& handle = demand(module, "module");
  check(!handle.has_returned, ErrorKind::invalid_argument,
        "module '{}' has returned: it takes no more instructions", escape(handle.module->name()));
  handle.records.reset();
  return handle;
}

lathe_error* create_program(const char* name, lathe_program** out) {
  return guarded([&] {
    demand(out, "program");
    auto handle = std::make_unique<lathe_program>();
    handle->program = std::make_unique<Program>();
    handle->program->name = name == nullptr ? "program" : name;
    *out = handle.release();
  });
}

lathe_error* add_symbol(lathe_program* program, const char* name, int64_t least, int64_t most,
                        const int64_t* preferred, size_t count) {
  return guarded([&] {
    Program& owner = *demand(program, "program").program;
    const std::string_view text = &demand(name, "name");
    check(is_word(text), ErrorKind::invalid_argument,
          "'{}' is not a valid name of a symbol: letters, digits and '_'", escape(text));
    constexpr size_t kMostPreferred = 1024;
    check(count <= kMostPreferred, ErrorKind::invalid_argument,
          "symbol '{}' has {} preferred sizes, expected at most {}", escape(text), count,
          kMostPreferred);
    if (count > 0) demand(preferred, "preferred");
    const Range range{least, most < 0 ? kUnbounded : most};
    check(least >= 0 && least <= range.max, ErrorKind::invalid_argument,
          "symbol '{}' has the range {}..{}", escape(text), least, most);
    std::vector<int64_t> sizes(preferred, preferred + count);
    std::ranges::sort(sizes);
    const SymbolRef known = owner.find_symbol(text);
    if (known == nullptr) {
      owner.add_symbol(text, SymbolKind::bound, range, std::move(sizes));
    } else {
      check(known->kind == SymbolKind::bound, ErrorKind::invalid_argument,
            "symbol '{}' is not bound by an input", escape(text));
      Symbol changed = *known;
      changed.range = range;
      changed.preferred = std::move(sizes);
      owner.redefine_symbol(changed);
    }
  });
}

lathe_error* create(lathe_program* program, const char* name, lathe_module** out) {
  return guarded([&] {
    lathe_program& owner = demand(program, "program");
    const std::string_view text = &demand(name, "name");
    demand(out, "module");
    const std::scoped_lock lock(owner.modules_mutex);
    *out = &module_handle(owner,
                          text == "main" ? owner.program->main() : owner.program->add_module(text));
  });
}

lathe_error* find(lathe_program* program, size_t index, lathe_module** out) {
  return guarded([&] {
    lathe_program& owner = demand(program, "program");
    const auto& modules = owner.program->modules();
    check(index < modules.size(), ErrorKind::invalid_argument,
          "index {} is out of range for {} modules", index, modules.size());
    const std::scoped_lock lock(owner.modules_mutex);
    demand(out, "module") = &module_handle(owner, *modules[index]);
  });
}

lathe_error* add_parameter(lathe_module* module, const char* name, const char* type, size_t* out) {
  return guarded([&] {
    lathe_module& handle = open(module);
    const std::string_view text = &demand(name, "name");
    demand(out, "value");
    check(!text.empty(), ErrorKind::invalid_argument, "parameter {} has no name",
          handle.module->parameters().size());
    for (const auto& parameter : handle.module->parameters()) {
      check(parameter->name() != text, ErrorKind::invalid_argument,
            "module '{}' has two parameters '{}'", escape(handle.module->name()), escape(text));
    }
    Type parsed = type_from_text(&demand(type, "type"), handle.module->program(), true);
    *out = number_of(handle, handle.module->add_parameter(std::move(parsed), text));
  });
}

lathe_error* add_literal(lathe_module* module, const lathe_tensor* tensor, size_t* out) {
  return guarded([&] {
    lathe_module& handle = open(module);
    const Box& box = host_box(tensor, "tensor");
    demand(out, "value");
    check(box.is_tensor(), ErrorKind::invalid_argument, "argument '{}' is not a tensor", "tensor");
    // The caller may change its memory.
    *out = number_of(handle, Builder(*handle.module).literal(box.tensor().clone()));
  });
}

std::vector<Module*> bodies_of(const lathe_module& owner, lathe_module* const* bodies,
                               size_t count) {
  std::vector<Module*> out;
  for (size_t i = 0; i < count; ++i) {
    const lathe_module& body = demand(bodies[i], fmt::format("bodies[{}]", i));
    const auto name = escape(body.module->name());
    check(body.program == owner.program, ErrorKind::invalid_argument,
          "body '{}' is of another program", name);
    check(body.module != &body.program->program->main() && !body.is_body,
          ErrorKind::invalid_argument, "'{}' is main or the body of another instruction", name);
    check(body.has_returned, ErrorKind::invalid_argument, "body '{}' has not returned", name);
    check(std::ranges::find(out, body.module) == out.end(), ErrorKind::invalid_argument,
          "body '{}' is given twice", name);
    out.push_back(body.module);
  }
  return out;
}

lathe_error* add_instruction(lathe_module* module, const char* op, lathe_text attributes,
                             const size_t* operands, size_t operand_count,
                             lathe_module* const* bodies, size_t body_count, size_t* results,
                             size_t result_count) {
  return guarded([&] {
    lathe_module& handle = open(module);
    const Op& record = get_op(&demand(op, "op"));
    check(record.structural == Structural::none || !record.bodies.empty(),
          ErrorKind::invalid_argument, "op '{}' is not built by its name", record.name);
    if (operand_count > 0) demand(operands, "operands");
    if (body_count > 0) demand(bodies, "bodies");
    constexpr size_t kMost = 1 << 20;
    check(operand_count <= kMost && result_count >= 1 && result_count <= kMost,
          ErrorKind::invalid_argument, "{}: got {} operands and {} results", record.name,
          operand_count, result_count);
    demand(results, "results");
    check(record.results < 0 || static_cast<size_t>(record.results) == result_count,
          ErrorKind::invalid_argument, "{}: got room for {} results, expected {}", record.name,
          result_count, record.results);
    std::vector<Value*> values;
    for (size_t i = 0; i < operand_count; ++i) {
      values.push_back(
          operands[i] == LATHE_NO_VALUE
              ? nullptr
              : value_at(handle, operands[i], fmt::format("{}: operand {}", record.name, i)));
    }
    Attributes parsed =
        attributes_from_json(view(attributes, "attributes"), record, handle.module->program());
    const std::vector<Module*> inner = bodies_of(handle, bodies, body_count);
    Instruction* made = Builder(*handle.module)
                            .add(record, std::move(values), std::move(parsed), inner,
                                 static_cast<int>(result_count));
    for (size_t i = 0; i < body_count; ++i) bodies[i]->is_body = true;
    for (size_t i = 0; i < result_count; ++i) {
      results[i] = number_of(handle, made->result(static_cast<int>(i)));
    }
  });
}

lathe_error* set_return(lathe_module* module, const size_t* values, const char* const* names,
                        size_t count) {
  return guarded([&] {
    lathe_module& handle = open(module);
    if (count > 0) demand(values, "values");
    std::vector<Value*> results;
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) {
      results.push_back(value_at(handle, values[i], fmt::format("result {}", i)));
      texts.push_back(names == nullptr || names[i] == nullptr ? fmt::format("output_{}", i)
                                                              : names[i]);
      check(std::ranges::count(texts, texts.back()) == 1, ErrorKind::invalid_argument,
            "module '{}' has two results '{}'", escape(handle.module->name()),
            escape(texts.back()));
    }
    handle.module->set_results(std::move(results), std::move(texts));
    handle.has_returned = true;
    if (handle.module == &handle.program->program->main()) refresh(*handle.program);
  });
}

InstructionRecord record_of(lathe_module& handle, std::string_view op, const Value* value) {
  InstructionRecord out;
  out.op = op;
  if (value != nullptr) {
    out.name = value->name();
    out.results.push_back(handle.numbers.at(value));
    out.texts.push_back(value->type().to_string());
  }
  return out;
}

InstructionRecord record_of(lathe_module& handle, const Instruction& instruction) {
  InstructionRecord out;
  out.op = instruction.op().name;
  out.attributes = to_json(instruction.attributes())
                       .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const Value* operand : instruction.operands()) {
    out.operands.push_back(operand == nullptr ? LATHE_NO_VALUE : handle.numbers.at(operand));
  }
  for (const Value& result : instruction.results()) {
    out.results.push_back(handle.numbers.at(&result));
    out.texts.push_back(result.type().to_string());
  }
  if (!instruction.results().empty()) out.name = instruction.results().front().name();
  for (Module* body : instruction.bodies()) {
    out.bodies.push_back(&module_handle(*handle.program, *body));
  }
  if (instruction.literal() != nullptr) out.literal = &instruction.literal()->tensor;
  return out;
}

// Parameters, instructions and, if the module has results, "return".
const std::vector<InstructionRecord>& records_of(lathe_module& handle) {
  if (handle.records) return *handle.records;
  for (const auto& parameter : handle.module->parameters()) number_of(handle, parameter.get());
  for (const auto& instruction : handle.module->instructions()) {
    for (size_t i = 0; i < instruction->results().size(); ++i) {
      number_of(handle, instruction->result(static_cast<int>(i)));
    }
  }
  std::vector<InstructionRecord> all;
  for (const auto& parameter : handle.module->parameters()) {
    all.push_back(record_of(handle, "parameter", parameter.get()));
  }
  for (const auto& instruction : handle.module->instructions()) {
    all.push_back(record_of(handle, *instruction));
  }
  if (handle.has_returned) {
    InstructionRecord last = record_of(handle, "return", nullptr);
    for (const Value* result : handle.module->results()) {
      last.operands.push_back(handle.numbers.at(result));
    }
    all.push_back(std::move(last));
  }
  for (InstructionRecord& record : all) {
    for (const std::string& text : record.texts) record.types.push_back(text.c_str());
  }
  handle.records = std::move(all);
  return *handle.records;
}

size_t size(const lathe_module* module) {
  return module->module->parameters().size() + module->module->instructions().size() +
         (module->has_returned ? 1 : 0);
}

lathe_error* at(lathe_module* module, size_t index, lathe_instruction_info* info) {
  return guarded([&] {
    lathe_module& handle = demand(module, "module");
    lathe_instruction_info out = known(&demand(info, "info"));
    const std::scoped_lock lock(handle.program->modules_mutex);
    const std::vector<InstructionRecord>& records = records_of(handle);
    check(index < records.size(), ErrorKind::invalid_argument,
          "index {} is out of range for {} instructions", index, records.size());
    const InstructionRecord& record = records[index];
    out.size = info->size;
    out.op = record.op.c_str();
    out.name = record.name.c_str();
    out.attributes = record.attributes.c_str();
    out.operands = record.operands.data();
    out.operand_count = record.operands.size();
    out.results = record.results.data();
    out.types = record.types.data();
    out.result_count = record.results.size();
    out.bodies = record.bodies.data();
    out.body_count = record.bodies.size();
    std::memcpy(info, &out, std::min(info->size, sizeof out));
  });
}

lathe_error* literal_at(lathe_module* module, size_t index, lathe_tensor** out) {
  return guarded([&] {
    lathe_module& handle = demand(module, "module");
    demand(out, "tensor");
    const std::scoped_lock lock(handle.program->modules_mutex);
    const std::vector<InstructionRecord>& records = records_of(handle);
    check(index < records.size() && records[index].literal != nullptr, ErrorKind::invalid_argument,
          "entry {} of {} is not a literal", index, records.size());
    *out = new lathe_tensor{Box{*records[index].literal}};
  });
}

const char* name(const lathe_module* module) { return module->module->name().c_str(); }

}  // namespace

lathe_module& module_handle(lathe_program& program, Module& module) {
  for (const auto& known : program.modules) {
    if (known->module == &module) return *known;
  }
  auto made = std::make_unique<lathe_module>();
  made->program = &program;
  made->module = &module;
  made->has_returned = !module.results().empty();
  return *program.modules.emplace_back(std::move(made));
}

void point_to(lathe_module& handle, const Program& changed) {
  Module* found = changed.find_module(handle.module->name());
  handle.module = found != nullptr ? found : &changed.main();
  handle.values.clear();
  handle.numbers.clear();
  handle.records.reset();
}

void add_modules(lathe_api& api) {
  api.program_create = create_program;
  api.program_symbol = add_symbol;
  api.program_module_count = [](const lathe_program* program) {
    return program->program->modules().size();
  };
  api.program_module = find;
  api.module_create = create;
  api.module_name = name;
  api.module_parameter = add_parameter;
  api.module_literal = add_literal;
  api.module_instruction = add_instruction;
  api.module_return = set_return;
  api.module_size = size;
  api.module_at = at;
  api.module_literal_at = literal_at;
}

}  // namespace lathe::capi
