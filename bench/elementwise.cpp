// SPDX-License-Identifier: MIT
// All generated kernels of models beside CompiledExpr, on one thread: elementwise regions, rows,
// casts and epilogues on tiles, each in the forms that a run of the model takes. Operands have
// 256 KiB in all: with those of CompiledExpr, half an L2 cache of 1 MiB. Prints the time of each in
// us, their ratio, the time of its generation and whether bits are equal; --compute=bf16 compiles
// for bf16.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "bench/referee.h"
#include "import/load_model.h"
#include "runtime/session.h"
#include "runtime/sizes.h"
#include "targets/compile.h"
#include "targets/cpu/kernel_variants.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int64_t kColumns = 768, kBytes = 256 * 1024;

template <class F>
double microseconds(F&& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// One form of a kernel, in memory.
class Measured {
 public:
  Measured(codegen::KernelDescription kernel, int64_t columns)
      : kernel_(std::move(kernel)), referee_(kernel_), columns_(columns) {
    const auto stores = [&](size_t operand, const codegen::Phase& phase) {
      return std::ranges::any_of(phase.stores, [&](const codegen::Store& store) {
        return static_cast<size_t>(store.operand) == operand;
      });
    };
    int64_t bytes = 0;
    for (size_t i = 0; i < kernel_.operands.size(); ++i) {
      const bool kept = std::any_of(kernel_.phases.begin(), kernel_.phases.end() - 1,
                                    [&](const codegen::Phase& phase) { return stores(i, phase); });
      is_temporary_.push_back(kept);
      if (!kept && !kernel_.operands[i].one_per_row) bytes += size_of(i);
    }
    rows_ = std::max<int64_t>(kBytes / bytes / columns_, 1);
    // As production calls it: temporary rows stay in the L1 cache.
    constexpr int64_t kMaxRows = 8, kTemporaries = 4096;
    call_rows_ = reduces() ? std::clamp<int64_t>(kTemporaries / columns_, 1, kMaxRows) : rows_;
    std::mt19937 random(1);
    for (size_t i = 0; i < kernel_.operands.size(); ++i) {
      const int64_t rows = is_temporary_[i] ? call_rows_ : rows_;
      const Dims dims = kernel_.operands[i].one_per_row ? Dims{} : Dims{rows, columns_};
      for (auto* memory : {&own_, &others_}) memory->emplace_back(kernel_.operands[i].type, dims);
      fill(own_.back(), others_.back(), random);
    }
    scalars_.resize(static_cast<size_t>(call_rows_ * codegen::kMaxScalars));
  }

  struct Times {
    double own = 1e30, referee = 1e30, generation = 1e30;
    bool equal = false;
  };
  Times measure() {
    Times times;
    const auto isa =
        codegen::host_supports(codegen::Isa::avx512) ? codegen::Isa::avx512 : codegen::Isa::avx2;
    std::unique_ptr<const codegen::GeneratedKernel> kernel;
    constexpr int kGenerations = 20, kRuns = 30;
    for (int i = 0; i < kGenerations; ++i) {
      times.generation = std::min(times.generation,
                                  microseconds([&] { kernel = codegen::generate(kernel_, isa); }));
    }
    check(kernel != nullptr, ErrorKind::internal, "{} is refused", "code");
    for (int i = 0; i < kRuns; ++i) {
      const auto run = [&](auto& runner) {
        return [&] {
          for (int64_t row = 0; row < rows_; row += call_rows_) {
            const bool own = static_cast<const void*>(&runner) == kernel.get();
            codegen::KernelCall call = this->call(own ? own_ : others_, row);
            runner.run(call);
          }
        };
      };
      times.own = std::min(times.own, microseconds(run(*kernel)));
      times.referee = std::min(times.referee, microseconds(run(referee_)));
    }
    times.equal = equal(own_.back(), others_.back());
    return times;
  }

 private:
  int64_t size_of(size_t operand) const { return info(kernel_.operands[operand].type).bits / 8; }
  bool reduces() const {
    return std::ranges::any_of(
        kernel_.phases, [](const codegen::Phase& phase) { return !phase.reductions.empty(); });
  }

  void fill(const Tensor& tensor, const Tensor& other, std::mt19937& random) const {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double value = is_floating(tensor.type())
                               ? static_cast<double>(random() % 4001) / 500 - 4
                               : static_cast<double>(random() % 100);
      store_double(tensor.type(), tensor.data(), i, std::abs(value) < 0.01 ? 1 : value);
    }
    std::memcpy(other.data(), tensor.data(), static_cast<size_t>(tensor.byte_size()));
  }

  codegen::KernelCall call(const std::vector<Tensor>& memory, int64_t row) {
    codegen::KernelCall call{.rows = std::min(call_rows_, rows_ - row), .columns = columns_};
    for (size_t i = 0; i < memory.size(); ++i) {
      const int64_t stride = kernel_.operands[i].one_per_row ? 0 : columns_ * size_of(i);
      const int64_t first = is_temporary_[i] ? 0 : row;
      call.operands[i] = {static_cast<std::byte*>(memory[i].data()) + first * stride, stride};
    }
    call.scalars = scalars_.data();
    return call;
  }

  // Any NaN equals any other.
  static bool equal(const Tensor& a, const Tensor& b) {
    const int64_t bytes = info(a.type()).bits / 8;
    for (int64_t i = 0; i < a.count(); ++i) {
      const auto *p = a.as<std::byte>() + i * bytes, *q = b.as<std::byte>() + i * bytes;
      if (std::memcmp(p, q, static_cast<size_t>(bytes)) == 0) continue;
      if (!is_floating(a.type()) || !std::isnan(load_double(a.type(), p, 0)) ||
          !std::isnan(load_double(b.type(), q, 0))) {
        return false;
      }
    }
    return true;
  }

  codegen::KernelDescription kernel_;
  bench::Referee referee_;
  int64_t columns_, rows_ = 1, call_rows_ = 1;
  std::vector<bool> is_temporary_;
  std::vector<Tensor> own_, others_;
  std::vector<float> scalars_;
};

// A kernel of the plan: who launches it.
struct Launched {
  std::string name;
  int64_t columns = kColumns;
  int times = 0;
};

std::vector<Box> zeros_for(const Program& program) {
  const std::map<std::string, int64_t> sizes = choose_sizes(program, {}, {});
  std::vector<Box> inputs;
  for (const auto& input : program.main().parameters()) {
    Dims dims;
    for (const Dim& dim : *input->type().dims) {
      dims.push_back(*dim.evaluate(
          [&](const Symbol& symbol) -> std::optional<int64_t> { return sizes.at(symbol.name); }));
    }
    Tensor tensor(input->type().element, dims);
    std::memset(tensor.data(), 0, static_cast<size_t>(tensor.byte_size()));
    inputs.emplace_back(std::move(tensor));
  }
  return inputs;
}

class Bench {
 public:
  explicit Bench(Compute compute) : compute_(compute) {}

  void measure(const std::string& path) {
    std::map<const cpu::KernelVariants*, Launched> found;
    CompileOptions options{.target = find_target("cpu"), .compute = compute_};
    options.watch_kernels = [&](const Instruction& instruction, KernelChoice choice) {
      if (choice.kernel != nullptr) note(instruction, *choice.kernel, found);
      return choice;
    };
    auto program = load_model(path);
    const std::vector<Box> inputs = zeros_for(*program);
    const auto plan = compile(std::move(program), options);
    Session(plan).run(inputs);
    fmt::print("{}\n   n generated CompiledExpr  ratio compile us bits  kernel\n", path);
    double compile_us = 0;
    for (const auto& kernel : cpu::KernelVariants::all()) {
      const Launched& launched = found[kernel.get()];
      for (const uint32_t form : kernel->found()) {
        codegen::KernelDescription own = kernel->description();
        for (size_t i = 0; i < own.operands.size(); ++i) {
          own.operands[i].one_per_row = (form >> i & 1) != 0;
        }
        const Measured::Times times = Measured(std::move(own), launched.columns).measure();
        const double ratio = times.referee / times.own;
        fmt::print("{:4} {:9.1f} {:12.1f} {:6.2f} {:10.0f} {:5} {}\n", launched.times, times.own,
                   times.referee, ratio, times.generation, times.equal ? "equal" : "OTHER",
                   launched.name);
        compile_us += times.generation;
        ratios_.push_back(ratio);
        different_ += times.equal ? 0 : 1;
      }
    }
    fmt::print("all code of the graph: {:.2f} ms\n", compile_us / 1e3);
  }

  void print_summary() {
    if (ratios_.empty()) return;
    std::ranges::sort(ratios_);
    const auto below = std::ranges::lower_bound(ratios_, 2.0) - ratios_.begin();
    fmt::print("{} kernels: ratio {:.2f} at least, {:.2f} median, {} below 2; {} with other bits\n",
               ratios_.size(), ratios_.front(), ratios_[ratios_.size() / 2], below, different_);
  }

 private:
  // Kernels with equal code share it: later ones count by their names.
  static void note(const Instruction& instruction, const Kernel& kernel,
                   std::map<const cpu::KernelVariants*, Launched>& found) {
    if (kernel.detail().find("generated") == std::string::npos) return;
    for (const auto& variants : cpu::KernelVariants::all()) {
      const auto [at, added] = found.try_emplace(variants.get());
      Launched& own = at->second;
      if (added) {
        own.name = kernel.name();
        const Type& type = instruction.result()->type();
        if (type.rank() > 0) own.columns = type.dims->back().constant().value_or(kColumns);
        const bool reduces = std::ranges::any_of(
            variants->description().phases,
            [](const codegen::Phase& phase) { return !phase.reductions.empty(); });
        if (!reduces) own.columns = kColumns;
      }
      own.times += own.name == kernel.name() ? 1 : 0;
    }
  }

  Compute compute_;
  std::vector<double> ratios_;
  int different_ = 0;
};

}  // namespace
}  // namespace lathe

int main(int count, char** arguments) {
  using lathe::Compute;
  const std::vector<std::string> all(arguments + 1, arguments + count);
  const bool narrow = !all.empty() && all[0] == "--compute=bf16";
  lathe::Bench bench(narrow ? Compute::bf16 : Compute::as_model);
  const std::vector<std::string> models(all.begin() + (narrow ? 1 : 0), all.end());
  if (models.empty()) bench.measure("examples/digits/digits.onnx");
  for (const std::string& model : models) bench.measure(model);
  bench.print_summary();
  return 0;
}
