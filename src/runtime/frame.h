// SPDX-License-Identifier: MIT
// Scratch of one module of a plan: resolved slots and launches, arenas. Runs reuse it, so a run
// within known capacities does not allocate, and one with the shapes of the last keeps its views.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/arena.h"
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

// Memory of results that the plan does not place, and boxes, for the kernel of one launch.
class LaunchMemory final : public HostMemory {
 public:
  LaunchMemory(Frame& frame, const Launch& launch)
      : frame_(frame), launch_(launch), boxed_(launch.operands.size()) {}
  const TensorView& result(int i, std::span<const int64_t> dims) override;
  const Box& box(int i) override;
  void set_box(int i, Box box) override;
  void start() {  // before each launch
    if (used_) clear();
  }

 private:
  Frame& frame_;
  const Launch& launch_;
  void clear();
  std::vector<Box> boxed_;  // tensor operands of ops that require boxes
  bool used_ = false;
};

class Frame {
 public:
  Frame(const Plan& plan, int module, RunContext& run_context);

  // Enqueues a run, and waits for what the host reads in between. Until the stream has passed it,
  // results are not there.
  void start(std::span<const Argument> arguments, Receiver& receiver);
  // Runs a body to its end.
  void run(std::span<const Argument> arguments, Receiver& receiver);
  // Hands over what results in boxes; the stream has passed the run.
  void finish(Receiver& receiver);

  // Drops the boxes of the last run, in all frames: they belong to its session.
  void drop_boxes();

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
  std::optional<int64_t> known_extent(SlotId id, size_t axis);
  int64_t dim(DimId id) const { return dims_[static_cast<size_t>(id)]; }

 private:
  // A launch with pointers to its views.
  struct Step {
    const Launch* launch = nullptr;
    const Kernel* kernel = nullptr;
    LaunchArgs args;
    bool allocates = false;  // results in boxes of known shape
    bool updates = false;    // results are the next versions of operands
    bool viewed = false;     // the view of the last run
  };
  // What one segment needs in one space.
  struct Placement {
    size_t segment = 0;
    Space space = Space::host;
    std::vector<SlotId> slots;    // of the plan's shapes
    std::vector<SlotId> found;    // results of found shapes
    std::vector<int> views;       // launches whose results are copies where no view is possible
    std::vector<int> workspaces;  // launches with scratch memory
    std::vector<SlotId> sharing;  // slots in the memory of others
    std::vector<SlotId> placed;   // of the current layout
    // LRU cache of layouts by what determines them.
    struct Cached {
      std::vector<int64_t> key;
      std::vector<LayoutItem> items;
      Layout layout;
      int64_t used = 0;
    };
    std::vector<Cached> layouts;
  };
  // The dims of a segment where device kernels read them.
  struct RunBlock {
    explicit RunBlock(Allocator& allocator) : memory(allocator) {}
    GrowingBuffer memory;
    std::vector<int64_t> staging;  // on the host, while it is copied
  };

  // Consecutive launches that need nothing of the host and of callers: recorded by the stream when
  // they recur with the same shapes and addresses, then replayed.
  struct Replay {
    struct Recorded {
      std::vector<int64_t> seen;  // what the launches saw
      std::shared_ptr<Stream> stream;
      std::unique_ptr<Capture> capture;
      int64_t used = 0;
    };
    int first = 0;
    int last = 0;  // one past the end
    bool refused = false;
    std::vector<int64_t> seen;  // of the last run
    std::vector<Recorded> recorded;
  };

  void resolve_launches();
  void find_replays();
  bool may_replay(const Launch& launch) const;
  void run_launches(int first, int last);
  void run_replay(Replay& replay);
  void see(const Replay& replay, std::vector<int64_t>& seen) const;
  bool record(Replay& replay);
  void run_kernels(const Replay& replay);
  static std::unique_ptr<ViewRequest> make_request(const Launch& launch);
  void bind(std::span<const Argument> arguments);
  void bind_input_dim(const InputDim& input);
  void start_segment(size_t index);
  bool same_symbols(const Segment& segment, std::vector<int64_t>& last) const;
  int64_t required_value(DimId id);  // InvalidArgument if a symbol is unknown
  void check_guard(const PlannedGuard& guard);
  void shape_slot(SlotId id);
  void receive_output(SlotId id);
  void add_placements(size_t segment);
  void add_run_block(size_t segment);
  void resolve_views(const Placement& placement);
  void choose_slots(Placement& placement);
  void place(Placement& placement);
  void upload_dims(size_t segment);
  void find_lifetimes(size_t segment);
  void find_key(const Placement& placement);
  const Placement::Cached& layout_for(Placement& placement);
  // The items for capacities (nullopt: without a bound) or, with `actual`, for this run.
  std::optional<std::vector<LayoutItem>> layout_items(const Placement& placement,
                                                      bool actual) const;
  std::optional<int64_t> workspace_of(const Step& step, bool actual) const;
  // Largest size of a found result; nullopt if it is unknown or out of proportion.
  std::optional<int64_t> found_bytes(SlotId id) const;
  std::optional<TensorView> largest(SlotId id, bool actual) const;
  void launch(size_t index);
  void run_kernel(Step& step);
  bool updates_state(const Launch& launch) const;
  void continue_versions(const Launch& launch);
  void allocate_results(const Launch& launch);
  void set_known(Step& step);
  void make_views(Step& step);
  void prepare_view(Step& step);
  void launch_view(Step& step);
  bool try_view(const Launch& launch, size_t result);
  void launch_state(Step& step);
  void launch_copy(Step& step);
  void bind_found(const Launch& launch);
  void bind_stream();

  const Plan& plan_;
  const ModulePlan& planned_;
  RunContext& run_context_;
  std::vector<TensorView> views_;
  std::vector<Box> boxes_;
  std::vector<SlotId> dropped_;  // slots whose boxes a run sets
  std::vector<int64_t> dims_;    // registers of the plan's dim program
  std::vector<Step> steps_;      // per launch
  std::vector<std::unique_ptr<LaunchMemory>> memory_;
  std::vector<const TensorView*> operand_pointers_;
  std::vector<TensorView*> result_pointers_;
  std::array<std::unique_ptr<Arena>, 2> arenas_;  // by space; null without slots there
  std::vector<Placement> placements_;
  std::vector<void*> placed_;  // per slot: memory of copied views and found results
  std::vector<int64_t> placed_bytes_;
  std::vector<std::vector<int64_t>> last_symbols_;      // per segment, of the last run
  std::vector<std::unique_ptr<RunBlock>> run_blocks_;   // per segment; empty without a device
  std::vector<std::unique_ptr<Event>> events_;          // per launch; null unless it records
  std::vector<std::span<const int32_t>> operand_dims_;  // of launches
  std::vector<std::span<const int32_t>> result_dims_;
  std::vector<GrowingBuffer> late_;
  std::vector<int> late_index_;                                // per slot
  std::vector<std::vector<std::unique_ptr<Frame>>> children_;  // per launch, per body
  std::vector<std::unique_ptr<ViewRequest>> requests_;         // per launch
  std::vector<Replay> replays_;                                // in order of their launches
  std::vector<int64_t> seen_;  // by the launches of a replay in this run
  std::vector<int64_t> key_;
  std::vector<int> last_;  // per slot
  bool same_ = false;      // so far, this run has the shapes of the last
  bool complete_ = false;  // the last run ended without an error
  Receiver* receiver_ = nullptr;
  const Stream* stream_ = nullptr;  // of the steps
  std::vector<bool> received_;
  int64_t clock_ = 0;
};

}  // namespace lathe
