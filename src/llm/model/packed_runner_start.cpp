// SPDX-License-Identifier: MIT
// Steps that are enqueued without waiting for them.
#include <algorithm>

#include "base/error.h"
#include "llm/model/packed_runner.h"
#include "plan/device_copies.h"

namespace lathe::llm {
namespace {

class LogitsReceiver final : public Receiver {
 public:
  // `memory` is reused if it fits.
  LogitsReceiver(const Device& device, Tensor memory)
      : device_(device), memory_(std::move(memory)) {}
  TensorView receive(int /*index*/, ElementType type, std::span<const int64_t> dims) override {
    const bool fits = memory_.data() != nullptr && memory_.type() == type &&
                      std::ranges::equal(memory_.dims(), dims) && held_alone(memory_);
    if (!fits) memory_ = make_tensor(device_, type, Dims(dims.begin(), dims.end()));
    return memory_.view();
  }
  void receive_box(int index, Box /*box*/) override {
    fail(ErrorKind::internal, "result {} of a step has no plain memory", index);
  }
  Tensor take() { return std::move(memory_); }

 private:
  const Device& device_;
  Tensor memory_;
};

}  // namespace

class PackedRunner::Started final : public StartedStep {
 public:
  Started(const PackedRunner& runner, std::span<const StepRequest> requests,
          std::shared_ptr<StartedMemory> memory, std::shared_ptr<Lane> lane)
      : runner_(runner),
        requests_(requests.begin(), requests.end()),
        lane_(std::move(lane)),
        memory_(std::move(memory)),
        step_(*runner.layout_, memory_->scratch.tables) {}
  ~Started() override = default;
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  // `before`: brings the tokens; null: the requests have them.
  bool start(std::span<const ChoiceRequest> choices, const Started* before) {
    const Plan& plan = runner_.plan();
    const Device& device = *plan.device;
    StartedMemory& memory = *memory_;
    Scratch& scratch = memory.scratch;
    runner_.gather_tokens(requests_, scratch, step_);
    step_.prepare();
    runner_.fill_inputs(scratch, step_, nullptr);
    memory.arguments.resize(scratch.inputs.size());
    for (size_t i = 0; i < scratch.inputs.size(); ++i) {
      memory.arguments[i] = {scratch.inputs[i].tensor().view(), nullptr};
      if (before != nullptr && runner_.inputs_[i].kind == Input::Kind::tokens) {
        memory.arguments[i].view.data = before->memory_->next.data();
      }
    }
    if (before != nullptr) before_ = before->memory_;
    scratch.memory = runner_.memory_;
    for (size_t i = 0; i < scratch.memory.size(); ++i) {
      scratch.memory[i].dims[0] = step_.pages(*runner_.places_[i]);
    }
    RunOptions run;
    run.pages = scratch.memory;
    receiver_.emplace(device, memory.logits.device() == &device ? memory.logits.take() : Tensor());
    run_ = runner_.session_->start(memory.arguments, *receiver_, run, lane_->stream);
    if (run_ == nullptr) return false;
    memory.logits.set(receiver_->take(), &device);
    const ElementType type = runner_.token_type_;
    const auto count = std::ssize(requests_);
    const bool fits = memory.next.data() != nullptr && memory.next.count() == count;
    if (!fits) memory.next = make_tensor(device, type, {count});
    choice_ = runner_.chooser_->start(memory.logits, choices, memory.chosen, memory.next.view(),
                                      lane_->stream);
    if (choice_ == nullptr) return false;
    if (memory.event == nullptr) memory.event = device.make_event();
    lane_->stream->record(*memory.event);
    return true;
  }

  void commit() override { step_.commit(); }
  void undo() override {
    for (const StepRequest& request : requests_) {
      request.sequence->rewind(request.sequence->length() - 1);
    }
  }
  ChosenTokens& wait() override {
    memory_->event->synchronize();
    choice_->finish();
    run_->finish();
    before_ = nullptr;
    return memory_->chosen;
  }
  void commit(const std::vector<bool>& kept) override { step_.commit(kept); }
  StepLogits& logits() override { return memory_->logits; }
  const std::shared_ptr<Lane>& lane() const { return lane_; }

 private:
  const PackedRunner& runner_;
  std::vector<StepRequest> requests_;
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<StartedMemory> memory_;
  std::shared_ptr<StartedMemory> before_;  // has the tokens of this step
  // Its pages are free once the runs below have ended.
  StepTables step_;
  std::optional<LogitsReceiver> receiver_;
  std::unique_ptr<StartedRun> run_;
  std::unique_ptr<StartedChoice> choice_;
};

PackedRunner::~PackedRunner() = default;

// What a device does on its own: tokens in, logits out, and caches that can drop a token again.
void PackedRunner::find_starts() {
  const auto& parameters = plan_->program->main().parameters();
  const bool plain = plan_->device != nullptr && !plan_->device->host_accessible() &&
                     plan_->program->main().results().size() == 1 && !switch_ &&
                     layout_->can_truncate() && names_.embeddings.empty() &&
                     result_devices_[logits_] == plan_->device;
  if (!plain) return;
  for (const CacheLayout::Group& group : layout_->groups()) {
    if (group.cross >= 0 || &group.pool->device() != plan_->device) return;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != Input::Kind::tokens) continue;
    token_type_ = parameters[i]->type().element;
    starts_ = reads_on_device(*plan_, i);
  }
}

std::unique_ptr<StartedStep> PackedRunner::start(std::span<const StepRequest> requests,
                                                 std::span<const ChoiceRequest> choices,
                                                 const StartedStep* before) const {
  if (!starts_ || profiler_ != nullptr) return nullptr;
  const auto* behind = static_cast<const Started*>(before);
  const auto shared = [](auto& pool, auto own) {
    using Kept = decltype(own)::element_type;
    return std::shared_ptr<Kept>(
        own.release(), [&pool](Kept* kept) { pool.release(std::unique_ptr<Kept>(kept)); });
  };
  std::shared_ptr<Lane> lane;
  if (behind != nullptr) {
    lane = behind->lane();
  } else {
    std::unique_ptr<Lane> idle = idle_lanes_.acquire();
    if (idle == nullptr) idle = std::make_unique<Lane>(Lane{plan_->device->make_stream()});
    lane = shared(idle_lanes_, std::move(idle));
  }
  std::unique_ptr<StartedMemory> memory = idle_started_.acquire();
  if (memory == nullptr) memory = std::make_unique<StartedMemory>();
  auto started = std::make_unique<Started>(
      *this, requests, shared(idle_started_, std::move(memory)), std::move(lane));
  if (!started->start(choices, behind)) return nullptr;
  return started;
}

}  // namespace lathe::llm
