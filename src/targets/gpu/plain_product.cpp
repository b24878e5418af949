// SPDX-License-Identifier: MIT
#include "targets/gpu/plain_product.h"

#include "targets/gpu/anchor.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/gemm_problem.h"

namespace lathe::gpu {
namespace {

bool has_fragments(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16;
}

uint32_t threads_of(const GpuDevice& device, ElementType type) {
  constexpr int64_t kWaves = 4;  // of fragments
  return has_fragments(type) ? static_cast<uint32_t>(kWaves * device.driver().limits().wave)
                             : kThreads;
}

Source source_of(const GpuDevice& device, ElementType type) {
  const std::string_view name = type_name(type);
  const std::string epilogue =
      "DEVICE ACC epilogue(const Arguments&, ACC v, ACC, i64, i64, i64) { return v; }\n";
  return {
      "gemm",
      fmt::format("typedef {0} T;\ntypedef T TA;\ntypedef T TB;\ntypedef T TY;\ntypedef float "
                  "ACC;\n#define CONV 0\n#define DIRECT 0\n#define FEW 0\n#define FRAGMENTS "
                  "{1}\n#define THREADS {2}\n#define FINISH 0\n#define IN_PLACE 0\n#define TWIN "
                  "0\n#define SIDES 0\n{3}{4}",
                  name, has_fragments(type) ? 1 : 0, threads_of(device, type),
                  has_fragments(type) ? kernel_text("fragments.gpu") : "",
                  Anchor::kernel_with("gemm.gpu", epilogue))};
}

}  // namespace

PlainProduct::PlainProduct(const GpuDevice& device, ElementType type)
    : device_(device),
      type_(type),
      by_library_(CublasLt::computes(type) && device.libraries().cublaslt() != nullptr),
      threads_(threads_of(device, type)),
      code_(device, source_of(device, type), false) {}

bool PlainProduct::run(const LaunchArgs& args, const Operands& o, void* workspace) const {
  if (by_library_) {
    const LibraryProduct product{.type = type_,
                                 .m = o.m,
                                 .n = o.n,
                                 .k = o.k,
                                 .a = {.data = o.a.data, .stride = o.a.stride},
                                 .b = {.data = o.b.data, .stride = o.b.stride, .transposed = true},
                                 .y = {.data = o.y.data, .stride = o.y.stride},
                                 .residual = {.data = o.residual.data, .stride = o.residual.stride},
                                 .bias = o.bias,
                                 .activation = o.activation,
                                 .rows_vary = o.rows_vary};
    const StreamHandle stream = static_cast<GpuStream*>(args.stream)->handle_for_other();
    if (device_.libraries().cublaslt()->run(stream, product, workspace)) return true;
  }
  const Problem problem{.m = o.m, .n = o.n, .k = o.k, .row_sizes = {o.m, 1, 1, 1}};
  Arguments arguments;
  problem.append_to(arguments);
  Place{.data = o.a.data, .row = {o.a.stride}}.append_to(arguments);
  arguments.add(int64_t{1});
  Place{.data = o.b.data, .column = o.b.stride}.append_to(arguments);
  arguments.add(int64_t{1});
  Place{.data = o.y.data, .row = {o.y.stride}, .column = 1}.append_to(arguments);
  constexpr size_t kWindows = 24;
  for (size_t i = 0; i < kWindows; ++i) arguments.add(int64_t{0});
  constexpr int64_t kTile = 64;
  const auto tiles = [](int64_t size) { return static_cast<uint32_t>((size + kTile - 1) / kTile); };
  launch_code(device_, code_.get(), args, arguments, {tiles(o.m), tiles(o.n), 1}, threads_);
  return false;
}

}  // namespace lathe::gpu
