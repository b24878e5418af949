// SPDX-License-Identifier: MIT
// Any text parses or fails, and any template renders or raises over any data, within a second and
// 256 MB. Mutations exchange whole words of the language, so that filters and methods get values
// of other types.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "llm/template/chat_template.h"
#include "llm/template/json.h"

using namespace lathe;
using namespace lathe::templates;

namespace {

constexpr std::string_view kData =
    R"({"messages": [{"role": "system", "content": "Be <b>brief</b>."},
    {"role": "user", "content": [{"type": "text", "text": "Hé 今日"}, {"type": "image"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"x": 1.5}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "user": {"name": "Ann", "age": 30}, "people": [{"name": "B", "age": 3, "tags": ["a"]}],
    "n": 7, "f": 2.5, "s": "a,b c", "l": [3, 1, 2], "none_value": null, "yes": true})";

// The words and phrases are lines of the conformance tests.
const std::vector<std::string>& phrases() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> lines;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("tests/llm/snippets", error)) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) lines.push_back(line);
    }
    if (lines.empty()) lines.emplace_back("{{ s|upper }}");
    return lines;
  }();
  return all;
}

// The words of a phrase: names, numbers, and single signs.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const auto is_word = [&](size_t i) {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    };
    if (is_word(at)) {
      while (end < text.size() && is_word(end)) ++end;
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

void run(std::string_view source) {
  try {
    const Budget budget{Limits()};
    const ChatTemplate chat{std::string(source)};
    const templates::Value data = parse_json(kData, "the data");
    const std::string text = chat.render(Ref<Dict>(&data.dict())).text;
    if (text.size() > (size_t{32} << 20)) std::abort();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) {
      std::fprintf(stderr, "internal error: %s\n", error.what());
      std::abort();
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> words = words_of(std::string(reinterpret_cast<const char*>(data), size));
  const std::string& phrase = phrases()[random() % phrases().size()];
  if (words.empty() || random() % 8 == 0) {
    words.push_back(phrase);
  } else {
    const std::vector<std::string> others = words_of(phrase);
    std::string& place = words[random() % words.size()];
    const std::string& other = others.empty() ? phrase : others[random() % others.size()];
    place = random() % 3 == 0 ? place + other : other;
  }
  std::string text;
  for (const std::string& word : words) text += word;
  text.resize(std::min(text.size(), max_size));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
