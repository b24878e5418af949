// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include "import/compiled/compiled_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/thread_pool.h"
#include "ir/compiled_source.h"
#include "ir/model_info.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "plan/packing_observer.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "targets/cpu/weight_store.h"
#include "targets/save_program.h"
#include "tests/support/contains.h"
#include "tests/support/errors.h"
#include "tests/support/made_literals.h"
#include "tests/support/sanitized.h"

namespace lathe {
namespace {

// A matmul, a convolution, a gather and a joined product, with weights of `n` columns.
constexpr std::string_view kText = R"(program "net" stage imported {
  symbol b bound 1..*
  module @main(%x: f32[b, 48], %p: f32[1, 3, 9, 9], %i: i64[b]) {
    %w = literal f32[48, {n}] #0000000000000001
    %v = literal f32[48, {n}] #0000000000000002
    %c = literal f32[{n}] #0000000000000003
    %k = literal f32[{n}, 3, 3, 3] #0000000000000004
    %t = literal f32[20, {n}] #0000000000000005
    %a = matmul(%x, %w)
    %d = add(%a, %c)
    %e = relu(%d)
    %f = matmul(%x, %v)
    %g = mul(%e, %f)
    %h = gather(%t, %i) {axis = 0}
    %s = add(%g, %h)
    %q = conv(%p, %k)
    return %s as "s", %q as "q"
  }
})";

Tensor numbers(Dims dims, int seed) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>((i * (2 * seed + 1)) % 37 - 18) / 16;
  }
  return tensor;
}

Tensor literal_numbers(ElementType, Dims dims, uint64_t hash) {
  return numbers(std::move(dims), static_cast<int>(hash));
}

std::unique_ptr<Program> network(int n) {
  std::string text(kText);
  for (size_t at = text.find("{n}"); at != std::string::npos; at = text.find("{n}")) {
    text.replace(at, 3, std::to_string(n));
  }
  return test::parse_with_made(text, literal_numbers);
}

std::shared_ptr<const Plan> compiled(std::unique_ptr<Program> program) {
  return compile(std::move(program), {.target = find_target("cpu")});
}

std::string saved(const Plan& plan, SavedSizes* sizes = nullptr) {
  std::string out;
  const SavedSizes found = save_program(plan, {.target = find_target("cpu")},
                                        [&](std::string_view bytes) { out += bytes; });
  if (sizes != nullptr) *sizes = found;
  return out;
}

std::shared_ptr<const CompiledFile> opened(const std::string& bytes) {
  return CompiledFile::open("net.lathe", bytes, nullptr);
}

std::shared_ptr<const Plan> loaded(const std::string& bytes) {
  return compiled(opened(bytes)->program(kMainProgram));
}

// Bits of all results, for batches of 1 and 5.
std::string results_of(const std::shared_ptr<const Plan>& plan) {
  Session session(plan);
  std::string out;
  for (const int64_t batch : {1, 5}) {
    Tensor indices(ElementType::i64, {batch});
    for (int64_t i = 0; i < batch; ++i) indices.as<int64_t>()[i] = i * 3;
    const std::vector<Box> results = session.run(std::vector<Box>{
        Box{numbers({batch, 48}, 6)}, Box{numbers({1, 3, 9, 9}, 7)}, Box{indices}});
    for (const Box& box : results) {
      const Tensor dense = box.tensor().dense();
      out.append(dense.as<char>(), static_cast<size_t>(dense.byte_size()));
    }
  }
  return out;
}

// Limits the instruction set of the CPU target.
class IsaLimit {
 public:
  explicit IsaLimit(cpu::Isa isa) { cpu::limit_isa(isa); }
  ~IsaLimit() { cpu::limit_isa(std::nullopt); }
  IsaLimit(const IsaLimit&) = delete;
  IsaLimit& operator=(const IsaLimit&) = delete;
};

TEST(CompiledFile, ComputesTheSameBits) {
  for (const int n : {5, 128}) {
    const auto plan = compiled(network(n));
    const std::string bytes = saved(*plan);
    EXPECT_TRUE(results_of(loaded(bytes)) == results_of(plan)) << n << " columns";
  }
}

TEST(CompiledFile, KeepsMeasuredChoicesWhenItIsSavedAgain) {
  const std::array<Candidate, 2> candidates{{{"a"}, {"b"}}};
  const auto tuning = std::make_shared<Tuning>("this", 2);
  TunedProblem* problem = tuning->problem("p", candidates);
  for (int round = 0; round < 2; ++round) {
    tuning->begin_round(round, true);
    problem->note(2.0 - round);
  }
  tuning->decide();
  std::string first;
  save_program(*compiled(network(5)), {.target = find_target("cpu"), .tuning = tuning},
               [&](std::string_view bytes) { first += bytes; });
  const auto choices = [](const std::string& bytes) {
    return compiled_source(*opened(bytes)->program(kMainProgram))->tuned();
  };
  EXPECT_TRUE(test::contains(choices(first), R"("b")"));
  EXPECT_EQ(choices(saved(*loaded(first))), choices(first));
}

TEST(CompiledFile, UsesPackedWeightsInPlace) {
  const std::string bytes = saved(*compiled(network(128)));
  const cpu::WeightStoreSize before = cpu::weight_store_size();
  const auto file = opened(bytes);
  int found = 0;
  const PackingObserver observer([&](const ObservedPacking& packing) {
    ++found;
    const auto* data = static_cast<const char*>(packing.data);
    const std::string_view mapped = file->container().unchecked();
    EXPECT_TRUE(data >= mapped.data() && data < mapped.data() + mapped.size()) << packing.id;
  });
  const auto plan = compiled(file->program(kMainProgram));
  EXPECT_EQ(found, 3);  // two products and the convolution
  EXPECT_EQ(cpu::weight_store_size().entries, before.entries + 3);
  results_of(plan);
}

TEST(CompiledFile, IsNotLoweredAgainForItsOwnTarget) {
  const std::string bytes = saved(*compiled(network(128)));
  const auto file = opened(bytes);
  std::vector<std::string> passes;
  CompileOptions options{.target = find_target("cpu")};
  options.passes.after_pass = [&](std::string_view pass, const Program&) {
    passes.emplace_back(pass);
  };
  results_of(compile(file->program(kMainProgram), options));
  EXPECT_EQ(passes, std::vector<std::string>{});
  compile(network(128), options);
  EXPECT_NE(passes, std::vector<std::string>{});
}

TEST(CompiledFile, StoresConstantsOnceIfTheirPackingHasAnInverse) {
  SavedSizes sizes;
  saved(*compiled(network(128)), &sizes);
  // The table, the bias and the weights of the convolution; not those of the products.
  constexpr int64_t kTable = 20 * 128 * 4, kBias = 128 * 4, kKernel = 128 * 27 * 4;
  EXPECT_EQ(sizes.constants, kTable + kBias + kKernel);
  EXPECT_GE(sizes.packed, 48 * 256 * 4 + kKernel);
}

// Pointwise, of several blocks, in groups, depthwise.
constexpr std::string_view kConvolutions = R"(program "convolutions" stage imported {
  module @main(%x: f32[1, 96, 14, 10]) {
    %p = literal f32[80, 96, 1, 1] #0000000000000001
    %k = literal f32[64, 80, 3, 5] #0000000000000002
    %g = literal f32[128, 32, 3, 3] #0000000000000003
    %d = literal f32[128, 1, 7, 7] #0000000000000004
    %a = conv(%x, %p)
    %b = conv(%a, %k) {pads = [1, 2, 1, 2]}
    %c = conv(%b, %g) {group = 2, strides = [2, 2], pads = [1, 1, 1, 1]}
    %y = conv(%c, %d) {group = 128, pads = [3, 3, 3, 3]}
    return %y as "y"
  }
})";

TEST(CompiledFile, StoresConvolutionsOnce) {
  const auto load = [] { return test::parse_with_made(kConvolutions, literal_numbers); };
  const auto run = [](const std::shared_ptr<const Plan>& plan) {
    Session session(plan);
    return session.run(std::vector<Box>{Box{numbers({1, 96, 14, 10}, 6)}})[0].tensor().dense();
  };
  SavedSizes sizes;
  const std::string bytes = saved(*compiled(load()), &sizes);
  EXPECT_EQ(sizes.stored_twice, 0);
  EXPECT_EQ(sizes.constants, 0);
  EXPECT_TRUE(identical(run(loaded(bytes)), run(compiled(load()))));
  // Lowering again restores the weights.
  const auto ref = [](std::unique_ptr<Program> program) {
    return compile(std::move(program), {.target = find_target("ref")});
  };
  EXPECT_TRUE(identical(run(ref(opened(bytes)->program(kMainProgram))), run(ref(load()))));
}

TEST(CompiledFile, RunsOnAnotherProcessor) {
  if (cpu::best_isa() == cpu::Isa::avx2) {
    GTEST_SKIP() << "this processor has avx2 alone: its files name no other";
  }
  const std::string bytes = saved(*compiled(network(128)));
  const IsaLimit limit(cpu::Isa::avx2);
  const auto plan = loaded(bytes);
  EXPECT_EQ(lowered_source(*plan->source), nullptr);  // lowered again
  EXPECT_TRUE(results_of(plan) == results_of(compiled(network(128))));
}

TEST(CompiledFile, RunsOnAnotherTarget) {
  const std::string bytes = saved(*compiled(network(128)));
  const auto plan = compile(opened(bytes)->program(kMainProgram), {.target = find_target("ref")});
  const auto other = compile(network(128), {.target = find_target("ref")});
  EXPECT_TRUE(results_of(plan) == results_of(other));
}

TEST(CompiledFile, KeepsItsTextAndIsSavedAgainTheSame) {
  const std::string bytes = saved(*compiled(network(128)));
  const auto file = opened(bytes);
  const std::unique_ptr<Program> program = file->program(kMainProgram);
  EXPECT_EQ(print(*program, {.inline_bytes = kTextLiteralBytes}),
            file->container().read("lowered/main"));
  EXPECT_EQ(compiled_source(*program)->target(), "cpu");
  EXPECT_TRUE(saved(*loaded(bytes)) == bytes);
}

TEST(CompiledFile, SharesAnOpenFileOfEqualContent) {
  const std::string bytes = saved(*compiled(network(5)));
  const std::string copy = bytes;
  EXPECT_EQ(opened(bytes), opened(copy));
}

TEST(CompiledFile, ADamagedFileThatStaysOpenDoesNotHideItsRepairedCopy) {
  const auto plan = compiled(network(12800));
  const std::string bytes = saved(*plan);
  std::string damaged = bytes;
  const Container container("net.lathe", bytes, nullptr);
  const Container::Section weights = container.find("weights");
  ASSERT_GT(weights.bytes, kContainerBlock);  // opening reads the first block
  damaged[weights.offset + weights.bytes - 100] ^= 16;
  const auto open = opened(damaged);
  EXPECT_THROW(results_of(compiled(open->program(kMainProgram))), Error);
  EXPECT_NE(opened(bytes), open);
  EXPECT_TRUE(results_of(loaded(bytes)) == results_of(plan));
}

// The file with another index; its checksums are right.
std::string with_index(const std::string& bytes, const std::function<void(nlohmann::json&)>& edit) {
  const Container container("net.lathe", bytes, nullptr);
  std::string out;
  ContainerWriter writer([&](std::string_view part) { out += part; });
  for (const auto& [name, section] : container.sections()) {
    writer.begin(name, name == "weights" ? 4096 : 64);
    std::string text(container.read(name));
    if (name == "index") {
      nlohmann::json index = nlohmann::json::parse(text);
      edit(index);
      text = index.dump();
    }
    writer.write(text);
  }
  writer.finish();
  return out;
}

TEST(CompiledFile, RefusesConstantsAtOddOffsets) {
  const std::string bytes = saved(*compiled(network(640)));
  EXPECT_TRUE(results_of(loaded(with_index(bytes, [](nlohmann::json&) {}))) ==
              results_of(compiled(network(640))));
  const std::string odd = with_index(bytes, [](nlohmann::json& index) {
    for (nlohmann::json& constant : index["constants"]) {
      if (constant.contains("at")) constant["at"] = constant["at"].get<uint64_t>() - 1;
    }
  });
  const std::string found = error_of([&] { opened(odd); });
  EXPECT_TRUE(found.find("that is not a multiple of 64") != std::string::npos) << found;
}

TEST(CompiledFile, RefusesDefaultsThatDoNotFitTheirInputs) {
  auto program = network(128);
  auto model = std::make_shared<ModelInfo>();
  model->defaults.push_back({"i", ElementType::i64, {4}, Tensor(ElementType::i64, {4})});
  program->model = model;
  const std::string bytes = saved(*compiled(std::move(program)));
  EXPECT_EQ(error_of([&] { loaded(bytes); }), "no error");
  const auto changed = [&](const char* key, const nlohmann::json& value) {
    return with_index(bytes, [&](nlohmann::json& index) {
      index["programs"][0]["model"]["defaults"][0][key] = value;
    });
  };
  for (const std::string& hostile :
       {changed("type", "f32"), changed("dims", {4, 1}), changed("dims", {5}), changed("name", "x"),
        changed("name", "p")}) {
    const std::string found = error_of([&] { loaded(hostile); });
    EXPECT_TRUE(found.starts_with("InvalidModel: 'net.lathe' has the default")) << found;
  }
}

TEST(CompiledFile, OpensUnalignedBytes) {
  const auto plan = compiled(network(128));
  const std::string bytes = " " + saved(*plan);
  const auto file = CompiledFile::open("net.lathe", std::string_view(bytes).substr(1), nullptr);
  EXPECT_TRUE(results_of(compiled(file->program(kMainProgram))) == results_of(plan));
}

// "" for the same results, else the error.
std::string outcome(const std::string& bytes, const std::string& expected) {
  try {
    return results_of(loaded(bytes)) == expected ? "" : "other results";
  } catch (const Error& error) {
    return error.kind() == ErrorKind::invalid_model || error.kind() == ErrorKind::unsupported
               ? "error"
               : error.what();
  }
}

TEST(CompiledFile, FindsFlippedBytesAndCuts) {
  const auto plan = compiled(network(3));
  const std::string bytes = saved(*plan), expected = results_of(plan);
  ASSERT_EQ(outcome(bytes, expected), "");
  // Under sanitizers, which are slow, every seventh byte. The flipped bit differs between bytes.
  constexpr size_t kStep = test::kSanitized ? 7 : 1;
  for (size_t i = 0; i < bytes.size(); i += kStep) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    const std::string found = outcome(damaged, expected);
    ASSERT_TRUE(found.empty() || found == "error") << "byte " << i << ": " << found;
  }
  for (size_t size = 0; size < bytes.size(); size += kStep) {
    ASSERT_EQ(outcome(bytes.substr(0, size), expected), "error") << size << " bytes";
  }
}

TEST(CompiledFile, FindsFlippedBytesOfMappedWeights) {
  const auto plan = compiled(network(128));
  const std::string bytes = saved(*plan), expected = results_of(plan);
  const Container container("net.lathe", bytes, nullptr);
  const Container::Section weights = container.find("weights");
  for (uint64_t i = 0; i < weights.bytes; i += weights.bytes / 50) {
    std::string damaged = bytes;
    damaged[weights.offset + i] ^= 16;
    ASSERT_EQ(outcome(damaged, expected), "error") << "byte " << i;
    const IsaLimit limit(cpu::Isa::avx2);
    const std::string found = error_of([&] { results_of(loaded(damaged)); });
    ASSERT_TRUE(found.starts_with("InvalidModel: 'net.lathe' is damaged")) << found;
  }
}

}  // namespace
}  // namespace lathe
#endif
