// SPDX-License-Identifier: MIT
// The decoder of make_decoder.py, with a context of 16,384.
#pragma once

#include <string>
#include <vector>

#include "llm/model/decoder.h"
#include "tests/decoders/run_script.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {

// Returns the decoder's folder. `window` in positions, 0: none. Empty without Python.
inline std::string make_decoder_folder(int64_t window, const std::vector<std::string>& flags) {
  std::string name = "made" + std::to_string(window);
  for (const std::string& flag : flags) name += "-" + flag;
  const std::filesystem::path folder = unpacked_zoo() / name;
  if (std::filesystem::exists(folder / "genai_config.json")) return folder.string();
  std::filesystem::create_directories(folder);
  std::vector<std::string> arguments = {folder.string(), std::to_string(window > 0 ? window : -1)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_script("make_decoder.py", arguments) ? folder.string() : "";
}

// Null without Python.
inline std::shared_ptr<const Decoder> make_decoder(int64_t window, const char* target = "cpu",
                                                   const std::vector<std::string>& flags = {}) {
  const std::string folder = make_decoder_folder(window, flags);
  if (folder.empty()) return nullptr;
  DecoderOptions options;
  options.target = find_target(target);
  return std::make_shared<const Decoder>(folder, options);
}

}  // namespace lathe::llm
