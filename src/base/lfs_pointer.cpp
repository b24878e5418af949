// SPDX-License-Identifier: MIT
#include "base/lfs_pointer.h"

#include "base/error.h"

namespace lathe {
namespace {

constexpr std::string_view kBeginning = "version https://git-lfs";
constexpr size_t kMaxBytes = 1024;  // of a pointer, by its specification

}  // namespace

void check_fetched(std::string_view bytes, std::string_view path) {
  check(bytes.size() >= kMaxBytes || !bytes.starts_with(kBeginning), ErrorKind::invalid_model,
        "'{}' is a Git LFS pointer ({} bytes), not the file itself: run 'git lfs pull'",
        escape(path), bytes.size());
}

}  // namespace lathe
