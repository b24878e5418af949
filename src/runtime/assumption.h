// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "base/error.h"
#include "base/error_reason.h"

namespace lathe {

// An assumption failed when inputs were bound: the session may run another plan.
class AssumptionFailure : public Error {
 public:
  explicit AssumptionFailure(std::string message)
      : Error({ErrorKind::invalid_argument, reason::kShape}, std::move(message)) {}
};

}  // namespace lathe
