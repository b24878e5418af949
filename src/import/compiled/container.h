// SPDX-License-Identifier: MIT
// The container of compiled files: named sections of bytes, with a checksum per block.
//
// Header, sections, directory, footer. All numbers are little-endian. Blocks of kContainerBlock
// bytes cover header, sections and the padding between them; the directory holds their checksums
// (XXH3) and is covered by one in the footer, which covers itself. A block is checked before its
// first byte is read, and never again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

class ThreadPool;

inline constexpr size_t kContainerBlock = size_t{4} << 20;
// Readers open every earlier minor version. 1.0 holds matrices of 16-bit weights as f32, 1.1 as 16
// bits; those of 1.2 may have several sources.
inline constexpr uint32_t kContainerMajor = 1;
inline constexpr uint32_t kContainerMinor = 2;

// True if the bytes begin like a container.
bool looks_like_container(std::string_view bytes);

// Writes a container front to back.
class ContainerWriter {
 public:
  using Write = std::function<void(std::string_view)>;
  explicit ContainerWriter(Write write);
  // Starts a section; its bytes follow by write(). Names are unique.
  void begin(std::string name, size_t alignment = 64);
  void write(std::string_view bytes);
  // Pads the section with zeros.
  void align(size_t alignment);
  uint64_t position() const { return position_; }  // in the section
  void finish();

 private:
  struct Section {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  void put(std::string_view bytes);
  void pad(size_t alignment);
  void end_block();

  Write write_;
  std::vector<Section> sections_;
  std::vector<uint64_t> checksums_;
  uint64_t offset_ = 0;    // in the file
  uint64_t position_ = 0;  // in the section
  std::string block_;      // bytes of the block under way
};

class Container {
 public:
  struct Section {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Checks footer and directory. InvalidModel if they are damaged, Unsupported for a later version.
  // `owner` keeps the bytes alive. `name`: for messages.
  Container(std::string name, std::string_view bytes, std::shared_ptr<const void> owner);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  uint32_t minor() const { return minor_; }
  uint64_t identity() const { return identity_; }  // a checksum of all content
  // True for equal sections with equal checksums, unless a block of this one was found damaged: the
  // other may be its repaired copy.
  bool is_same(const Container& other) const {
    return !damaged_.load(std::memory_order_acquire) && identity_ == other.identity_ &&
           bytes_.size() == other.bytes_.size() && directory_ == other.directory_;
  }
  uint64_t bytes() const { return bytes_.size(); }
  const std::map<std::string, Section, std::less<>>& sections() const { return sections_; }
  bool has(std::string_view section) const { return sections_.contains(section); }
  // InvalidModel if there is no such section.
  Section find(std::string_view section) const;
  // The bytes of a section, checked.
  std::string_view read(std::string_view section) const;
  // Not checked: of the whole file, and of `bytes` at `offset` of a section (within its bounds).
  std::string_view unchecked() const { return bytes_; }
  std::string_view unchecked(const Section& section, uint64_t offset, uint64_t bytes) const;

  // Checks the blocks of these bytes of the file. InvalidModel if one is damaged.
  void check_blocks(uint64_t offset, uint64_t bytes) const;
  // Has the blocks of these bytes checked by the next check_requested().
  void request_check(uint64_t offset, uint64_t bytes) const;
  // Thread-safe. `pool` may be null.
  void check_requested(ThreadPool* pool) const;

 private:
  enum State : uint8_t { kUnchecked, kRequested, kChecked };
  void read_directory(std::string_view directory);
  void check_block(uint64_t block) const;

  std::string name_;
  std::string_view bytes_;
  std::string_view directory_;
  std::shared_ptr<const void> owner_;
  uint32_t minor_ = 0;
  uint64_t identity_ = 0;
  uint64_t content_bytes_ = 0;  // covered by blocks
  std::map<std::string, Section, std::less<>> sections_;
  std::vector<uint64_t> checksums_;
  mutable std::vector<std::atomic<uint8_t>> states_;  // per block
  mutable std::atomic<int64_t> requested_{0};         // blocks requested and not yet checked
  mutable std::mutex checking_;
  mutable std::atomic<bool> damaged_{false};
};

}  // namespace lathe
