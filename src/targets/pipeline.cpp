// SPDX-License-Identifier: MIT
#include "targets/pipeline.h"

#include "base/error.h"
#include "passes/cut_regions.h"
#include "passes/decoder/join_attention_products.h"
#include "passes/decoder/join_packed_products.h"
#include "passes/decoder/split_skip_norms.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"
#include "passes/fold_constants.h"
#include "passes/fold_scales.h"
#include "passes/fuse_regions.h"
#include "passes/join_lookups.h"
#include "passes/join_products.h"
#include "passes/lower_composites.h"
#include "passes/narrow_rounded.h"
#include "passes/raise_attention.h"
#include "passes/raise_composites.h"
#include "passes/raise_normalizations.h"
#include "passes/raise_quantized.h"
#include "passes/raise_rotary_embedding.h"
#include "passes/retype.h"
#include "passes/simplify_algebra.h"
#include "passes/simplify_positions.h"
#include "passes/simplify_transposes.h"
#include "passes/sink_literals.h"
#include "passes/turn_weights.h"
#include "plan/packing_source.h"
#include "targets/gpu_library.h"
#include "targets/sim/target.h"

namespace lathe {

Pass place_for(const std::shared_ptr<const Target>& target, Boundary boundary) {
  return place([target](const Instruction& i) { return target->supports(i); },
               [target](const Instruction& i) -> std::string {
                 // The simulated device has the bits of the reference, on the host too.
                 const bool is_sim = dynamic_cast<const SimTarget*>(target.get()) != nullptr;
                 const auto cpu = present_target("cpu");
                 const bool better = cpu != nullptr && !is_sim && target->name() != "cpu" &&
                                     target->device() != nullptr && i.op().expand == nullptr;
                 return better && cpu->supports(i).empty() ? "cpu" : "ref";
               },
               target->device() != nullptr, boundary);
}

namespace {

FusionRules fusion_rules(const std::shared_ptr<const Target>& target) {
  return {
      .epilogue = [target](const Instruction& anchor, const Instruction& next,
                           int operand) { return target->why_no_epilogue(anchor, next, operand); },
      .elementwise = [target](const Instruction& i) { return target->why_not_fused(i); },
      .row_op = [target](const Instruction& i) { return target->why_no_rows(i); }};
}

}  // namespace

Pipeline make_pipeline(const std::shared_ptr<const Target>& target, Compute compute,
                       Boundary boundary, const std::shared_ptr<Tuning>& tuning) {
  const auto expands = [target](const Instruction& i) { return target->expands(i); };
  std::vector<Pass> canonical = {sink_literals,      raise_quantized,      fold_constants,
                                 simplify_positions, raise_normalizations, raise_composites,
                                 raise_attention};
  // On GPUs it is elementwise.
  if (!is_gpu_target(target->name())) canonical.push_back(raise_rotary_embedding);
  std::vector<Pass> optimised = {simplify_transposes, simplify_algebra, fold_scales,
                                 eliminate_common_subexpressions, join_products};
  if (target->name() == "cpu") optimised.insert(optimised.begin(), join_lookups);
  const auto accepts = [target](const Instruction& i) {
    return i.op().expand != nullptr || i.op().map || target->supports(i).empty();
  };
  if (target->widens_f16()) optimised.push_back(widen_f16(accepts));
  const bool narrow = compute == Compute::f16 || compute == Compute::bf16;
  if (narrow && is_gpu_target(target->name())) {
    const ElementType type = compute == Compute::f16 ? ElementType::f16 : ElementType::bf16;
    optimised.push_back(narrow_floats(type, accepts));
  } else {
    check(compute != Compute::f16, ErrorKind::invalid_argument,
          "compute is 'f16', which {} does not compute in: use f32 or bf16, or a GPU",
          target->name());
    if (compute == Compute::bf16) optimised.push_back(narrow_convolutions(accepts));
    if (compute != Compute::as_model) optimised.push_back(set_compute_type(compute));
    if (compute == Compute::bf16) optimised.push_back(narrow_rounded);
  }
  if (is_gpu_target(target->name())) {
    optimised.insert(optimised.end(), {join_attention_products, split_skip_norms, turn_weights});
  } else if (const auto* packing = dynamic_cast<const PackingSource*>(target.get())) {
    optimised.push_back(join_packed_products([target, packing](const Instruction& product) {
      constexpr int kWeights = 1;
      return packing->packs_source(product, kWeights);
    }));
  }
  const Pass fuse = fuse_regions(fusion_rules(target)), lower = lower_composites(expands);
  ChooseForm choose_form;
  SymbolSizes sizes;
  if (tuning != nullptr && target->name() == "cpu") {
    choose_form = [tuning](const RegionForms& found) {
      return tuning->form(found.region, found.forms, found.bytes);
    };
    sizes = tuning->sizes();
  }
  const Pass cut = cut_regions([target](const Instruction& i) { return target->supports(i); },
                               std::move(choose_form), sizes);
  return {
      .stages =
          {
              {Stage::canonical, std::move(canonical)},
              {Stage::optimised, std::move(optimised)},
              {Stage::fused, {fuse}},
              {Stage::lowered,
               // What expansions consist of is fused too; the target may refuse a region.
               {lower, fold_constants, fuse, cut, lower, place_for(target, boundary),
                choose_layouts([target](const Instruction& i) { return target->layout_use(i); })}},
          },
      .cleanup = eliminate_dead_code,
  };
}

}  // namespace lathe
