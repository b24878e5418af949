// SPDX-License-Identifier: MIT
// Header, kHeader bytes: magic, major and minor version (u32), block size (u64), zeros.
// Directory: number of sections; of each its offset, its size and its name (a size, then bytes
// padded to 8); number of blocks and their checksums. Footer, kFooter bytes: offset and size of the
// directory, its checksum, size of the file, major and minor version, checksum of the above, magic.
#include "import/compiled/container.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic("\x93LATHE\r\n", 8);
constexpr std::string_view kEndMagic("LATHEEND", 8);
constexpr size_t kHeader = 64;
constexpr size_t kFooter = 64;
constexpr size_t kWord = 8;
constexpr size_t kMaxSections = 1 << 16;
constexpr size_t kMaxName = 4096;

static_assert(std::endian::native == std::endian::little, "words are written in memory order");

uint64_t checksum_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

template <class Word>
void put_word(std::string& out, Word word) {
  out.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

uint64_t rounded(uint64_t offset, uint64_t to) { return (offset + to - 1) / to * to; }

// Reads words and bytes in order, with bounds checks.
class Reader {
 public:
  Reader(const std::string& name, std::string_view bytes) : name_(name), bytes_(bytes) {}
  std::string_view take(uint64_t count) {
    check(count <= bytes_.size() - at_, ErrorKind::invalid_model,
          "'{}' is damaged: its directory needs {} bytes at {}, it has {}", escape(name_), count,
          at_, bytes_.size());
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <class Word = uint64_t>
  Word word() {
    Word out = 0;
    std::memcpy(&out, take(sizeof(Word)).data(), sizeof(Word));
    return out;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& name_;
  std::string_view bytes_;
  size_t at_ = 0;
};

std::string header_bytes() {
  std::string header(kMagic);
  put_word(header, kContainerMajor);
  put_word(header, kContainerMinor);
  put_word(header, uint64_t{kContainerBlock});
  header.resize(kHeader);
  return header;
}

}  // namespace

bool looks_like_container(std::string_view bytes) { return bytes.starts_with(kMagic); }

ContainerWriter::ContainerWriter(Write write) : write_(std::move(write)) { put(header_bytes()); }

void ContainerWriter::put(std::string_view bytes) {
  write_(bytes);
  offset_ += bytes.size();
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kContainerBlock - block_.size());
    // Whole blocks need no copy.
    if (part == kContainerBlock) {
      checksums_.push_back(checksum_of(bytes.substr(0, part)));
    } else {
      block_.append(bytes.substr(0, part));
      if (block_.size() == kContainerBlock) end_block();
    }
    bytes.remove_prefix(part);
  }
}

void ContainerWriter::end_block() {
  checksums_.push_back(checksum_of(block_));
  block_.clear();
}

void ContainerWriter::pad(size_t alignment) {
  put(std::string(rounded(offset_, alignment) - offset_, '\0'));
}

void ContainerWriter::begin(std::string name, size_t alignment) {
  pad(alignment);
  sections_.push_back({std::move(name), offset_, 0});
  position_ = 0;
}

void ContainerWriter::write(std::string_view bytes) {
  put(bytes);
  position_ += bytes.size();
  sections_.back().bytes = position_;
}

void ContainerWriter::align(size_t alignment) {
  write(std::string(rounded(position_, alignment) - position_, '\0'));
}

void ContainerWriter::finish() {
  pad(kWord);
  const uint64_t directory_at = offset_;
  if (!block_.empty()) end_block();
  std::string directory;
  put_word(directory, uint64_t{sections_.size()});
  for (const Section& section : sections_) {
    put_word(directory, section.offset);
    put_word(directory, section.bytes);
    put_word(directory, uint64_t{section.name.size()});
    directory += section.name;
    directory.resize(rounded(directory.size(), kWord));
  }
  put_word(directory, uint64_t{checksums_.size()});
  for (const uint64_t checksum : checksums_) put_word(directory, checksum);
  std::string footer;
  put_word(footer, directory_at);
  put_word(footer, uint64_t{directory.size()});
  put_word(footer, checksum_of(directory));
  put_word(footer, directory_at + directory.size() + kFooter);
  put_word(footer, kContainerMajor);
  put_word(footer, kContainerMinor);
  footer.resize(kFooter - 2 * kWord);
  put_word(footer, checksum_of(footer));
  footer += kEndMagic;
  write_(directory);
  write_(footer);
}

Container::Container(std::string name, std::string_view bytes, std::shared_ptr<const void> owner)
    : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  check(looks_like_container(bytes), ErrorKind::invalid_model,
        "'{}' is not a compiled file: it has another beginning", escape(name_));
  check(bytes.size() >= kHeader + kFooter, ErrorKind::invalid_model,
        "'{}' is cut off: it has {} bytes, a compiled file has at least {}", escape(name_),
        bytes.size(), kHeader + kFooter);
  const std::string_view footer = bytes.substr(bytes.size() - kFooter);
  Reader reader(name_, footer);
  const auto directory_at = reader.word();
  const auto directory_bytes = reader.word();
  const auto directory_checksum = reader.word();
  const auto file_bytes = reader.word();
  const auto major = reader.word<uint32_t>();
  minor_ = reader.word<uint32_t>();
  uint64_t own = 0;
  std::memcpy(&own, footer.data() + kFooter - 2 * kWord, kWord);
  const bool whole = footer.ends_with(kEndMagic) &&
                     own == checksum_of(footer.substr(0, kFooter - 2 * kWord)) &&
                     file_bytes == bytes.size();
  check(whole, ErrorKind::invalid_model,
        "'{}' is damaged or cut off: its last {} bytes are not the end of a compiled file",
        escape(name_), kFooter);
  check(major == kContainerMajor && minor_ <= kContainerMinor, ErrorKind::unsupported,
        "'{}' has version {}.{} of compiled files, this build reads up to {}.{}: compile the model "
        "again",
        escape(name_), major, minor_, kContainerMajor, kContainerMinor);
  check(directory_at >= kHeader && directory_at <= bytes.size() - kFooter &&
            directory_bytes == bytes.size() - kFooter - directory_at,
        ErrorKind::invalid_model, "'{}' is damaged: its directory has {} bytes at {}",
        escape(name_), directory_bytes, directory_at);
  content_bytes_ = directory_at;
  const std::string_view directory = bytes.substr(directory_at, directory_bytes);
  check(checksum_of(directory) == directory_checksum, ErrorKind::invalid_model,
        "'{}' is damaged: the directory's checksum is {:016x}, expected {:016x}", escape(name_),
        checksum_of(directory), directory_checksum);
  identity_ = directory_checksum;
  directory_ = directory;
  read_directory(directory);
}

void Container::read_directory(std::string_view directory) {
  Reader reader(name_, directory);
  const uint64_t count = reader.word();
  check(count <= kMaxSections, ErrorKind::invalid_model, "'{}' is damaged: it has {} sections",
        escape(name_), count);
  for (uint64_t i = 0; i < count; ++i) {
    Section section;
    section.offset = reader.word();
    section.bytes = reader.word();
    const uint64_t length = reader.word();
    check(length <= kMaxName && section.offset >= kHeader && section.offset <= content_bytes_ &&
              section.bytes <= content_bytes_ - section.offset,
          ErrorKind::invalid_model, "'{}' is damaged: section {} has {} bytes at {}", escape(name_),
          i, section.bytes, section.offset);
    const std::string_view text = reader.take(rounded(length, kWord)).substr(0, length);
    check(sections_.emplace(text, section).second, ErrorKind::invalid_model,
          "'{}' is damaged: it has two sections '{}'", escape(name_), escape(text));
  }
  const uint64_t blocks = reader.word();
  check(blocks == (content_bytes_ + kContainerBlock - 1) / kContainerBlock,
        ErrorKind::invalid_model, "'{}' is damaged: {} checksums for {} bytes", escape(name_),
        blocks, content_bytes_);
  for (uint64_t i = 0; i < blocks; ++i) checksums_.push_back(reader.word());
  check(reader.at_end(), ErrorKind::invalid_model, "'{}' is damaged: {} blocks and more",
        escape(name_), blocks);
  states_ = std::vector<std::atomic<uint8_t>>(blocks);
}

Container::Section Container::find(std::string_view section) const {
  const auto at = sections_.find(section);
  check(at != sections_.end(), ErrorKind::invalid_model, "'{}' has no section '{}'", escape(name_),
        escape(section));
  return at->second;
}

std::string_view Container::read(std::string_view section) const {
  const Section found = find(section);
  check_blocks(found.offset, found.bytes);
  return bytes_.substr(found.offset, found.bytes);
}

std::string_view Container::unchecked(const Section& section, uint64_t offset,
                                      uint64_t bytes) const {
  check(offset <= section.bytes && bytes <= section.bytes - offset, ErrorKind::invalid_model,
        "'{}' is damaged: {} bytes at {} of a section of {}", escape(name_), bytes, offset,
        section.bytes);
  return bytes_.substr(section.offset + offset, bytes);
}

void Container::check_block(uint64_t block) const {
  std::atomic<uint8_t>& state = states_[block];
  if (state.load(std::memory_order_acquire) == kChecked) return;
  const uint64_t begin = block * kContainerBlock;
  const uint64_t size = std::min<uint64_t>(kContainerBlock, content_bytes_ - begin);
  const uint64_t found = checksum_of(bytes_.substr(begin, size));
  if (found != checksums_[block]) damaged_.store(true, std::memory_order_release);
  check(found == checksums_[block], ErrorKind::invalid_model,
        "'{}' is damaged: bytes {} to {} have the checksum {:016x}, expected {:016x}",
        escape(name_), begin, begin + size, found, checksums_[block]);
  if (state.exchange(kChecked, std::memory_order_acq_rel) == kRequested) requested_.fetch_sub(1);
}

void Container::check_blocks(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0) return;
  const uint64_t last = (offset + bytes - 1) / kContainerBlock;
  for (uint64_t block = offset / kContainerBlock; block <= last; ++block) check_block(block);
}

void Container::request_check(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0) return;
  const uint64_t last = (offset + bytes - 1) / kContainerBlock;
  for (uint64_t block = offset / kContainerBlock; block <= last; ++block) {
    uint8_t expected = kUnchecked;
    requested_.fetch_add(1);  // before the block's state shows it
    if (!states_[block].compare_exchange_strong(expected, kRequested)) requested_.fetch_sub(1);
  }
}

void Container::check_requested(ThreadPool* pool) const {
  if (requested_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(checking_);  // a second caller returns once all are checked
  std::vector<uint64_t> blocks;
  for (uint64_t i = 0; i < states_.size(); ++i) {
    if (states_[i].load() == kRequested) blocks.push_back(i);
  }
  std::vector<std::string> damage(blocks.size());
  parallel_for(pool, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      try {
        check_block(blocks[at]);
      } catch (const Error& error) {
        damage[at] = error.message();
      }
    }
  });
  const auto first = std::ranges::find_if(damage, [](const auto& text) { return !text.empty(); });
  if (first != damage.end()) throw Error(ErrorKind::invalid_model, *first);
}

}  // namespace lathe
