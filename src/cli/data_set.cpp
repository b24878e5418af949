// SPDX-License-Identifier: MIT
#include "cli/data_set.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/content.h"
#include "cli/npz.h"

namespace lathe::cli {
std::vector<std::optional<Box>> read_expected(const std::string& path, const Program& program) {
  const std::vector<std::string>& names = program.main().result_names();
  const auto file = FileMap::open(path);
  check(looks_like_npz(file->text()), ErrorKind::invalid_argument,
        "--expected '{}' is not a valid .npz file: {}", escape(path),
        describe_content(file->text()));
  const NpzReader reader(file);
  std::vector<std::optional<Box>> out(names.size());
  for (const std::string& member : reader.names()) {
    const auto found = std::find(names.begin(), names.end(), member);
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    check(found != names.end(), ErrorKind::invalid_argument,
          "--expected '{}': the model has no output '{}'{}", escape(path), escape(member),
          did_you_mean(member, candidates));
    const auto index = static_cast<size_t>(found - names.begin());
    out[index] = Box{reader.read(member, program.main().results()[index]->type().element)};
  }
  return out;
}

}  // namespace lathe::cli
