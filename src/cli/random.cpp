// SPDX-License-Identifier: MIT
#include "cli/random.h"

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::cli {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  Random(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // In [-1, 1), a multiple of 2^-23: exact in f32.
  double symmetric() { return static_cast<double>(next() >> 40) / (1 << 23) - 1.0; }

 private:
  uint64_t state_;
};

}  // namespace

Tensor random_tensor(ElementType type, const Dims& dims, uint64_t seed, std::string_view name) {
  Tensor out(type, dims);
  Random random(seed, name);
  const int64_t count = out.count();
  if (type == ElementType::string) {
    for (std::string& text : out.elements<std::string>()) {
      text = fmt::format("text {}", random.next() % 100);
    }
    return out;
  }
  if (info(type).cls == ElementClass::complex) {
    const ElementType part = type == ElementType::c64 ? ElementType::f32 : ElementType::f64;
    for (int64_t i = 0; i < 2 * count; ++i) store_double(part, out.data(), i, random.symmetric());
    return out;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (is_floating(type)) {
      store_double(type, out.data(), i, random.symmetric());
    } else {
      store_int(type, out.data(), i, static_cast<int64_t>(random.next() >> 63));
    }
  }
  return out;
}

Tensor filled_tensor(ElementType type, const Dims& dims, double value, std::string_view name) {
  Tensor out(type, dims);
  const int64_t count = out.count();
  check(type != ElementType::string && info(type).cls != ElementClass::complex,
        ErrorKind::invalid_argument,
        "--fill {}: elements of type {} cannot be filled with a number", escape(name),
        to_string(type));
  if (count == 0) return out;
  store_double(type, out.data(), 0, value);
  check(is_floating(type) || load_double(type, out.data(), 0) == value, ErrorKind::invalid_argument,
        "--fill {}: elements of type {} cannot hold {}", escape(name), to_string(type), value);
  for (int64_t i = 1; i < count; ++i) store_double(type, out.data(), i, value);
  return out;
}

}  // namespace lathe::cli
