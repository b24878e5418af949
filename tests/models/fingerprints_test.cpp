// SPDX-License-Identifier: MIT
// Fingerprints of the plans of real models on `cpu`: what a change to passes or kernels must not
// make worse unseen. `LATHE_UPDATE=1 models_tests --gtest_filter=Fingerprints.*` writes the file.
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/thread_pool.h"
#include "import/onnx/importer.h"
#include "import/onnx/reader.h"
#include "import/onnx/tensor_proto.h"
#include "ir/ops.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "targets/cpu/weight_store.h"
#include "tests/support/data.h"

namespace lathe::test {
namespace {

namespace fs = std::filesystem;

struct RealModel {
  const char* path;  // below shared/models
  const char* inputs;
};
constexpr RealModel kModels[] = {
    {"vision/deeplabv3-mobilenetv2/deeplab_v3_257.onnx", "test_data_set_0"},
    {"vision/mnist-8/model.onnx", "test_data_set_0"},
    {"vision/mobilenetv2-qdq-int8/model.onnx", "test_data_set_0"},
    {"vision/ocr-text-detection/ch_mobile_v1.1_det.onnx", "test_data_set_0"},
    {"vision/squeezenet-fp16/model.onnx", "test_data_set_0"},
    {"vision/super-resolution-10/super_resolution.onnx", "test_data_set_0"},
    {"vision/ultraface-320/version-RFB-320.onnx", "version-RFB-320_data_set_0"},
    {"vision/yolox-nano/yolox_nano.onnx", "test_data_set_0"},
    {"vision/yunet/yunet_n_dynamic.onnx", "yunet_n_dynamic_224_data_set_0"},
    {"audio/basic-pitch/nmp.onnx", "test_data_set_0"},
    {"audio/gtcrn/gtcrn.onnx", "test_data_set_0"},
    {"text/magika-v3_3/model.onnx", "test_data_set_0"},
    {"text/nnsplit-en/model.onnx", "test_data_set_0"},
};
constexpr std::string_view kFile = "tests/models/fingerprints.txt";

// Sums over the launches of one run.
struct Totals {
  int64_t launches = 0, reorders = 0, bytes = 0, flops = 0;
};

// The GEMM or convolution of an instruction or region, and the place of its weights.
const Instruction* product_of(const Instruction& instruction) {
  const auto is_product = [](const Op& op) {
    for (const Op* known : {&ops::conv, &ops::matmul, &ops::gemm, &ops::qlinear_conv}) {
      if (op == *known) return true;
    }
    return false;
  };
  if (is_product(instruction.op())) return &instruction;
  for (const Module* body : instruction.bodies()) {
    for (const auto& inner : body->instructions()) {
      if (is_product(inner->op())) return inner.get();
    }
  }
  return nullptr;
}

int64_t flops_of(const Instruction& instruction, const LaunchArgs& args) {
  const Instruction* product = product_of(instruction);
  if (product == nullptr) return 0;
  const size_t weights = product->op() == ops::qlinear_conv ? 3 : 1;
  const Value& operand = *product->operands()[weights];
  const size_t place = product == &instruction ? weights : static_cast<size_t>(operand.index());
  const TensorView& w = *args.in[place];
  if (w.count() == 0) return 0;
  const bool is_conv = product->op() == ops::conv || product->op() == ops::qlinear_conv;
  const Attribute* transposed = find_attribute(product->attributes(), "trans_b");
  const bool by_rows = is_conv || (transposed != nullptr && std::get<bool>(*transposed));
  const int64_t columns = by_rows ? w.dims[0] : w.rank == 1 ? 1 : w.dims[w.rank - 1];
  int64_t matrix = w.count();
  if (!is_conv && w.rank > 2) matrix = w.dims[w.rank - 1] * w.dims[w.rank - 2];
  return 2 * args.out[0]->count() * (matrix / columns);
}

class Counted final : public Kernel {
 public:
  Counted(std::unique_ptr<const Kernel> kernel, const Instruction& instruction, Totals& totals)
      : kernel_(std::move(kernel)), instruction_(instruction), totals_(totals) {}
  std::string_view name() const override { return kernel_->name(); }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  bool may_overwrite(int operand) const override { return kernel_->may_overwrite(operand); }
  bool writes(int result) const override { return kernel_->writes(result); }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }
  void launch(const LaunchArgs& args) const override {
    ++totals_.launches;
    const Op& op = instruction_.op();
    if (op == ops::transpose || op == ops::copy || op == ops::reshape) ++totals_.reorders;
    for (const TensorView* view : args.in) {
      if (view != nullptr) totals_.bytes += bytes_for(view->type, view->count());
    }
    for (const TensorView* view : args.out) totals_.bytes += bytes_for(view->type, view->count());
    totals_.flops += flops_of(instruction_, args);
    kernel_->launch(args);
  }

 private:
  std::unique_ptr<const Kernel> kernel_;
  const Instruction& instruction_;
  Totals& totals_;
};

std::vector<Box> inputs_of(const Program& program, const fs::path& folder) {
  std::map<std::string, Box> given;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("input_{}.pb", i);
    if (!fs::exists(path)) break;
    auto stored = onnx::read_stored_value(path.string(), onnx::ValueType::Kind::tensor);
    given.emplace(std::move(stored.name), std::move(stored.value));
  }
  std::vector<Box> inputs;
  for (const auto& parameter : program.main().parameters()) {
    inputs.push_back(given.size() == 1 ? given.begin()->second : given.at(parameter->name()));
  }
  return inputs;
}

std::string fingerprint(const RealModel& model, const fs::path& path) {
  Totals totals;
  const size_t packed = cpu::weight_store_size().bytes;
  CompileOptions options{.target = find_target("cpu")};
  options.watch_kernels = [&](const Instruction& instruction, KernelChoice choice) {
    if (choice.kernel == nullptr) return choice;
    choice.kernel = std::make_unique<Counted>(std::move(choice.kernel), instruction, totals);
    return choice;
  };
  const auto plan = compile(import_onnx(onnx::read_model(path.string())), options);
  ThreadPool pool(2);
  Session session(plan, {.pool = &pool, .warn = {}});
  session.run(inputs_of(*plan->program, path.parent_path() / model.inputs));
  return fmt::format("{} launches {} reorders {} bytes {} flops {} arena {} packed {}", model.path,
                     totals.launches, totals.reorders, totals.bytes, totals.flops,
                     session.memory().peak(), cpu::weight_store_size().bytes - packed);
}

TEST(Fingerprints, AreThoseOfTheFile) {
  if (cpu::best_isa() != cpu::Isa::avx512_bf16) {
    GTEST_SKIP() << "plans for another instruction set have other kernels and packings";
  }
  std::vector<std::string> found;
  for (const RealModel& model : kModels) {
    const auto path = test_data(fmt::format("models/{}", model.path));
    if (!path) GTEST_SKIP() << "no test data";
    found.push_back(fingerprint(model, *path));
  }
  if (std::getenv("LATHE_UPDATE") != nullptr) {
    std::ofstream file{std::string(kFile)};
    for (const std::string& line : found) file << line << '\n';
    return;
  }
  std::ifstream file{std::string(kFile)};
  std::vector<std::string> expected;
  for (std::string line; std::getline(file, line);) expected.push_back(line);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], expected[i]) << "if this is meant: LATHE_UPDATE=1 writes " << kFile;
  }
}

}  // namespace
}  // namespace lathe::test
#endif
