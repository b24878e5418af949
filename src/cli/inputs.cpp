// SPDX-License-Identifier: MIT
#include "cli/inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/content.h"
#include "cli/npy.h"
#include "cli/npz.h"
#include "cli/random.h"
#include "import/onnx/sniff.h"
#include "import/onnx/tensor_proto.h"
#include "ir/model_info.h"

namespace lathe::cli {
namespace {

constexpr const char* kFormats = "expected an .npy, .npz, PNG, JPEG or TensorProto file";
constexpr int64_t kMaxSize = int64_t{1} << 40;

std::string describe(const Box& box) {
  if (box.is_tensor()) return to_string(box.tensor().type(), box.tensor().dims());
  if (box.is_sequence()) return fmt::format("a sequence of {}", box.sequence().size());
  return box.empty() ? "nothing" : "a map";
}

onnx::ValueType::Kind stored_kind(const Type& type) {
  switch (type.kind) {
    case Type::Kind::sequence:
      return onnx::ValueType::Kind::sequence;
    case Type::Kind::optional:
      return onnx::ValueType::Kind::optional;
    case Type::Kind::map:
      return onnx::ValueType::Kind::map;
    case Type::Kind::tensor:
      break;
  }
  return onnx::ValueType::Kind::tensor;
}

class InputMaker {
 public:
  InputMaker(const Program& program, const InputArguments& arguments, uint64_t seed,
             const SizeHints& hints)
      : program_(program), arguments_(arguments), seed_(seed), hints_(hints) {
    boxes_.resize(parameters().size());
  }

  Inputs make() {
    for (const std::string& fill : arguments_.fills) read_fill(fill);
    for (const std::string& file : arguments_.files) read_file(file);
    symbols_ = choose_sizes(program_, symbols_, hints_);
    Inputs inputs;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (!boxes_[i]) boxes_[i] = make_value(parameters()[i]->type(), *parameters()[i]);
      inputs.values.push_back(*boxes_[i]);
    }
    inputs.files = std::move(files_);
    inputs.symbols = std::move(symbols_);
    return inputs;
  }

 private:
  const std::vector<std::unique_ptr<Value>>& parameters() const {
    return program_.main().parameters();
  }

  std::optional<size_t> find_parameter(std::string_view name) const {
    for (size_t i = 0; i < parameters().size(); ++i) {
      if (parameters()[i]->name() == name) return i;
    }
    return std::nullopt;
  }

  std::vector<std::string_view> parameter_names() const {
    std::vector<std::string_view> names;
    for (const auto& parameter : parameters()) names.push_back(parameter->name());
    return names;
  }

  std::string list_of_inputs() const {
    std::string list;
    for (const auto& parameter : parameters()) {
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", escape(parameter->name()),
                          escape(parameter->type().to_string()));
    }
    return list.empty() ? "none" : escape(list, 2000);
  }

  [[noreturn]] void fail_unknown(std::string_view name, std::string_view flag,
                                 std::string_view what,
                                 const std::vector<std::string_view>& names) const {
    Error error(
        ErrorKind::invalid_argument,
        is_compiled_in(name)
            ? fmt::format("{}: '{}' is not an input: its value is compiled in", flag, escape(name))
            : fmt::format("{}: the model has no {} '{}'{}", flag, what, escape(name),
                          did_you_mean(name, names)));
    error.note(fmt::format("inputs: {}", list_of_inputs()));
    throw error;
  }

  // True for a constant of a compiled file, which an ONNX file takes as an input.
  bool is_compiled_in(std::string_view name) const {
    if (program_.model == nullptr || program_.model->compiled == nullptr) return false;
    const auto& all = program_.main().instructions();
    return program_.metadata.contains(fmt::format("default of input {}", name)) ||
           std::ranges::any_of(all, [&](const auto& instruction) {
             return instruction->literal() != nullptr && instruction->result()->name() == name;
           });
  }

  void read_fill(const std::string& fill) {
    const size_t equals = fill.rfind('=');
    check(equals != std::string::npos && equals > 0, ErrorKind::invalid_argument,
          "--fill is '{}', expected NAME=VALUE", escape(fill));
    const std::string name = fill.substr(0, equals);
    const std::string value = fill.substr(equals + 1);
    const std::string origin = fmt::format("--fill {}", escape(name));
    if (find_parameter(name)) {
      fills_[name] = parse_number(value, -INFINITY, INFINITY, origin);
      return;
    }
    const SymbolRef symbol = program_.find_symbol(name);
    if (symbol != nullptr && symbol->kind == SymbolKind::bound) {
      symbols_[name] = parse_integer(value, 0, kMaxSize, origin);
      filled_dims_.insert(name);
      return;
    }
    std::vector<std::string_view> names = parameter_names();
    for (const auto& [known, reference] : program_.symbols()) {
      if (reference->kind == SymbolKind::bound) names.push_back(known);
    }
    fail_unknown(name, "--fill", "input or dim", names);
  }

  void read_file(const std::string& argument) {
    // "a=b.npy" names input a, unless a file has that name and no input is named a.
    const size_t equals = argument.find('=');
    std::string name;
    std::string path = argument;
    if (equals != std::string::npos &&
        (find_parameter(argument.substr(0, equals)) || !file_exists(argument))) {
      name = argument.substr(0, equals);
      path = argument.substr(equals + 1);
      if (!find_parameter(name)) fail_unknown(name, "--input", "input", parameter_names());
    }
    check(!path.empty(), ErrorKind::invalid_argument, "--input is '{}', expected [NAME=]FILE",
          escape(argument));
    files_.push_back(path);
    const auto file = FileMap::open(path);
    if (looks_like_npz(file->text())) return read_npz(file, name);
    const size_t index = name.empty() ? only_open_input(path) : *find_parameter(name);
    bind(index, read_value(file, parameters()[index]->type()), path);
  }

  // The input for a file without a name: the only one that has no value yet.
  size_t only_open_input(const std::string& path) const {
    std::optional<size_t> open;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      const bool is_set = boxes_[i].has_value() || fills_.contains(parameters()[i]->name());
      if (is_set) continue;
      check(!open.has_value(), ErrorKind::invalid_argument,
            "--input '{}' matches several inputs: write NAME={}; inputs: {}", escape(path),
            escape(path), list_of_inputs());
      open = i;
    }
    check(open.has_value(), ErrorKind::invalid_argument,
          "--input '{}': every input already has a value; inputs: {}", escape(path),
          list_of_inputs());
    return *open;
  }

  void read_npz(const std::shared_ptr<const FileMap>& file, const std::string& name) {
    const NpzReader reader(file);
    check(!reader.names().empty(), ErrorKind::invalid_argument, "'{}' has no arrays",
          escape(file->path()));
    if (!name.empty() && reader.names().size() == 1) {
      return bind(*find_parameter(name), read_member(reader, reader.names().front(), name),
                  file->path());
    }
    for (const std::string& member : reader.names()) {
      if (!name.empty() && member != name) continue;
      if (!find_parameter(member))
        fail_unknown(member, escape(file->path()), "input", parameter_names());
      bind(*find_parameter(member), read_member(reader, member, member), file->path());
    }
  }

  Box read_member(const NpzReader& reader, const std::string& member, const std::string& input) {
    return Box{reader.read(member, parameters()[*find_parameter(input)]->type().element)};
  }

  Box read_value(const std::shared_ptr<const FileMap>& file, const Type& type) const {
    const std::string_view bytes = file->text();
    if (looks_like_npy(bytes)) return Box{read_npy(bytes, file->path(), type.element, file)};
    if (looks_like_image(bytes)) {
      check(type.is_ranked(), ErrorKind::invalid_argument,
            "image '{}' cannot fill an input of type {}", escape(file->path()),
            escape(type.to_string()));
      return Box{
          read_image(bytes, file->path(), type.element, known_sizes(type), arguments_.image)};
    }
    const std::string_view format = format_of_name(file->path());
    if (!format.empty() || bytes.empty() || !onnx::sniff(bytes).empty()) {
      fail_format(*file, format.empty() ? "input" : format, describe_content(bytes));
    }
    try {
      return onnx::read_stored_value(file->path(), stored_kind(type)).value;
    } catch (const Error& problem) {
      if (problem.kind() != ErrorKind::invalid_model) throw;
      const bool names_file = problem.message().find(file->path()) != std::string::npos;
      if (!names_file) fail_format(*file, "TensorProto", problem.message());
      Error error(ErrorKind::invalid_argument, problem.message());
      error.note(kFormats);
      throw error;
    }
  }

  // The format that a file's name promises; "" for other names.
  static std::string_view format_of_name(std::string_view path) {
    if (path.ends_with(".npy")) return ".npy file";
    if (path.ends_with(".npz")) return ".npz file";
    const bool is_image =
        path.ends_with(".png") || path.ends_with(".jpg") || path.ends_with(".jpeg");
    return is_image ? "PNG or JPEG image" : "";
  }

  [[noreturn]] static void fail_format(const FileMap& file, std::string_view format,
                                       std::string_view why) {
    Error error(ErrorKind::invalid_argument,
                fmt::format("'{}' is not a valid {}: {}", escape(file.path()), format, why));
    error.note(kFormats);
    throw error;
  }

  // The sizes of the dims; -1: unknown.
  Dims known_sizes(const Type& type) const {
    Dims sizes;
    for (const Dim& dim : *type.dims) sizes.push_back(size_of(dim).value_or(-1));
    return sizes;
  }

  std::optional<int64_t> size_of(const Dim& dim) const {
    return dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
      const auto found = symbols_.find(symbol.name);
      return found == symbols_.end() ? std::nullopt : std::optional<int64_t>(found->second);
    });
  }

  // Sets the value and the sizes of its symbols. Fixed sizes are compared here, where the file is
  // known; the session compares the sizes of symbols.
  void bind(size_t index, Box box, const std::string& path) {
    const Value& parameter = *parameters()[index];
    const Type& type = parameter.type();
    bool fits = type.is_tensor() ? box.is_tensor() && box.tensor().type() == type.element
                                 : type.kind != Type::Kind::sequence || box.is_sequence();
    if (fits && type.is_ranked()) {
      const Dims& dims = box.tensor().dims();
      fits = dims.size() == type.dims->size();
      for (size_t i = 0; fits && i < dims.size(); ++i) {
        const Dim& dim = (*type.dims)[i];
        if (const SymbolRef symbol = dim.as_symbol()) {
          const auto [known, is_new] = symbols_.try_emplace(symbol->name, dims[i]);
          check(is_new || known->second == dims[i] || !filled_dims_.contains(symbol->name),
                ErrorKind::invalid_argument, "'{}' is {}: dim '{}' is {}, but --fill sets it to {}",
                escape(path), describe(box), escape(symbol->name), dims[i], known->second);
        } else if (dim.is_constant()) {
          fits = dim.constant() == dims[i];
        }
      }
    }
    check(fits, ErrorKind::invalid_argument, "'{}' is {}, but input '{}' is {}", escape(path),
          describe(box), escape(parameter.name()), escape(type.to_string()));
    check(!boxes_[index].has_value(), ErrorKind::invalid_argument,
          "--input '{}': input '{}' already has a value", escape(path), escape(parameter.name()));
    check(!fills_.contains(parameter.name()), ErrorKind::invalid_argument,
          "input '{}' has two values: from --fill and from '{}'", escape(parameter.name()),
          escape(path));
    boxes_[index] = std::move(box);
  }

  Box make_value(const Type& type, const Value& parameter) {
    const std::string name = escape(parameter.name());
    switch (type.kind) {
      case Type::Kind::sequence:
        return Box{std::make_shared<const std::vector<Box>>(2, make_value(*type.item, parameter))};
      case Type::Kind::optional:
        return make_value(*type.item, parameter);
      case Type::Kind::map:
        fail(ErrorKind::invalid_argument, "input '{}' is a map and requires --input {}=FILE", name,
             name);
      case Type::Kind::tensor:
        break;
    }
    check(type.is_ranked(), ErrorKind::invalid_argument,
          "input '{}' has an unknown rank and requires --input {}=FILE", name, name);
    Dims dims;
    for (const Dim& dim : *type.dims) {
      const std::optional<int64_t> size = size_of(dim);
      check(size.has_value() && *size >= 0, ErrorKind::invalid_argument,
            "input '{}' is {}: size {} cannot be computed, set dims by --fill", name,
            escape(type.to_string()), escape(dim.to_string()));
      dims.push_back(*size);
    }
    const auto fill = fills_.find(parameter.name());
    if (fill != fills_.end()) {
      return Box{filled_tensor(type.element, dims, fill->second, parameter.name())};
    }
    return Box{random_tensor(type.element, dims, seed_, parameter.name())};
  }

  const Program& program_;
  const InputArguments& arguments_;
  uint64_t seed_;
  const SizeHints& hints_;
  std::vector<std::optional<Box>> boxes_;
  std::map<std::string, double> fills_;
  std::map<std::string, int64_t> symbols_;
  std::set<std::string> filled_dims_;
  std::vector<std::string> files_;
};

}  // namespace

void InputArguments::declare(CommandLine& line) {
  line.texts(
      "--input,-i", files, "[NAME=]FILE",
      "Input value: .npy, .npz, TensorProto, PNG or JPEG. Default: random values (see --seed).");
  line.texts("--fill", fills, "NAME=VALUE",
             "Value of every element of an input, or size of a dim.");
  line.numbers("--mean", image.mean,
               "Images: value per channel, subtracted after --scale (default 0).");
  line.numbers("--std", image.std,
               "Images: divisor per channel, applied after --mean (default 1).");
  line.numbers("--scale", image.scale,
               "Images: factor of the pixels 0 to 255 (default 1/255 for floats, 1 for integers).");
  line.choice("--layout", image.layout, {"auto", "nchw", "nhwc"},
              "Images: axis order of the input (default auto).");
}

std::set<std::string, std::less<>> InputArguments::names() const {
  std::set<std::string, std::less<>> out;
  for (const std::string& file : files) {
    out.insert(file.substr(0, file.find('=')));
    // An archive names its inputs.
    if (!file_exists(file)) continue;
    const auto archive = FileMap::open(file);
    if (!looks_like_npz(archive->text())) continue;
    const NpzReader reader(archive);
    out.insert(reader.names().begin(), reader.names().end());
  }
  for (const std::string& fill : fills) out.insert(fill.substr(0, fill.rfind('=')));
  return out;
}

std::string describe_input(const Value& parameter, const Box& box) {
  return fmt::format("{} {}", escape(parameter.name()), describe(box));
}

Inputs make_inputs(const Program& program, const InputArguments& arguments, uint64_t seed,
                   const SizeHints& hints) {
  return InputMaker(program, arguments, seed, hints).make();
}

}  // namespace lathe::cli
