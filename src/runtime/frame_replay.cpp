// SPDX-License-Identifier: MIT
// Launches that recur are recorded and replayed.
#include <algorithm>

#include "base/error.h"
#include "runtime/frame.h"

namespace lathe {
namespace {

constexpr int kFewestKernels = 3;  // fewer are not worth a replay
constexpr size_t kMostRecorded = 8;

void add_view(const TensorView* view, std::vector<int64_t>& seen) {
  if (view == nullptr) {
    seen.push_back(-1);
    return;
  }
  seen.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(view->data)));
  seen.push_back(view->rank);
  seen.insert(seen.end(), view->dims.begin(), view->dims.begin() + view->rank);
  seen.insert(seen.end(), view->strides.begin(), view->strides.begin() + view->rank);
}

}  // namespace

// The host neither waits for such a launch nor reads or writes its operands.
bool Frame::may_replay(const Launch& launch) const {
  if (launch.records || launch.waits >= 0 || launch.defines_symbols || !launch.bodies.empty()) {
    return false;
  }
  const auto on_device = [&](SlotId id) {
    return id < 0 || slot(id).kind == SlotKind::literal ||
           (slot(id).space == Space::device && slot(id).kind != SlotKind::box);
  };
  if (!std::ranges::all_of(launch.results, on_device)) return false;
  if (launch.kind == LaunchKind::view) {
    // Other operands are known on the host, or read there by a launch of their own.
    return launch.on_stream && !launch.operands.empty() && on_device(launch.operands[0]);
  }
  return launch.kind == LaunchKind::kernel && launch.on_stream &&
         std::ranges::all_of(launch.operands, on_device);
}

void Frame::find_replays() {
  for (const Segment& segment : planned_.segments) {
    for (int i = segment.first; i < segment.last;) {
      Replay replay;
      replay.first = replay.last = i;
      int kernels = 0;
      while (replay.last < segment.last) {
        const Launch& launch = planned_.launches[static_cast<size_t>(replay.last)];
        if (!may_replay(launch)) break;
        kernels += launch.kind == LaunchKind::kernel ? 1 : 0;
        ++replay.last;
      }
      i = std::max(replay.last, i + 1);
      if (kernels >= kFewestKernels) replays_.push_back(std::move(replay));
    }
  }
}

void Frame::run_launches(int first, int last) {
  auto next = std::ranges::lower_bound(replays_, first, {}, &Replay::first);
  for (int i = first; i < last;) {
    const bool replays = next != replays_.end() && next->first == i && !next->refused &&
                         run_context_.profiler == nullptr;
    if (!replays) {
      if (next != replays_.end() && next->first == i) ++next;
      launch(static_cast<size_t>(i++));
      continue;
    }
    run_replay(*next);
    i = (next++)->last;
  }
}

// All that its launches see: equal sights make equal work.
void Frame::see(const Replay& replay, std::vector<int64_t>& seen) const {
  seen.clear();
  // Launches use memory of their stream, too.
  seen.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(run_context_.stream.get())));
  for (int i = replay.first; i < replay.last; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    if (step.launch->kind == LaunchKind::view && step.viewed) continue;
    seen.push_back(i);
    for (const TensorView* view : step.args.in) add_view(view, seen);
    for (const TensorView* view : step.args.out) add_view(view, seen);
    seen.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(step.args.workspace)));
    seen.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(step.args.dims)));
  }
}

void Frame::run_kernels(const Replay& replay) {
  for (int i = replay.first; i < replay.last; ++i) {
    Step& step = steps_[static_cast<size_t>(i)];
    if (step.launch->kind != LaunchKind::view || !step.viewed) run_kernel(step);
  }
}

// Records the launches of this run. False, for good, if the stream cannot.
bool Frame::record(Replay& replay) {
  Stream& stream = *run_context_.stream;
  if (replay.recorded.size() == kMostRecorded) {
    replay.recorded.erase(std::ranges::min_element(replay.recorded, {}, &Replay::Recorded::used));
  }
  try {
    stream.begin_capture();
  } catch (const Error&) {
    replay.refused = true;
    return false;
  }
  std::exception_ptr failure;
  try {
    run_kernels(replay);
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    std::unique_ptr<Capture> capture = stream.end_capture();
    if (failure == nullptr) {
      replay.recorded.push_back({seen_, run_context_.stream, std::move(capture)});
    }
  } catch (const Error&) {
    failure = std::current_exception();
  }
  // What fails here may succeed launch by launch, whose failure is then the caller's.
  replay.refused = failure != nullptr;
  return !replay.refused;
}

void Frame::run_replay(Replay& replay) {
  run_context_.check_cancelled();
  run_context_.counters.launches += replay.last - replay.first;
  for (int i = replay.first; i < replay.last; ++i) {
    Step& step = steps_[static_cast<size_t>(i)];
    const Launch& launch = *step.launch;
    if (launch.kind == LaunchKind::view) {
      if (launch.moves || !same_ || !step.viewed) prepare_view(step);
    } else if (step.updates) {
      continue_versions(launch);
    }
  }
  see(replay, seen_);
  auto found = std::ranges::find(replay.recorded, seen_, &Replay::Recorded::seen);
  if (found == replay.recorded.end()) {
    // The first time, kernels load code and choose algorithms, which cannot be recorded.
    const bool recurs = replay.seen == seen_;
    replay.seen = seen_;
    if (!recurs || !record(replay)) return run_kernels(replay);
    found = std::prev(replay.recorded.end());
  }
  found->used = ++clock_;
  run_context_.stream->replay(*found->capture);
}

}  // namespace lathe
