// SPDX-License-Identifier: MIT
// Reads compiled files (`.lathe`): named programs over one store of constants and packed weights.
//
// Sections: "index" (JSON: programs, constants, packed weights, facts of the model), "lowered/NAME"
// and "portable/NAME" (texts of programs), "graph/NAME" (texts of a model folder's graphs),
// "literals" (small constants, a side file of literals), "weights" (large constants and packed
// weights), "file/NAME" (files of a model folder).
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/folder.h"
#include "import/compiled/container.h"
#include "import/compiled/stored_form.h"
#include "ir/compiled_source.h"
#include "ir/literal_file.h"
#include "ir/program.h"
#include "tensor/mapped.h"

namespace lathe {

// A constant of 16 KiB or more is mapped from "weights"; smaller ones are in "literals".
inline constexpr int64_t kMappedConstant = 16 * 1024;
// Literals up to this size are in the program's text.
inline constexpr int64_t kTextLiteralBytes = 64;
// The name of the only program of a file that holds a model's graph.
inline constexpr std::string_view kMainProgram = "main";

class CompiledFile final : public StoredConstants,
                           public std::enable_shared_from_this<CompiledFile> {
 public:
  // Maps a file. Io, InvalidModel.
  static std::shared_ptr<const CompiledFile> open(const std::string& path);
  // `owner` keeps the bytes alive. `name`: for messages.
  static std::shared_ptr<const CompiledFile> open(const std::string& name, std::string_view bytes,
                                                  std::shared_ptr<const void> owner);
  ~CompiledFile() override;

  const std::string& name() const { return container_.name(); }
  std::vector<std::string> programs() const;
  bool has_program(std::string_view program) const;
  // What its programs were lowered for.
  const std::string& target() const;
  const std::string& compute() const;
  // The lowered program; its constants are present where planning reads them.
  std::unique_ptr<Program> program(std::string_view program) const;
  // Before lowering, with all constants present.
  std::unique_ptr<Program> portable(std::string_view program) const;
  // A graph of a model folder as imported. Most of its large constants are placeholders.
  bool has_graph(std::string_view graph) const;
  std::unique_ptr<Program> graph(std::string_view graph) const;
  // Files of a model folder, by name; empty for a graph.
  MemoryFiles files() const;
  const Container& container() const { return container_; }
  // Its large constants.
  struct Held {
    ElementType type;
    int64_t bytes;
    bool packed;  // only as kernels read it
  };
  std::vector<Held> held() const;
  int64_t packed_bytes() const;
  // See lowered_source().
  static const CompiledSource* lowered_source_of(const Program& program);

  uint64_t identity() const override { return container_.identity(); }
  uint64_t hash_at(const void* data) const override;
  void restore(const void* data) const override;
  void restore_unchecked(const void* data) const override;
  std::shared_ptr<const void> packed(const std::string& key, size_t bytes) const override;
  void check_requested(ThreadPool* pool) const override { container_.check_requested(pool); }
  bool is_known(const void* data) const override;

 private:
  struct Key {};  // of the constructor

 public:
  CompiledFile(Key, std::string name, std::string_view bytes, std::shared_ptr<const void> owner);

 private:
  struct Packed {
    std::string id;
    std::vector<PackedSource> sources;
    std::vector<uint64_t> hashes;  // of the sources; 0: absent
    std::string_view bytes;
  };
  struct Constant {
    uint64_t hash = 0;
    ElementType type = ElementType::f32;
    Dims dims;
    std::string_view bytes;  // in the file, or reserved memory that restore() fills
    int packed = -1;         // of the packed weights that have its elements; -1: stored plainly
    size_t source = 0;       // of those
    bool missing = false;    // a constant of graph() that no program has
    // Zeros in its place in graph(), if it is missing or exists only in packed form.
    const char* placeholder = nullptr;
    mutable bool present = false;
  };
  struct ProgramEntry {
    std::string name;
    std::string target;
    std::string machine;
    std::string compute;
    std::string facts;  // of the model, JSON
    std::string tuned;  // measured choices, JSON
  };
  class Source;
  // Address space that the file's constants use beside its bytes.
  struct Reserved {
    void* base = nullptr;
    size_t bytes = 0;
    std::unique_ptr<StoredRange> range;
  };

  void read_index(std::string_view text);
  void read_packed(const nlohmann::json& list);
  void read_constants(const nlohmann::json& list);
  void reserve(Reserved& space, bool closed);
  void reserve_constants();
  void read_programs(const nlohmann::json& list);
  std::shared_ptr<const ModelInfo> model_of(const ProgramEntry& entry, bool lowered) const;
  LiteralRef find_literal(uint64_t hash, bool placeholders) const;
  std::unique_ptr<Program> parse(const std::string& section, bool placeholders) const;
  const ProgramEntry& entry(std::string_view program) const;
  void fill(const Constant& constant) const;
  void request_check(std::string_view bytes) const;

  Container container_;
  std::unique_ptr<LiteralFile> literals_;
  std::vector<ProgramEntry> programs_;
  std::vector<Packed> packed_;
  std::vector<Constant> constants_;
  std::unordered_map<uint64_t, size_t> by_hash_;        // constants
  std::unordered_map<const void*, size_t> by_address_;  // constants
  std::unordered_map<std::string, size_t> by_key_;      // packed weights
  Reserved restored_;                                   // filled by restore()
  Reserved zeros_;                                      // placeholders
  std::unique_ptr<StoredRange> mapped_range_;
  mutable std::mutex mutex_;  // of Constant::present
};

}  // namespace lathe
