// SPDX-License-Identifier: MIT
#include "cli/outputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file_map.h"
#include "cli/content.h"
#include "cli/npy.h"
#include "cli/npz.h"
#include "import/onnx/tensor_proto.h"
#include "tensor/convert.h"

namespace lathe::cli {
namespace {

constexpr int64_t kRows = 8;
constexpr size_t kMaxLabels = size_t{1} << 20;

std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  const auto file = FileMap::open(path);
  std::string_view text = file->text();
  check(text.find('\0') == std::string_view::npos, ErrorKind::invalid_argument,
        "--labels '{}' is not a text file: {}", escape(path), describe_content(text));
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    labels.push_back(escape(line));
    text.remove_prefix(std::min(end + 1, text.size()));
    check(labels.size() <= kMaxLabels, ErrorKind::invalid_argument,
          "--labels '{}': expected at most {} lines", escape(path), kMaxLabels);
  }
  return labels;
}

bool has_classes(const Box& box) {
  return box.is_tensor() && box.tensor().rank() > 0 &&
         (is_floating(box.tensor().type()) || is_integer(box.tensor().type()));
}

// The indices of the `top` largest values of a row; equal values in order, NaN last.
std::vector<int64_t> largest(std::span<const double> row, int64_t top) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto key = [&](int64_t i) {
    const double value = row[static_cast<size_t>(i)];
    return std::isnan(value) ? -INFINITY : value;
  };
  const auto count = std::min(static_cast<size_t>(top), row.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  order.resize(count);
  return order;
}

std::string top_text(const Tensor& tensor, int64_t top, std::span<const std::string> labels) {
  const Tensor dense = tensor.dense();
  const int64_t classes = dense.dims().back();
  const int64_t rows = classes == 0 ? 0 : dense.count() / classes;
  std::string out;
  std::vector<double> row(static_cast<size_t>(classes));
  for (int64_t r = 0; r < std::min(rows, kRows); ++r) {
    for (int64_t i = 0; i < classes; ++i) {
      row[static_cast<size_t>(i)] = load_double(dense.type(), dense.data(), r * classes + i);
    }
    if (rows > 1) out += fmt::format("  row {}\n", r);
    int rank = 0;
    for (const int64_t i : largest(row, top)) {
      const auto at = static_cast<size_t>(i);
      const std::string name = at < labels.size() ? labels[at] : fmt::format("{}", i);
      out += fmt::format("  {:>3}. {:<24} {:.6g}\n", ++rank, name, row[at]);
    }
  }
  if (rows > kRows) out += fmt::format("  ({} more rows)\n", rows - kRows);
  return out;
}

std::string box_text(const Box& box, const std::string& indent, int depth = 0) {
  if (box.is_tensor()) return values_text(box.tensor(), indent);
  if (box.empty()) return indent + "none\n";
  if (!box.is_sequence()) return indent + "a map\n";
  std::string out;
  size_t shown = 0;
  for (const Box& item : box.sequence()) {
    if (++shown > kRows || depth > 2) break;
    out += fmt::format("{}{}:\n", indent, shown - 1);
    out += box_text(item, indent + "  ", depth + 1);
  }
  if (box.sequence().size() >= shown && shown > kRows) {
    out += fmt::format("{}({} items in total)\n", indent, box.sequence().size());
  }
  return out;
}

std::string type_text(const Box& box) {
  if (box.is_tensor()) return to_string(box.tensor().type(), box.tensor().dims());
  if (box.is_sequence()) return fmt::format("sequence of {}", box.sequence().size());
  return box.empty() ? "empty" : "map";
}

enum class FileKind : uint8_t { npz, npy, proto };

FileKind kind_of(const std::string& path) {
  if (path.ends_with(".npz")) return FileKind::npz;
  if (path.ends_with(".npy")) return FileKind::npy;
  if (path.ends_with(".pb")) return FileKind::proto;
  fail(ErrorKind::invalid_argument,
       "--output '{}': expected a name that ends in .npz (all outputs), .npy or .pb (one output)",
       escape(path));
}

// The name and the file of "NAME=FILE"; the name of "FILE" is empty.
std::pair<std::string, std::string> split_argument(const std::string& argument,
                                                   std::span<const std::string> names) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) return {"", argument};
  std::string name = argument.substr(0, equals);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  check(std::find(names.begin(), names.end(), name) != names.end(), ErrorKind::invalid_argument,
        "--output: the model has no output '{}'{}; outputs: {}", escape(name),
        did_you_mean(name, candidates), escape(fmt::format("{}", fmt::join(names, ", ")), 2000));
  return {std::move(name), argument.substr(equals + 1)};
}

const Tensor& tensor_of(const Box& box, const std::string& name, const std::string& path) {
  check(box.is_tensor(), ErrorKind::unsupported, "output '{}' is a {}, which '{}' cannot hold",
        escape(name), type_text(box), escape(path));
  return box.tensor();
}

std::string file_bytes(const NamedOutputs& outputs, const std::string& selected,
                       const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < outputs.names.size(); ++i) {
    if (!selected.empty() && outputs.names[i] != selected) continue;
    tensors.push_back({outputs.names[i], tensor_of(outputs.values[i], outputs.names[i], path)});
  }
  switch (kind_of(path)) {
    case FileKind::npz:
      return write_npz(tensors);
    case FileKind::proto:
      return onnx::write_tensor_proto(tensors.front().tensor, tensors.front().name);
    case FileKind::npy:
      break;
  }
  std::string bytes;
  write_npy(tensors.front().tensor, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

}  // namespace

void OutputArguments::declare(CommandLine& line) {
  line.texts("--output,-o", files, "[NAME=]FILE",
             "Output file: .npz for all outputs, .npy or .pb (TensorProto) for one.");
  line.integer("--top", top, 0, 1000,
               "Number of largest values to print per row; 0: all values (5 with --labels).");
  line.text("--labels", labels, "FILE", "Text file of class names, one a line.");
}

void OutputArguments::check_files(std::span<const std::string> names,
                                  std::span<const std::string> inputs) const {
  for (const std::string& argument : files) {
    const auto [name, path] = split_argument(argument, names);
    check(kind_of(path) == FileKind::npz || !name.empty() || names.size() == 1,
          ErrorKind::invalid_argument,
          "--output '{}' holds one output, the model has {}: write NAME={} or use .npz",
          escape(path), names.size(), escape(path));
    check_output_file("--output", path, inputs);
  }
}

void check_output_file(std::string_view flag, const std::string& path,
                       std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    check(!is_same_file(path, input), ErrorKind::invalid_argument,
          "{} '{}' would overwrite the input '{}'", flag, escape(path), escape(input));
  }
  check(!path.empty() && !is_folder(path), ErrorKind::invalid_argument,
        "{} is '{}', expected the name of a file", flag, escape(path));
  check(is_folder(parent_folder(path)), ErrorKind::io,
        "{}: cannot write '{}': '{}' is not a folder", flag, escape(path),
        escape(parent_folder(path)));
}

void print_outputs(const NamedOutputs& outputs, const OutputArguments& arguments, Output& out) {
  std::vector<std::string> labels;
  if (!arguments.labels.empty()) labels = read_labels(arguments.labels);
  const int64_t top = arguments.top == 0 && !labels.empty() ? 5 : arguments.top;
  bool used_labels = labels.empty();
  for (size_t i = 0; i < outputs.names.size(); ++i) {
    const Box& box = outputs.values[i];
    out.write(fmt::format("{} {}\n", escape(outputs.names[i]), type_text(box)));
    const bool ranks = top > 0 && has_classes(box);
    const bool has_labels = ranks && !labels.empty() &&
                            box.tensor().dims().back() == static_cast<int64_t>(labels.size());
    used_labels = used_labels || has_labels;
    out.write(ranks ? top_text(box.tensor(), top, has_labels ? labels : std::vector<std::string>())
                    : box_text(box, "  "));
  }
  check(used_labels, ErrorKind::invalid_argument,
        "--labels '{}' has {} names, but no output has that many classes", escape(arguments.labels),
        labels.size());
}

void write_outputs(const NamedOutputs& outputs, const OutputArguments& arguments) {
  for (const std::string& argument : arguments.files) {
    const auto [name, path] = split_argument(argument, outputs.names);
    write_file(path, file_bytes(outputs, name, path));
  }
}

}  // namespace lathe::cli
