// SPDX-License-Identifier: MIT
#include "cli/npz.h"

#include <zip.h>

#include "base/error.h"
#include "cli/npy.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kSuffix = ".npy";
// The largest expansion of deflate.
constexpr uint64_t kDeflateRatio = 1032;

struct DiscardArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, DiscardArchive>;

struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

// Describes an archive error by libzip's error code.
std::string_view reason(int code) {
  switch (code) {
    case ZIP_ER_NOZIP:
      return "it is truncated or not a zip archive";
    case ZIP_ER_INCONS:
    case ZIP_ER_EOF:
      return "its directory contradicts its contents";
    case ZIP_ER_CRC:
      return "its checksum differs";
    case ZIP_ER_ZLIB:
      return "its compressed data is invalid";
    case ZIP_ER_ENCRNOTSUPP:
    case ZIP_ER_NOPASSWD:
      return "it is encrypted";
    case ZIP_ER_MEMORY:
      return "out of memory";
    default:
      return "its data is invalid";
  }
}

std::string_view reason(zip_t* archive) {
  return reason(zip_error_code_zip(zip_get_error(archive)));
}

class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t* get() { return &error_; }
  int code() const { return zip_error_code_zip(&error_); }

 private:
  zip_error_t error_{};
};

// Appends to `bytes` up to `size` bytes in all; returns their number.
size_t read_up_to(zip_file_t* file, std::string& bytes, size_t size) {
  const size_t before = bytes.size();
  bytes.resize(size);
  const zip_int64_t read = zip_fread(file, bytes.data() + before, size - before);
  return before + static_cast<size_t>(std::max<zip_int64_t>(read, 0));
}

}  // namespace

struct NpzReader::Impl {
  std::shared_ptr<const FileMap> file;
  Archive archive;
  std::vector<std::string> names;
  std::vector<zip_uint64_t> indices;
};

bool looks_like_npz(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") || bytes.starts_with(std::string_view("PK\x05\x06", 4));
}

NpzReader::NpzReader(std::shared_ptr<const FileMap> file) : impl_(std::make_unique<Impl>()) {
  impl_->file = std::move(file);
  const std::string_view bytes = impl_->file->text();
  const std::string origin = escape(impl_->file->path());
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get());
  if (source != nullptr) {
    impl_->archive.reset(zip_open_from_source(source, ZIP_RDONLY, error.get()));
    if (impl_->archive == nullptr) zip_source_free(source);
  }
  check(impl_->archive != nullptr, ErrorKind::invalid_argument,
        "'{}' ({} bytes) is not a valid .npz file: {}", origin, bytes.size(), reason(error.code()));
  const auto count = zip_get_num_entries(impl_->archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* name = zip_get_name(impl_->archive.get(), index, ZIP_FL_ENC_RAW);
    if (name == nullptr || !std::string_view(name).ends_with(kSuffix)) continue;
    impl_->names.emplace_back(name, std::string_view(name).size() - kSuffix.size());
    impl_->indices.push_back(index);
  }
}

NpzReader::~NpzReader() = default;

const std::vector<std::string>& NpzReader::names() const { return impl_->names; }

Tensor NpzReader::read(std::string_view name, std::optional<ElementType> expected) const {
  const std::string origin = fmt::format("{}:{}", impl_->file->path(), name);
  const auto found = std::find(impl_->names.begin(), impl_->names.end(), name);
  check(found != impl_->names.end(), ErrorKind::invalid_argument, "'{}' has no member '{}'",
        escape(impl_->file->path()), escape(name));
  const zip_uint64_t index = impl_->indices[static_cast<size_t>(found - impl_->names.begin())];
  zip_stat_t stat{};
  check(zip_stat_index(impl_->archive.get(), index, 0, &stat) == 0, ErrorKind::invalid_argument,
        "'{}' cannot be read: {}", escape(origin), reason(impl_->archive.get()));
  check(stat.comp_method == ZIP_CM_STORE || stat.comp_method == ZIP_CM_DEFLATE,
        ErrorKind::invalid_argument, "'{}' is compressed by method {}, expected 0 or 8 (deflate)",
        escape(origin), stat.comp_method);
  check(stat.comp_size <= impl_->file->bytes().size() &&
            stat.size <= (stat.comp_size + 1) * kDeflateRatio,
        ErrorKind::invalid_argument, "'{}' declares {} bytes out of {}, in a file of {}",
        escape(origin), stat.size, stat.comp_size, impl_->file->bytes().size());
  const std::unique_ptr<zip_file_t, CloseFile> member(
      zip_fopen_index(impl_->archive.get(), index, 0));
  check(member != nullptr, ErrorKind::invalid_argument, "'{}' cannot be read: {}", escape(origin),
        reason(impl_->archive.get()));
  const auto bytes = std::make_shared<std::string>();
  // The header must justify the declared size before memory is allocated for it.
  const size_t header = std::min<size_t>(stat.size, kMaxNpyHeader);
  size_t size = read_up_to(member.get(), *bytes, header);
  if (size == header && size < stat.size) {
    check_npy_size(*bytes, origin, stat.size);
    try {
      size = read_up_to(member.get(), *bytes, stat.size);
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::out_of_memory, "no memory for the {} bytes of '{}'", stat.size,
           escape(origin));
    }
  }
  char beyond = 0;
  const bool is_complete =
      size == stat.size && zip_fread(member.get(), &beyond, 1) == 0;  // also verifies the checksum
  check(is_complete, ErrorKind::invalid_argument,
        "'{}' is damaged: {} of {} bytes are readable: {}", escape(origin), size, stat.size,
        reason(zip_error_code_zip(zip_file_get_error(member.get()))));
  return read_npy(*bytes, origin, expected, bytes);
}

std::string write_npz(std::span<const NamedTensor> tensors) {
  ZipError error;
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, error.get());
  check(target != nullptr, ErrorKind::out_of_memory, "cannot create an .npz file: {}",
        reason(error.code()));
  zip_source_keep(target);
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> keep(target, zip_source_free);
  Archive archive(zip_open_from_source(target, ZIP_TRUNCATE, error.get()));
  check(archive != nullptr, ErrorKind::internal, "cannot create an .npz file: {}",
        reason(error.code()));
  std::vector<std::string> members;  // must live until the archive is closed
  members.reserve(tensors.size());
  for (const NamedTensor& named : tensors) {
    std::string& bytes = members.emplace_back();
    write_npy(named.tensor, [&](std::string_view piece) { bytes += piece; });
    zip_source_t* source = zip_source_buffer(archive.get(), bytes.data(), bytes.size(), 0);
    const zip_int64_t index =
        source == nullptr ? -1
                          : zip_file_add(archive.get(), (named.name + std::string(kSuffix)).c_str(),
                                         source, ZIP_FL_ENC_UTF_8);
    check(index >= 0, ErrorKind::invalid_argument, "cannot add array '{}' to an .npz file: {}",
          escape(named.name), reason(archive.get()));
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    // A fixed time keeps the bytes reproducible.
    zip_file_set_mtime(archive.get(), static_cast<zip_uint64_t>(index), 315532800, 0);
  }
  check(zip_close(archive.get()) == 0, ErrorKind::internal, "cannot create an .npz file: {}",
        reason(archive.get()));
  static_cast<void>(archive.release());
  zip_stat_t stat{};
  std::string out;
  if (zip_source_stat(target, &stat) == 0 && zip_source_open(target) == 0) {
    out.resize(stat.size);
    const zip_int64_t read = zip_source_read(target, out.data(), stat.size);
    zip_source_close(target);
    if (read == static_cast<zip_int64_t>(stat.size)) return out;
  }
  fail(ErrorKind::internal, "cannot create an .npz file of {} arrays: {}", tensors.size(),
       reason(zip_error_code_zip(zip_source_error(target))));
}

}  // namespace lathe::cli
