// SPDX-License-Identifier: MIT
#include "plan/packing_observer.h"

namespace lathe {
namespace {

thread_local PackingObserver* current = nullptr;

}  // namespace

PackingObserver::PackingObserver(Observe observe) : observe_(std::move(observe)), outer_(current) {
  current = this;
}

PackingObserver::~PackingObserver() { current = outer_; }

bool PackingObserver::active() { return current != nullptr; }

void PackingObserver::report(const ObservedPacking& packing) {
  if (current != nullptr) current->observe_(packing);
}

}  // namespace lathe
