// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "base/error.h"

namespace lathe {

// An assumption did not hold at binding: the run may go on with another plan.
class AssumptionFailure : public Error {
 public:
  explicit AssumptionFailure(std::string message)
      : Error(ErrorKind::invalid_argument, std::move(message)) {}
};

}  // namespace lathe
