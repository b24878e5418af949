// SPDX-License-Identifier: MIT
// Scratch of one module of a plan: resolved slots, launch contexts, arenas. Runs reuse it, so a
// run within known capacities does not allocate.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/arena_layout.h"
#include "plan/plan.h"
#include "runtime/memory.h"
#include "runtime/run_context.h"

namespace lathe {

class Frame;

// An input of a module run: a tensor, or a box where `box` is set.
struct Argument {
  TensorView view;
  const Box* box = nullptr;
};

// Receives the results of a module run. `receive` is called once per tensor result with its shape
// and returns the memory to write it to; `receive_box` receives other results.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual TensorView receive(int index, ElementType type, std::span<const int64_t> dims) = 0;
  virtual void receive_box(int index, Box box) = 0;
};

// One launch's operands and results, resolved.
class LaunchContext final : public Evaluation, public Work {
 public:
  LaunchContext(Frame& frame, const Launch& launch);
  void prepare();           // on the host, before enqueueing
  void execute() override;  // on the queue
  using Evaluation::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override;
  const Box& box(int i) const override;
  void set_box(int i, Box box) override;

 private:
  friend class Frame;
  Frame& frame_;
  const Launch& launch_;
  mutable std::vector<Box> boxed_;  // tensor operands of ops that require boxes
};

class Frame {
 public:
  Frame(const Plan& plan, int module, RunContext& run_context);

  void run(std::span<const Argument> arguments, Receiver& receiver);

  // For launch contexts and control flow.
  const Plan& plan() const { return plan_; }
  RunContext& run_context() const { return run_context_; }
  const Slot& slot(SlotId id) const { return planned_.slots[static_cast<size_t>(id)]; }
  TensorView& view(SlotId id) { return views_[static_cast<size_t>(id)]; }
  Box& box(SlotId id) { return boxes_[static_cast<size_t>(id)]; }
  Argument argument(SlotId id);
  Frame& child(const Launch& launch, int body);
  // Memory of a result of shape `dims`: its planned offset if the shape was known, else separate
  // memory or the caller's.
  TensorView result_memory(SlotId id, std::span<const int64_t> dims);
  // Size of an axis of a ranked slot; nullopt if it depends on an unknown symbol.
  std::optional<int64_t> known_extent(SlotId id, size_t axis) const;
  int64_t dim(DimId id) const { return dims_[static_cast<size_t>(id)]; }

 private:
  struct Arena {
    explicit Arena(Allocator& allocator) : memory(allocator) {}
    GrowingBuffer memory;
    // LRU cache of layouts by the capacities of the segment's symbols.
    struct Cached {
      std::vector<int64_t> capacities;
      Layout layout;
      int64_t used = 0;
    };
    std::vector<Cached> layouts;
    std::vector<SlotId> slots;
  };

  void bind(std::span<const Argument> arguments);
  void bind_input_dim(const InputDim& input);
  void start_segment(size_t index);
  std::optional<int64_t> value_of(const PlannedDim& planned) const;
  int64_t required_value(DimId id) const;  // InvalidArgument if a symbol is unknown
  void evaluate_dim(DimId id);
  void check_guard(const PlannedGuard& guard) const;
  void shape_slot(SlotId id);
  void place_segment(size_t index);
  const Layout& layout_for(size_t index);
  void launch(size_t index);
  void launch_view(const Launch& launch, LaunchContext& context);
  bool try_view(const Launch& launch, size_t result);
  void launch_state(const Launch& launch, LaunchContext& context);
  void launch_copy(const Launch& launch, LaunchContext& context);
  void bind_found(const Launch& launch);
  void finish(Receiver& receiver);

  const Plan& plan_;
  const ModulePlan& planned_;
  RunContext& run_context_;
  std::vector<TensorView> views_;
  std::vector<Box> boxes_;
  std::vector<int64_t> dims_;  // per DimId of the plan
  std::vector<std::unique_ptr<LaunchContext>> contexts_;
  std::vector<Arena> arenas_;  // per segment
  std::vector<GrowingBuffer> late_;
  std::vector<int> late_index_;                                // per slot
  std::vector<std::vector<std::unique_ptr<Frame>>> children_;  // per launch, per body
  std::vector<std::unique_ptr<ViewRequest>> requests_;         // per launch
  std::vector<int64_t> capacities_;
  Receiver* receiver_ = nullptr;
  std::vector<bool> received_;
  int64_t clock_ = 0;
};

}  // namespace lathe
