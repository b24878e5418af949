// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ir/pass.h"

namespace lathe {

// The name of an instruction that the executor runs itself, in the text form.
constexpr std::string_view kExecutor = "host";

// True if a device that supports these instructions updates and reads all paged states of main, so
// that their pages may lie there.
bool keeps_pages(const Program& program,
                 const std::function<std::string(const Instruction&)>& supports);

// A target for each instruction: the chosen one where `supports` returns no reason against it, else
// the best of the host that `host_target` names. With `on_device`, the chosen target's values lie
// in the memory of its device; where a value crosses, a copy is inserted. Inputs, results, boxes,
// values of unknown rank and bodies' interfaces lie on the host; with Boundary::device, inputs of
// main that are plain tensors lie on the device, and so do results that the device computes.
enum class Boundary : uint8_t { host, device };
Pass place(std::function<std::string(const Instruction&)> supports,
           std::function<std::string(const Instruction&)> host_target, bool on_device,
           Boundary boundary = Boundary::host);

// True if a result of this placed instruction lies in the device's memory.
bool lies_on_device(const Instruction& definition);
// True if this input of a placed main lies there: its readers take it from there.
bool input_lies_on_device(const Value& input);
// True if an input or a result of main does.
bool has_device_boundary(const Program& program);

}  // namespace lathe
