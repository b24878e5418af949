// SPDX-License-Identifier: MIT
#include "runtime/environment.h"

namespace lathe {

const std::shared_ptr<Environment>& Environment::process() {
  static const std::shared_ptr<Environment> environment = std::make_shared<Environment>();
  return environment;
}

}  // namespace lathe
