// SPDX-License-Identifier: MIT
#include "import/load_model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/error_reason.h"
#include "base/file_map.h"
#include "base/in_file.h"
#include "import/compiled/compiled_file.h"
#include "import/onnx/reader.h"
#include "ir/literal_file.h"
#include "ir/parse.h"

namespace lathe {
namespace {

// Files named in a text must be in its folder or in the current one.
std::string find_beside(const std::string& file, const std::string& text_path) {
  const std::string folder = parent_folder(text_path);
  for (const std::string& candidate : {join_path(folder, file), file}) {
    if (!file_exists(candidate)) continue;
    const std::string real = real_path(candidate);
    if (is_within(real, real_path(folder)) || is_within(real, real_path("."))) return real;
    fail(ErrorKind::invalid_model,
         "'{}' takes literals from '{}', which is neither in its folder nor in the current one",
         escape(text_path), escape(file));
  }
  fail(ErrorKind::io, "'{}' takes literals from '{}', which does not exist", escape(text_path),
       escape(file));
}

// Reads literals outside of a program's text: in "TEXT.literals" or in a file that the text names.
class LiteralSource {
 public:
  explicit LiteralSource(std::string path) : path_(std::move(path)) {
    const std::string side = path_ + ".literals";
    if (file_exists(side)) side_.emplace(LiteralFile::open(side));
  }

  LiteralRef by_hash(uint64_t hash) const { return side_ ? side_->find(hash) : nullptr; }

  LiteralRef in_file(const std::string& file, int64_t offset, const Type& type) {
    auto& map = maps_[file];
    if (map == nullptr) map = FileMap::open(find_beside(file, path_));
    Dims dims;
    for (const Dim& dim : *type.dims) {
      check(dim.is_constant(), ErrorKind::invalid_model,
            "a literal in '{}' has size '{}', expected a constant", escape(file), dim.to_string());
      dims.push_back(*dim.constant());
    }
    const int64_t bytes = bytes_for(type.element, element_count(dims));
    const auto size = static_cast<int64_t>(map->bytes().size());
    check(offset >= 0 && bytes <= size && offset <= size - bytes, ErrorKind::invalid_model,
          "a literal {} at offset {} of '{}' needs {} bytes, the file has {}",
          escape(type.to_string()), offset, escape(file), bytes, size);
    auto literal = std::make_shared<Literal>();
    literal->file = file;
    literal->offset = offset;
    literal->tensor = mapped_tensor(map, offset, bytes, type.element, dims);
    return literal;
  }

 private:
  static Tensor mapped_tensor(const std::shared_ptr<const FileMap>& map, int64_t offset,
                              int64_t bytes, ElementType type, const Dims& dims) {
    const std::byte* data = map->bytes().data() + offset;
    constexpr uintptr_t kAlign = 8;  // of every element type
    if (reinterpret_cast<uintptr_t>(data) % kAlign == 0) {
      return Tensor(type, dims, Tensor::dense_strides(dims), const_cast<std::byte*>(data),
                    std::const_pointer_cast<FileMap>(map));
    }
    Tensor copy(type, dims);
    if (bytes > 0) std::memcpy(copy.data(), data, static_cast<size_t>(bytes));
    return copy;
  }

  std::string path_;
  std::optional<LiteralFile> side_;
  std::map<std::string, std::shared_ptr<const FileMap>> maps_;
};

void restore_literals(const Program& program) {
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (instruction->literal() != nullptr) restore_stored(instruction->literal()->tensor);
    }
  }
}

std::unique_ptr<Program> load_text(const std::string& path, std::string_view text) {
  LiteralSource literals(path);
  ParseOptions options;
  options.file = path;
  options.literal_by_hash = [&](uint64_t hash, const Type&) { return literals.by_hash(hash); };
  options.literal_in_file = [&](const std::string& file, int64_t offset, const Type& type) {
    return literals.in_file(file, offset, type);
  };
  std::unique_ptr<Program> program = parse_program(text, options);
  if (program->name.empty()) program->name = path;
  // Passes read literals; plans of a lowered program check those that they use.
  if (program->stage != Stage::lowered) restore_literals(*program);
  return program;
}

}  // namespace

std::unique_ptr<Program> load_model(const std::string& path, const ImportOptions& options,
                                    const MemoryFiles& data) {
  try {
    {
      const auto file = FileMap::open(path);
      if (looks_like_container(file->text())) {
        const auto compiled = CompiledFile::open(path, file->text(), file);
        check(compiled->has_program(kMainProgram), ErrorKind::unsupported,
              "'{}' is the compiled file of a language model, expected that of a graph: inspect "
              "the model's folder instead",
              escape(path));
        return compiled->program(kMainProgram);
      }
      if (looks_like_program(file->text())) return load_text(path, file->text());
    }
    return import_onnx(onnx::read_model(path, data), options);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::invalid_model) error.set_reason(reason::kBadGraph);
    note_file(error, path);
    throw;
  }
}

}  // namespace lathe
