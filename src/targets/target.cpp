// SPDX-License-Identifier: MIT
#include "targets/target.h"

#include "base/error.h"
#if defined(__x86_64__)
#include "targets/cpu/target.h"
#endif
#include "targets/null/target.h"
#include "targets/ref/target.h"

namespace lathe {
namespace {

const std::vector<std::shared_ptr<const Target>>& targets() {
  static const std::vector<std::shared_ptr<const Target>> all{
      std::make_shared<RefTarget>(),
#if defined(__x86_64__)
      std::make_shared<CpuTarget>(),
#endif
      std::make_shared<NullTarget>(false),
      std::make_shared<NullTarget>(true),
  };
  return all;
}

}  // namespace

std::vector<std::string_view> target_names() {
  std::vector<std::string_view> names;
  for (const auto& target : targets()) names.push_back(target->name());
  return names;
}

std::shared_ptr<const Target> find_target(std::string_view name) {
  for (const auto& target : targets()) {
    if (target->name() == name) return target;
  }
  fail(ErrorKind::invalid_argument, "unknown target '{}'{}; there are: {}", escape(name),
       did_you_mean(name, target_names()), fmt::join(target_names(), ", "));
}

}  // namespace lathe
