// SPDX-License-Identifier: MIT
// The decoder that make_decoder.py writes, with a context of 16,384.
#pragma once

#include <string>
#include <vector>

#include "llm/model/decoder.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {

// With a window of so many rows; 0: none. Null if Python or its packages are not there.
inline std::shared_ptr<const Decoder> make_decoder(int64_t window, const char* target = "cpu") {
  const std::filesystem::path folder = unpacked_zoo() / ("window" + std::to_string(window));
  std::filesystem::create_directories(folder);
  std::vector<std::string> command = {"build/venv/bin/python", "tests/decoders/make_decoder.py",
                                      folder.string()};
  if (window > 0) command.push_back(std::to_string(window));
  const ProcessResult made = run_process(command);
  if (!made.started || made.code != 0) return nullptr;
  DecoderOptions options;
  options.target = find_target(target);
  return std::make_shared<const Decoder>(folder.string(), options);
}

}  // namespace lathe::llm
