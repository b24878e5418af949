// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "base/quote.h"
#include "cli/outputs.h"
#include "tensor/convert.h"
#include "tensor/number_text.h"

namespace lathe::cli {
namespace {

constexpr int64_t kMaxElements = 200;  // elements
constexpr int64_t kEnds = 3;
constexpr size_t kColumns = 100;
constexpr size_t kMaxString = 200;

std::string element_text(const Tensor& tensor, int64_t index) {
  const ElementType type = tensor.type();
  if (type == ElementType::string) {
    const std::string& text = tensor.as<std::string>()[index];
    return quote(std::string_view(text).substr(0, kMaxString)) +
           (text.size() > kMaxString ? "…" : "");
  }
  switch (info(type).cls) {
    case ElementClass::boolean:
      return load_int(type, tensor.data(), index) != 0 ? "true" : "false";
    case ElementClass::signed_int:
      return fmt::format("{}", load_int(type, tensor.data(), index));
    case ElementClass::unsigned_int:
      return fmt::format("{}", static_cast<uint64_t>(load_int(type, tensor.data(), index)));
    case ElementClass::complex: {
      const ElementType part = type == ElementType::c64 ? ElementType::f32 : ElementType::f64;
      return fmt::format("{:.6g}{:+.6g}j", load_double(part, tensor.data(), 2 * index),
                         load_double(part, tensor.data(), 2 * index + 1));
    }
    default:
      break;
  }
  const double value = load_double(type, tensor.data(), index);
  return fmt::format("{:.{}g}", value, type == ElementType::f64 ? 10 : 6);
}

class ValuesText {
 public:
  ValuesText(const Tensor& dense, std::string_view indent)
      : tensor_(dense), indent_(indent), truncated_(dense.count() > kMaxElements) {}

  std::string make() {
    if (tensor_.count() == 0) return fmt::format("{}[]\n", indent_);
    add_axis(0, 0, tensor_.count());
    return std::move(out_) + "\n";
  }

 private:
  void add_axis(size_t axis, int64_t first, int64_t count) {
    if (axis == tensor_.dims().size()) return add(element_text(tensor_, first));
    const int64_t extent = tensor_.dims()[axis];
    const bool is_last = axis + 1 == tensor_.dims().size();
    if (axis > 0 || line_.empty()) {
      if (out_.empty() && line_.empty()) line_ = std::string(indent_);
      line_ += '[';
    }
    for (int64_t i = 0; i < extent; ++i) {
      if (i > 0) is_last ? add_separator() : start_line(axis + 1);
      if (truncated_ && extent > 2 * kEnds && i == kEnds) {
        add("…");
        i = extent - kEnds - 1;
        continue;
      }
      add_axis(axis + 1, first + i * (count / extent), count / extent);
    }
    line_ += ']';
    if (axis == 0) out_ += line_;
  }

  void add(const std::string& text) {
    if (out_.empty() && line_.empty()) line_ = std::string(indent_);
    if (line_.size() + text.size() > kColumns && line_.ends_with(' ')) {
      start_line(tensor_.dims().size());
      line_.resize(line_.size());
    }
    line_ += text;
    if (tensor_.dims().empty()) out_ += line_;
  }
  void add_separator() { line_ += ' '; }
  void start_line(size_t depth) {
    while (line_.ends_with(' ')) line_.pop_back();
    out_ += line_ + "\n";
    line_ = std::string(indent_) + std::string(depth, ' ');
  }

  const Tensor& tensor_;
  std::string_view indent_;
  bool truncated_;
  std::string out_;
  std::string line_;
};

}  // namespace

std::string values_text(const Tensor& tensor, std::string_view indent) {
  return ValuesText(tensor.dense(), indent).make();
}

}  // namespace lathe::cli
