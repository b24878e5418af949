// SPDX-License-Identifier: MIT
// Times a tokenizer for compare.py.
//
// usage: bench_tokenizers load FILE TIMES
//        bench_tokenizers encode FILE CORPUS [PATTERN]
//        bench_tokenizers one FILE TEXT
//
// Prints one JSON object per line. `encode` reads a line from standard input before each pass,
// "cold N" or "warm N" with N threads, so that engines can alternate.
#include <nlohmann/json.hpp>

#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/file_map.h"
#include "llm/tokenizer/load.h"

namespace {

using namespace lathe;
using namespace lathe::tokenizer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const nlohmann::json& line) { std::cout << line.dump() << std::endl; }

void time_load(const std::string& path, int times) {
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    const auto tokenizer = load_tokenizer(path);
    print({{"seconds", seconds_since(start)}, {"tokens", tokenizer->size()}});
  }
}

std::vector<std::string_view> documents_of(std::string_view corpus) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin < corpus.size();) {
    const size_t end = std::min(corpus.find('\0', begin), corpus.size());
    out.push_back(corpus.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// FNV hash of all ids, for comparison with the peers.
uint64_t add_ids(uint64_t sum, const std::vector<uint32_t>& ids) {
  for (const uint32_t id : ids) sum = (sum ^ id) * 1099511628211u;
  return sum;
}

void time_encode(const std::string& path, const std::string& corpus_path,
                 const std::string& pattern) {
  LoadOptions load;
  load.pattern = pattern;
  const auto tokenizer = load_tokenizer(path, load);
  const auto corpus = FileMap::open(corpus_path);
  const auto documents = documents_of(corpus->text());
  EncodeOptions options;
  options.add_special_tokens = false;
  options.truncate_and_pad = false;
  for (std::string word; std::cin >> word;) {
    int threads = 1;
    std::cin >> threads;
    if (word == "cold") tokenizer->clear_word_cache();
    ThreadPool pool(threads);
    const auto start = Clock::now();
    const auto encodings =
        tokenizer->encode_batch(documents, options, threads > 1 ? &pool : nullptr);
    const double seconds = seconds_since(start);
    uint64_t sum = 14695981039346656037u;
    size_t tokens = 0;
    for (const Encoding& encoding : encodings) {
      sum = add_ids(sum, encoding.ids);
      tokens += encoding.ids.size();
    }
    print({{"seconds", seconds}, {"tokens", tokens}, {"sum", sum}});
  }
}

void time_one(const std::string& path, const std::string& text_path) {
  const auto tokenizer = load_tokenizer(path);
  const auto text = FileMap::open(text_path);
  EncodeOptions options;
  options.truncate_and_pad = false;
  const auto start = Clock::now();
  const Encoding encoding = tokenizer->encode(text->text(), options);
  const double seconds = seconds_since(start);
  print({{"seconds", seconds},
         {"tokens", encoding.ids.size()},
         {"sum", add_ids(14695981039346656037u, encoding.ids)}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const std::string mode = arguments.empty() ? "" : arguments[0];
    if (mode == "load" && arguments.size() == 3) {
      time_load(arguments[1], std::stoi(arguments[2]));
    } else if (mode == "encode" && arguments.size() >= 3) {
      time_encode(arguments[1], arguments[2], arguments.size() > 3 ? arguments[3] : "");
    } else if (mode == "one" && arguments.size() == 3) {
      time_one(arguments[1], arguments[2]);
    } else {
      std::cerr
          << "usage: bench_tokenizers load FILE TIMES | encode FILE CORPUS [PATTERN] | one FILE "
             "TEXT\n";
      return 2;
    }
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
