// SPDX-License-Identifier: MIT
#pragma once

#include "targets/target.h"

namespace lathe {

class RefTarget final : public Target {
 public:
  std::string_view name() const override { return "ref"; }
  std::string_view doc() const override;
  std::string supports(const Instruction& instruction) const override;
  KernelChoice select(const Instruction& instruction, Constants constants) const override;
  bool expands(const Instruction& instruction) const override;
};

}  // namespace lathe
