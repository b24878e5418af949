// SPDX-License-Identifier: MIT
#include "import/checkpoint/quantised/quantiser.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::checkpoint {
namespace {

std::vector<Quantiser>& all_quantisers() {
  static std::vector<Quantiser> list;
  return list;
}

class LazyMatrix final : public QuantisedTensor {
 public:
  LazyMatrix(std::string name, int64_t bits, std::function<QuantisedMatrix()> read)
      : name_(std::move(name)), bits_(bits), read_(std::move(read)) {}
  std::optional<PackedMatrix> packed() const override { return pack_matrix(read_(), name_); }
  Tensor dequantised() const override { return dequantise(*packed()); }
  std::string held_as() const override { return fmt::format("{}-bit codes with scales", bits_); }

 private:
  std::string name_;
  int64_t bits_;
  std::function<QuantisedMatrix()> read_;
};

class LazyElements final : public QuantisedTensor {
 public:
  explicit LazyElements(std::function<Tensor()> read) : read_(std::move(read)) {}
  Tensor dequantised() const override { return read_(); }
  std::string held_as() const override { return "f32"; }

 private:
  std::function<Tensor()> read_;
};

}  // namespace

RegisterQuantiser::RegisterQuantiser(Quantiser quantiser) {
  all_quantisers().push_back(quantiser);
  std::ranges::sort(all_quantisers(), {}, &Quantiser::method);
}

const std::vector<Quantiser>& quantisers() { return all_quantisers(); }

namespace {
// Null without `quantization_config`.
const Quantiser* find_quantiser(const Config& config) {
  if (!config.has("quantization_config")) return nullptr;
  const std::string method = config.object("quantization_config").text("quant_method");
  std::vector<std::string_view> known;
  for (const Quantiser& one : quantisers()) {
    if (one.method == method) return &one;
    known.push_back(one.method);
  }
  check(!method.empty(), ErrorKind::invalid_model,
        "'quantization_config' has no 'quant_method'; known are {}", fmt::join(known, ", "));
  fail(ErrorKind::unsupported,
       "'quantization_config' with method '{}' is not supported; known are {}", escape(method),
       fmt::join(known, ", "));
}

}  // namespace

void check_quantiser(const Config& config) { find_quantiser(config); }

void join_quantised(const Config& config, Weights& weights) {
  const Quantiser* quantiser = find_quantiser(config);
  if (quantiser != nullptr) quantiser->join(config.object("quantization_config"), weights);
}

StoredTensor quantised_matrix(const StoredTensor& codes, std::string_view name, int64_t bits,
                              int64_t rows, int64_t columns,
                              std::function<QuantisedMatrix()> read) {
  StoredTensor out = codes;
  out.type = fmt::format("{}{}", name, bits);
  out.dims = {rows, columns};
  out.quantised = std::make_shared<LazyMatrix>(codes.stored_name, bits, std::move(read));
  return out;
}

StoredTensor dequantised_tensor(const StoredTensor& codes, std::string type, Dims dims,
                                std::function<Tensor()> read) {
  StoredTensor out = codes;
  out.type = std::move(type);
  out.dims = std::move(dims);
  out.quantised = std::make_shared<LazyElements>(std::move(read));
  return out;
}

void for_names_ending(const Weights& weights, std::string_view suffix,
                      const std::function<void(const std::string& stem)>& f) {
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : weights.all()) {
    if (name.ends_with(suffix)) stems.push_back(name.substr(0, name.size() - suffix.size()));
  }
  for (const std::string& stem : stems) f(stem);
}

std::vector<int32_t> integers_of(const StoredTensor& stored, std::string_view name) {
  const Tensor plain = plain_tensor(stored, name);
  check(is_integer(plain.type()), ErrorKind::invalid_model, "tensor '{}' is {}, expected integers",
        escape(name), stored.type);
  std::vector<int32_t> out(static_cast<size_t>(plain.count()));
  convert(ElementType::i32, out.data(), plain.type(), plain.data(), plain.count());
  return out;
}

Tensor transposed(const Tensor& matrix) {
  const Dims& dims = matrix.dims();
  return Tensor(matrix.type(), {dims[1], dims[0]}, {1, dims[1]}, matrix.data(), matrix.owner())
      .clone();
}

void check_part(const StoredTensor& stored, std::string_view name, std::string_view type,
                const Dims& dims) {
  check(stored.type == type && stored.dims == dims, ErrorKind::invalid_model,
        "tensor '{}' is {} [{}], expected {} [{}]", escape(name), stored.type,
        fmt::join(stored.dims, ", "), type, fmt::join(dims, ", "));
}

}  // namespace lathe::checkpoint
