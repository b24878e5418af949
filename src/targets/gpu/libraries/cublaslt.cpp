// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/cublaslt.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "plan/arena_layout.h"
#include "targets/gpu/libraries/cublaslt_numbers.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

using namespace cublaslt;  // NOLINT: numbers

constexpr size_t kMostChoices = 4096;

int type_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return kTypeF16;
    case ElementType::bf16:
      return kTypeBf16;
    case ElementType::f64:
      return kTypeF64;
    default:
      return kTypeF32;
  }
}

constexpr uint32_t kMostAlignment = 64;  // of an arena's places: what lies better is chosen alike

// A product of fewer rows and columns, of the same alignments, that the same kernel computes.
constexpr int64_t kFew = 128;
constexpr int64_t kSampleMatrices = 5;  // a, b, y, residual, bias
constexpr int64_t kSampleMatrixBytes = int64_t{1} << 20;
constexpr int64_t kSampleWorkspaceBytes = int64_t{8} << 20;

int64_t few_of(int64_t extent) { return extent < 2 * kFew ? extent : kFew + extent % kFew; }

uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address == 0) return kMostAlignment;
  return std::min(kMostAlignment, uint32_t{1} << std::min(std::countr_zero(address), 6));
}

// What is added, or lies where the library's interface requires it.
const LibraryMatrix& addend_of(const LibraryProduct& p) {
  return p.residual.data != nullptr ? p.residual : p.y;
}

std::array<uint32_t, 4> alignments_of(const LibraryProduct& p) {
  return {alignment_of(p.b.data), alignment_of(p.a.data), alignment_of(addend_of(p).data),
          alignment_of(p.y.data)};
}

// The rows for which an algorithm is chosen: many numbers of rows share one, so that prompts of
// ever new lengths need few.
int64_t bucket_of(int64_t rows) {
  constexpr int64_t kExact = 8;
  constexpr int64_t kFewRows = 64;
  if (rows <= kExact) return rows;
  return rows <= kFewRows ? (rows + kExact - 1) / kExact * kExact : capacity_for(rows);
}

bool has_bucket(const LibraryProduct& p) { return p.batches == 1 && !p.a.transposed; }

int epilogue_of(const LibraryProduct& p) {
  const bool bias = p.bias != nullptr;
  switch (p.activation) {
    case Activation::relu:
      return bias ? kEpilogueReluBias : kEpilogueRelu;
    case Activation::gelu_tanh:
      return bias ? kEpilogueGeluBias : kEpilogueGelu;
    default:
      return bias ? kEpilogueBias : kEpilogueNone;
  }
}

}  // namespace

struct CublasLt::Functions {
#define LATHE_FUNCTION(name, type, vendor) std::add_pointer_t<type> name = nullptr;
#include "targets/gpu/libraries/cublaslt_functions.inc"
#undef LATHE_FUNCTION
};

// What one shape of product needs. Without an algorithm, the library has none.
struct CublasLt::Choice {
  explicit Choice(const Functions& functions) : f(functions) {}
  ~Choice() {
    for (void* layout : layouts) {
      if (layout != nullptr) f.layout_destroy(layout);
    }
    if (product != nullptr) f.product_destroy(product);
  }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  const Functions& f;
  void* product = nullptr;
  std::array<void*, 4> layouts{};  // of the library's A, B, C, D
  bool good = true;                // the description
  bool found = false;
  bool of_bucket = false;  // the algorithm was chosen for more rows
  CublasLtAlgorithm algorithm{};
};

bool CublasLt::computes(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16 ||
         type == ElementType::f64;
}

std::unique_ptr<CublasLt> CublasLt::open(Driver& driver, Later later, std::string* reason) {
  auto library = open_vendor_library(VendorLibrary::cublaslt, reason);
  if (library == nullptr) return nullptr;
  Functions f;
  bool complete = true;
#define LATHE_FUNCTION(name, type, vendor) \
  complete = complete && find_function(*library, #vendor, f.name, reason);
#include "targets/gpu/libraries/cublaslt_functions.inc"
#undef LATHE_FUNCTION
  if (!complete) return nullptr;
  std::unique_ptr<CublasLt> made(new CublasLt(driver, std::move(later), std::move(library), f));
  driver.make_current();
  const int status = f.create(&made->handle_);
  if (status == 0) {
    made->make_sample();
    return made;
  }
  if (reason != nullptr) *reason = fmt::format("cublasLtCreate failed with status {}", status);
  return nullptr;
}

CublasLt::CublasLt(Driver& driver, Later later, std::shared_ptr<const DynamicLibrary> library,
                   const Functions& f)
    : driver_(driver),
      later_(std::move(later)),
      library_(std::move(library)),
      f_(std::make_unique<Functions>(f)) {}

CublasLt::~CublasLt() {
  choices_.clear();
  if (sample_ != nullptr) driver_.free(sample_);  // waits for what reads it
  if (later_stream_.native != nullptr) driver_.destroy(later_stream_);
  for (void* handle : {handle_, later_handle_}) {
    if (handle != nullptr) f_->destroy(handle);
  }
}

// Runs, which may be recorded, allocate nothing.
void CublasLt::make_sample() {
  try {
    later_stream_ = driver_.make_stream();
    constexpr int64_t kBytes = kSampleMatrices * kSampleMatrixBytes + kSampleWorkspaceBytes +
                               (kWorkspaceBytes - kUsedBytes);
    sample_ = driver_.allocate(static_cast<size_t>(kBytes));
  } catch (const Error&) {
    // Runs load kernels.
  }
}

std::string CublasLt::description() const {
  const size_t version = f_->version();
  return fmt::format("cuBLASLt {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                     library_->path());
}

// The library's matrices are column-major: it computes yᵀ = bᵀ · aᵀ.
std::unique_ptr<CublasLt::Choice> CublasLt::describe(const LibraryProduct& p) const {
  auto choice = std::make_unique<Choice>(*f_);
  bool& good = choice->good;
  const int type = type_of(p.type);
  const bool f64 = p.type == ElementType::f64;
  good = f_->product_create(&choice->product, f64 ? kComputeF64 : kComputeF32,
                            f64 ? kTypeF64 : kTypeF32) == 0;
  const auto set_product = [&](int attribute, int32_t value) {
    good = good && f_->product_set(choice->product, attribute, &value, sizeof(value)) == 0;
  };
  if (p.b.transposed) set_product(kProductTransA, kTransposed);
  if (p.a.transposed) set_product(kProductTransB, kTransposed);
  set_product(kProductEpilogue, epilogue_of(p));
  const auto layout = [&](size_t i, const LibraryMatrix& matrix, int64_t rows, int64_t columns) {
    const int64_t contiguous = matrix.transposed ? rows : columns;
    const int64_t others = matrix.transposed ? columns : rows;
    good = good && f_->layout_create(&choice->layouts[i], type, static_cast<uint64_t>(contiguous),
                                     static_cast<uint64_t>(others),
                                     std::max(matrix.stride, contiguous)) == 0;
    if (p.batches == 1) return;
    const auto batches = static_cast<int32_t>(p.batches);
    good = good &&
           f_->layout_set(choice->layouts[i], kLayoutBatches, &batches, sizeof(batches)) == 0 &&
           f_->layout_set(choice->layouts[i], kLayoutBatchStride, &matrix.batch,
                          sizeof(matrix.batch)) == 0;
  };
  layout(0, p.b, p.k, p.n);
  layout(1, p.a, p.m, p.k);
  layout(2, addend_of(p), p.m, p.n);
  layout(3, p.y, p.m, p.n);
  return choice;
}

// Requests the algorithm of this product.
void CublasLt::find_algorithm(void* handle, const LibraryProduct& p, Choice& choice) const {
  choice.of_bucket = false;
  choice.found = false;
  void* preference = nullptr;
  bool good = choice.good && f_->preference_create(&preference) == 0;
  const uint64_t workspace = kUsedBytes;
  good =
      good && f_->preference_set(preference, kPreferWorkspace, &workspace, sizeof(workspace)) == 0;
  static constexpr std::array kAlignments{kPreferAlignmentA, kPreferAlignmentB, kPreferAlignmentC,
                                          kPreferAlignmentD};
  const std::array<uint32_t, 4> alignments = alignments_of(p);
  for (size_t i = 0; i < kAlignments.size(); ++i) {
    good = good && f_->preference_set(preference, kAlignments[i], &alignments[i],
                                      sizeof(alignments[i])) == 0;
  }
  if (good) {
    CublasLtHeuristic best{};
    int count = 0;
    const int status =
        f_->heuristic(handle, choice.product, choice.layouts[0], choice.layouts[1],
                      choice.layouts[2], choice.layouts[3], preference, 1, &best, &count);
    choice.found = status == 0 && count > 0 && best.state == 0;
    choice.algorithm = best.algorithm;
  }
  if (preference != nullptr) f_->preference_destroy(preference);
}

std::vector<int64_t> CublasLt::key_of(const LibraryProduct& p) {
  std::vector<int64_t> key{
      static_cast<int64_t>(p.type),      p.m, p.n, p.k, p.batches, epilogue_of(p),
      p.residual.data != nullptr ? 1 : 0};
  for (const LibraryMatrix* matrix : {&p.a, &p.b, &addend_of(p), &p.y}) {
    key.insert(key.end(), {matrix->stride, matrix->batch, matrix->transposed ? 1 : 0});
  }
  for (const uint32_t alignment : alignments_of(p)) key.push_back(alignment);
  return key;
}

CublasLt::Choice& CublasLt::choose(const LibraryProduct& p) {
  std::vector<int64_t> key = key_of(p);
  if (const auto at = choices_.find(key); at != choices_.end()) return *at->second;
  std::unique_ptr<Choice> choice = describe(p);
  LibraryProduct bucket = p;
  if (has_bucket(p)) bucket.m = bucket_of(p.m);
  if (bucket.m != p.m) {
    const Choice& of_bucket = choose(bucket);
    choice->found = choice->of_bucket = of_bucket.found;
    choice->algorithm = of_bucket.algorithm;
  }
  if (!choice->found) find_algorithm(handle_, p, *choice);
  if (p.rows_vary && has_bucket(p)) prepare_others(p);
  if (choices_.size() >= kMostChoices) choices_.clear();
  return *choices_.emplace(std::move(key), std::move(choice)).first->second;
}

// Buckets that prompts may need.
void CublasLt::prepare_others(const LibraryProduct& p) {
  constexpr int64_t kLeastRows = 16;
  constexpr int64_t kMostRows = 4096;
  LibraryProduct other = p;
  other.m = 0;
  if (!prepared_.insert(key_of(other)).second) return;
  for (other.m = kLeastRows; other.m <= kMostRows; other.m = bucket_of(other.m + 1)) {
    later_([this, other] { prepare(other); });
  }
}

void CublasLt::prepare(const LibraryProduct& p) {
  std::vector<int64_t> key = key_of(p);
  {
    const std::lock_guard lock(mutex_);
    if (choices_.contains(key) || choices_.size() >= kMostChoices) return;
  }
  try {
    driver_.make_current();
  } catch (const Error&) {
    return;  // runs report it
  }
  // Another handle, which no run uses at the same time.
  if (later_handle_ == nullptr && f_->create(&later_handle_) != 0) return;
  std::unique_ptr<Choice> choice = describe(p);
  find_algorithm(later_handle_, p, *choice);
  if (choice->found) load_kernel(p, *choice);
  const std::lock_guard lock(mutex_);
  if (choices_.size() < kMostChoices) choices_.emplace(std::move(key), std::move(choice));
}

// The library loads a kernel when it is enqueued first, which takes milliseconds: a product of few
// rows and columns loads it. (Recorded instead, it would not run, but no thread may wait for the
// device meanwhile.)
void CublasLt::load_kernel(const LibraryProduct& p, const Choice& choice) const {
  if (sample_ == nullptr) return;
  LibraryProduct few = p;
  for (int64_t* extent : {&few.m, &few.n, &few.k}) *extent = few_of(*extent);
  int64_t place = 0;
  const auto put = [&](const void* data, int64_t at) {
    const uint32_t alignment = alignment_of(data);
    return static_cast<char*>(sample_) + at * kSampleMatrixBytes + alignment % kMostAlignment;
  };
  const auto put_matrix = [&](LibraryMatrix& matrix, int64_t columns) {
    if (matrix.data != nullptr) matrix.data = put(matrix.data, place);
    ++place;
    matrix.stride = few_of(columns) + std::max<int64_t>(0, matrix.stride - columns) % kFew;
  };
  put_matrix(few.a, p.a.transposed ? p.m : p.k);
  put_matrix(few.b, p.b.transposed ? p.k : p.n);
  put_matrix(few.y, p.n);
  put_matrix(few.residual, p.n);
  if (few.bias != nullptr) few.bias = put(few.bias, place);
  const std::unique_ptr<Choice> sample = describe(few);
  sample->algorithm = choice.algorithm;
  // Where the library refuses it, runs load it.
  static_cast<void>(enqueue(later_handle_, later_stream_, few, *sample,
                            static_cast<char*>(sample_) + kSampleMatrices * kSampleMatrixBytes,
                            kSampleWorkspaceBytes));
}

int CublasLt::enqueue(void* handle, StreamHandle stream, const LibraryProduct& p, Choice& choice,
                      const void* workspace, int64_t workspace_bytes) const {
  if (p.bias != nullptr) {
    const int status = f_->product_set(choice.product, kProductBias, &p.bias, sizeof(p.bias));
    if (status != 0) return status;
  }
  const bool f64 = p.type == ElementType::f64;
  const std::array<float, 2> single{static_cast<float>(p.alpha),
                                    p.residual.data != nullptr ? 1.0F : 0.0F};
  const std::array<double, 2> twice{p.alpha, p.residual.data != nullptr ? 1.0 : 0.0};
  const auto factor = [&](size_t i) {
    return f64 ? static_cast<const void*>(&twice[i]) : static_cast<const void*>(&single[i]);
  };
  return f_->run(handle, choice.product, factor(0), p.b.data, choice.layouts[0], p.a.data,
                 choice.layouts[1], factor(1), addend_of(p).data, choice.layouts[2],
                 const_cast<void*>(p.y.data), choice.layouts[3], &choice.algorithm,
                 aligned_workspace(const_cast<void*>(workspace)),
                 static_cast<size_t>(workspace_bytes), stream.native);
}

bool CublasLt::run(StreamHandle stream, const LibraryProduct& p, void* workspace) {
  driver_.make_current();
  const std::lock_guard lock(mutex_);
  Choice& choice = choose(p);
  if (!choice.found) return false;
  int status = enqueue(handle_, stream, p, choice, workspace, kUsedBytes);
  if (status != 0 && choice.of_bucket) {
    find_algorithm(handle_, p, choice);
    if (!choice.found) return false;
    status = enqueue(handle_, stream, p, choice, workspace, kUsedBytes);
  }
  check(status == 0, ErrorKind::device, "cuBLASLt failed with status {} at a product of {}x{}x{}",
        status, p.m, p.n, p.k);
  return true;
}

}  // namespace lathe::gpu
