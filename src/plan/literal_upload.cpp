// SPDX-License-Identifier: MIT
#include "plan/literal_upload.h"

#include "plan/planning_threads.h"

namespace lathe {
namespace {

thread_local LiteralUpload* current = nullptr;

}  // namespace

LiteralUpload::LiteralUpload() : outer_(current) { current = this; }

LiteralUpload::~LiteralUpload() { current = outer_; }

void LiteralUpload::copy(const Device& device, void* to, const void* from, size_t bytes) {
  if (stream_ == nullptr) stream_ = device.make_stream();
  under_way_ = true;
  stream_->upload(to, from, bytes, PlanningThreads::current());
}

void LiteralUpload::settle() {
  if (under_way_) stream_->synchronize();
  under_way_ = false;
}

void LiteralUpload::settle_current() {
  if (current != nullptr) current->settle();
}

}  // namespace lathe
