// SPDX-License-Identifier: MIT
// cuBLASLt for the host driver: plain loops behind its interface, so that tests see what the target
// requires of it: types, orders, strides, epilogues.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "targets/gpu/libraries/cublaslt_numbers.h"

using lathe::gpu::CublasLtAlgorithm;
using lathe::gpu::CublasLtHeuristic;
using namespace lathe::gpu::cublaslt;  // NOLINT: numbers

namespace {

constexpr int kInvalid = 7;
constexpr int kNotSupported = 15;
// A number of rows whose products refuse algorithms of others.
constexpr int64_t kOwnRows = 77;

std::atomic<int64_t> asked = 0;  // for algorithms
thread_local int64_t asked_here = 0;
std::atomic<int64_t> computed = 0;  // products
std::atomic<int64_t> shared = 0;    // calls that met another with their handle

// A call with a handle, which takes a while.
class Use {
 public:
  explicit Use(void* handle) : users_(*static_cast<std::atomic<int>*>(handle)) {
    if (users_++ > 0) ++shared;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ~Use() { --users_; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<int>& users_;
};

struct Product {
  std::map<int, int64_t> values;
  int64_t value(int attribute) const {
    const auto at = values.find(attribute);
    return at == values.end() ? 0 : at->second;
  }
};
// Column-major.
struct Layout {
  int type = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  int64_t batches = 1;
  int64_t batch_stride = 0;
};

int64_t element_bytes(int type) { return type == kTypeF64 ? 8 : type == kTypeF32 ? 4 : 2; }

float float_of(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The host driver marks addresses of its device.
template <class T>
T* real(T* pointer) {
  return reinterpret_cast<T*>(  // NOLINT
      reinterpret_cast<uintptr_t>(pointer) & ~(uintptr_t{1} << 55));
}

double read(const void* memory, int type, int64_t at) {
  const char* place = static_cast<const char*>(real(memory)) + at * element_bytes(type);
  if (type == kTypeF64) return *reinterpret_cast<const double*>(place);
  if (type == kTypeF32) return *reinterpret_cast<const float*>(place);
  uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  if (type == kTypeBf16) return float_of(static_cast<uint32_t>(bits) << 16);
  _Float16 half = 0;
  std::memcpy(&half, &bits, sizeof(half));
  return static_cast<double>(half);
}

void write(void* memory, int type, int64_t at, double value) {
  char* place = static_cast<char*>(real(memory)) + at * element_bytes(type);
  if (type == kTypeF64) {
    std::memcpy(place, &value, sizeof(value));
  } else if (type == kTypeF32) {
    const auto single = static_cast<float>(value);
    std::memcpy(place, &single, sizeof(single));
  } else if (type == kTypeBf16) {
    const uint32_t bits = bits_of(static_cast<float>(value));
    const auto rounded = static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
    std::memcpy(place, &rounded, sizeof(rounded));
  } else {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(place, &half, sizeof(half));
  }
}

double activated(double x, int64_t epilogue) {
  if ((epilogue & kEpilogueRelu) != 0) return std::max(x, 0.0);
  if ((epilogue & kEpilogueGelu) == 0) return x;
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

}  // namespace

extern "C" {

int64_t fake_algorithms_asked() { return asked; }
int64_t fake_algorithms_asked_here() { return asked_here; }
int64_t fake_products_computed() { return computed; }
int64_t fake_handles_shared() { return shared; }

int cublasLtCreate(void** handle) {
  *handle = new std::atomic<int>(0);
  return 0;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<std::atomic<int>*>(handle);
  return 0;
}
size_t cublasLtGetVersion() { return 130000; }
int cublasLtMatmulDescCreate(void** out, int, int) {
  *out = new Product;
  return 0;
}
int cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes) {
  int64_t wide = 0;
  std::memcpy(&wide, value, bytes);
  static_cast<Product*>(product)->values[attribute] = wide;
  return 0;
}
int cublasLtMatmulDescDestroy(void* product) {
  delete static_cast<Product*>(product);
  return 0;
}
int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns,
                               int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return kInvalid;
  *out = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride};
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  int64_t wide = 0;
  std::memcpy(&wide, value, bytes);
  auto& out = *static_cast<Layout*>(layout);
  (attribute == kLayoutBatches ? out.batches : out.batch_stride) = wide;
  return attribute == kLayoutBatches || attribute == kLayoutBatchStride ? 0 : kInvalid;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** out) { return cublasLtCreate(out); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceDestroy(void* preference) { return cublasLtDestroy(preference); }

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void*, void* d,
                                   void*, int, CublasLtHeuristic* results, int* count) {
  const Use use(handle);
  const auto& how = *static_cast<Product*>(product);
  const auto& x = *static_cast<Layout*>(a);
  const auto& w = *static_cast<Layout*>(b);
  const auto& y = *static_cast<Layout*>(d);
  const bool t = how.value(kProductTransA) == kTransposed;
  const bool u = how.value(kProductTransB) == kTransposed;
  const int64_t depth = t ? x.rows : x.columns;
  *count = 0;
  if ((t ? x.columns : x.rows) != y.rows || depth != (u ? w.columns : w.rows) ||
      (u ? w.rows : w.columns) != y.columns || x.batches != y.batches || w.batches != y.batches) {
    return kInvalid;
  }
  *count = 1;
  ++asked;
  ++asked_here;
  results[0] = {};
  std::memcpy(&results[0].algorithm, &y.columns, sizeof(y.columns));
  return 0;
}

int cublasLtMatmul(void*, void* product, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const CublasLtAlgorithm* algorithm, void*, size_t,
                   void*) {
  const auto& how = *static_cast<Product*>(product);
  const auto& x = *static_cast<Layout*>(a_layout);
  const auto& w = *static_cast<Layout*>(b_layout);
  const auto& z = *static_cast<Layout*>(c_layout);
  const auto& y = *static_cast<Layout*>(d_layout);
  const bool t = how.value(kProductTransA) == kTransposed;
  const bool u = how.value(kProductTransB) == kTransposed;
  const int64_t epilogue = how.value(kProductEpilogue);
  const void* bias = reinterpret_cast<const void*>(how.value(kProductBias));  // NOLINT
  int64_t rows = 0;
  std::memcpy(&rows, algorithm, sizeof(rows));
  if (y.columns == kOwnRows && rows != kOwnRows) return kNotSupported;
  ++computed;
  const bool wide = y.type == kTypeF64;
  const auto factor = [&](const void* from) {
    return wide ? *static_cast<const double*>(from)
                : static_cast<double>(*static_cast<const float*>(from));
  };
  const int64_t depth = t ? x.rows : x.columns;
  for (int64_t batch = 0; batch < y.batches; ++batch) {
    for (int64_t column = 0; column < y.columns; ++column) {
      for (int64_t row = 0; row < y.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += read(a, x.type,
                      batch * x.batch_stride + (t ? row * x.stride + k : k * x.stride + row)) *
                 read(b, w.type,
                      batch * w.batch_stride + (u ? k * w.stride + column : column * w.stride + k));
        }
        sum *= factor(alpha);
        if (factor(beta) != 0) {
          sum += factor(beta) * read(c, z.type, batch * z.batch_stride + column * z.stride + row);
        }
        if ((epilogue & kEpilogueBias) != 0) sum += read(bias, y.type, row);
        write(d, y.type, batch * y.batch_stride + column * y.stride + row,
              activated(sum, epilogue));
      }
    }
  }
  return 0;
}

}  // extern "C"
