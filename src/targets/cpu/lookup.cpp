// SPDX-License-Identifier: MIT
#include "targets/cpu/lookup.h"

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/support/indices.h"
#include "targets/cpu/gemm.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {

int64_t Lookup::workspace_bytes(const LaunchArgs& most) const {
  ScratchLayout workspace;
  reserve_copy(most.out[0], workspace);
  return workspace.bytes();
}

void Lookup::launch(const LaunchArgs& args) const {
  constexpr int64_t kGrain = 4;  // rows
  ScratchLayout workspace = workspace_of(args);
  const DenseResult y(*args.out[0], workspace);
  const TensorView& given = *args.in[static_cast<size_t>(indices_)];
  const ScratchArray<int64_t> indices(given.count());
  load_values(given, 0, indices);
  for (int64_t& index : indices) {
    origin_.check(index >= -rows_ && index < rows_, "index {} is out of range for {}", index,
                  range_);
    if (index < 0) index += rows_;
  }
  auto* to = y.view().as<std::byte>();
  parallel_for(args.pool, static_cast<int64_t>(indices.size()), kGrain,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   read_row(indices[static_cast<size_t>(i)], to + i * row_bytes_);
                 }
               });
  y.finish();
}

namespace {

enum Operand : size_t { kTable, kIndices };

class PanelLookup final : public Lookup {
 public:
  PanelLookup(const Instruction& gather, const LookedUpPanels& panels, const Dims& dims, Isa isa)
      : Lookup(gather, kIndices, dims[0], bytes_for(element_of(gather, kTable), dims[1]),
               fmt::format("an axis of size {}", dims[0])),
        first_(panels.first),
        packed_(panels.source, isa) {}
  std::string_view name() const override { return "cpu.gather"; }
  std::string detail() const override { return "rows of packed weights"; }

 private:
  void read_row(int64_t row, std::byte* to) const override {
    packed_.read_column(first_ + row, to);
  }

  int64_t first_;  // column of the table's first row
  PackedMatrix packed_;
};

}  // namespace

std::unique_ptr<const Kernel> make_panel_lookup(const Instruction& gather, Isa isa) {
  const std::optional<LookedUpPanels> panels = looked_up_panels(gather);
  if (!panels) return nullptr;
  const Dims& dims = gather.operands()[kTable]->definition()->literal()->tensor.dims();
  return std::make_unique<PanelLookup>(gather, *panels, dims, isa);
}

}  // namespace lathe::cpu
