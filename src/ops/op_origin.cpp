// SPDX-License-Identifier: MIT
#include "ops/op_origin.h"

namespace lathe {

void OpOrigin::raise(std::string message) const {
  Error error(ErrorKind::invalid_argument,
              fmt::format("{}: {}", instruction_->op().name, std::move(message)));
  for (const Origin& origin : instruction_->origins()) {
    error.note(fmt::format("in {}, node {} ({} '{}')", escape(origin.file), origin.index,
                           escape(origin.op_type), escape(origin.node)));
  }
  throw error;
}

bool InstructionReader::has_attribute(std::string_view name) const {
  return find_attribute(instruction_->attributes(), name) != nullptr;
}
int64_t InstructionReader::integer(std::string_view name) const {
  return required_attribute<int64_t>(*instruction_, name);
}
double InstructionReader::number(std::string_view name) const {
  return required_attribute<double>(*instruction_, name);
}
bool InstructionReader::boolean(std::string_view name) const {
  return required_attribute<bool>(*instruction_, name);
}
const std::string& InstructionReader::text(std::string_view name) const {
  return required_attribute<std::string>(*instruction_, name);
}
ElementType InstructionReader::element_type(std::string_view name) const {
  return required_attribute<ElementType>(*instruction_, name);
}
const Integers& InstructionReader::integers(std::string_view name) const {
  return required_attribute<Integers>(*instruction_, name);
}
const Numbers& InstructionReader::numbers(std::string_view name) const {
  return required_attribute<Numbers>(*instruction_, name);
}
const Texts& InstructionReader::texts(std::string_view name) const {
  return required_attribute<Texts>(*instruction_, name);
}

int InstructionReader::axis(std::string_view attribute, int rank) const {
  const int64_t value = integer(attribute);
  check(value >= -rank && value < rank, "axis {} is out of range for rank {}", value, rank);
  return static_cast<int>(value < 0 ? value + rank : value);
}

}  // namespace lathe
