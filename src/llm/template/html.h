// SPDX-License-Identifier: MIT
// HTML for the filters striptags and urlize.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::templates {

// Without tags and comments, white space made single spaces, entities replaced.
std::string strip_tags(std::string_view text);
std::string unescape_html(std::string_view text);

struct UrlStyle {
  int64_t trim_limit = -1;  // characters shown of a link; -1 for all
  std::string rel;
  std::string target;
  std::vector<std::string> extra_schemes;
};
// Links in escaped text.
std::string urlize(std::string_view text, const UrlStyle& style);
bool is_uri_scheme(std::string_view text);

// "name codes," for each entity: see html_entities.cpp.
extern const std::string_view html_entities;

}  // namespace lathe::templates
