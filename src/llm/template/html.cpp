// SPDX-License-Identifier: MIT
#include "llm/template/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "llm/template/budget.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

std::map<std::string_view, std::string> read_entities() {
  std::map<std::string_view, std::string> entities;
  std::string_view rest = html_entities;
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    const size_t end = rest.find(',');
    std::string text;
    for (size_t at = space; at < end; at = std::min(rest.find('+', at + 1), end)) {
      const std::string code(rest.substr(at + 1, 6));
      append_character(text, static_cast<char32_t>(std::strtoul(code.c_str(), nullptr, 16)));
    }
    entities.emplace(rest.substr(0, space), std::move(text));
    rest.remove_prefix(end + 1);
  }
  return entities;
}

const std::map<std::string_view, std::string>& entities() {
  static const std::map<std::string_view, std::string> all = read_entities();
  return all;
}

// What browsers read for the codes 0x80 to 0x9f: those of Windows-1252.
constexpr char16_t kWindows[] = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
                                 0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
                                 0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};

void append_code(std::string& out, uint64_t code) {
  if (code == 0 || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
    append_character(out, 0xfffd);
  } else if (code >= 0x80 && code < 0xa0) {
    append_character(out, kWindows[code - 0x80]);
  } else if ((code < 0x20 && code != '\t' && code != '\n' && code != '\r' && code != '\f') ||
             code == 0x7f || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe) {
    return;
  } else {
    append_character(out, static_cast<char32_t>(code));
  }
}

// &#123; or &#x7b; behind the '&'; how many bytes it has, 0 for none.
size_t append_numeric(std::string& out, std::string_view text) {
  const bool is_hex = text.size() > 1 && (text[1] | 0x20) == 'x';
  size_t at = is_hex ? 2 : 1;
  const size_t begin = at;
  uint64_t code = 0;
  for (; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (is_hex ? std::isxdigit(c) == 0 : std::isdigit(c) == 0) break;
    const auto digit = static_cast<uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    code = std::min<uint64_t>(code * (is_hex ? 16 : 10) + digit, 0x110000);
  }
  if (at == begin) return 0;
  append_code(out, code);
  return at < text.size() && text[at] == ';' ? at + 1 : at;
}

size_t append_named(std::string& out, std::string_view text) {
  size_t end = 0;
  for (size_t count = 0; end < text.size() && count < 32; ++count) {
    if (std::string_view("\t\n\f <&#;").find(text[end]) != std::string_view::npos) break;
    next_character(text, end);
  }
  if (end == 0) return 0;
  if (end < text.size() && text[end] == ';') ++end;
  for (size_t size = end; size > 1; --size) {
    const auto found = entities().find(text.substr(0, size));
    if (found == entities().end()) continue;
    out += found->second;
    return size;
  }
  return 0;
}

bool is_ascii_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

// [\w%-]+ with a number of characters within bounds.
bool is_label(std::string_view text, size_t least, size_t most) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const char32_t c = next_character(text, at);
    if (!is_word(c) && c != '%' && c != '-') return false;
  }
  return count >= least && count <= most;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_top_domain(std::string_view text) {
  if (text.size() >= 2 && text.size() <= 63 &&
      std::all_of(text.begin(), text.end(), is_ascii_letter)) {
    return true;
  }
  if (!text.starts_with("xn--")) return false;
  const std::string_view rest = text.substr(4);
  return is_label(rest, 2, 59) && rest.find('-') == std::string_view::npos;
}

// Any domain behind a scheme or "www."
bool is_host(std::string_view host) {
  std::vector<std::string_view> labels = split(host, '.');
  if (!is_top_domain(labels.back())) return false;
  labels.pop_back();
  return std::all_of(labels.begin(), labels.end(),
                     [](std::string_view label) { return is_label(label, 1, ~size_t{0}); });
}

bool is_known_domain(std::string_view host) {
  constexpr std::string_view kDomains[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
  std::vector<std::string_view> labels = split(host, '.');
  if (labels.size() < 2 ||
      std::find(std::begin(kDomains), std::end(kDomains), labels.back()) == std::end(kDomains)) {
    return false;
  }
  labels.pop_back();
  return std::all_of(labels.begin(), labels.end(),
                     [](std::string_view label) { return is_label(label, 2, 63); });
}

bool is_ipv4(std::string_view host) {
  const std::vector<std::string_view> parts = split(host, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return !part.empty() && part.size() <= 3 &&
                  std::all_of(part.begin(), part.end(), is_ascii_digit);
         });
}

// ([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}
bool is_ipv6(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 3) return false;
  size_t groups = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const bool is_hex = std::all_of(part.begin(), part.end(), [](char c) {
      return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    });
    if (!is_hex || (i < 2 && part.size() > 4)) return false;
    // Without colons between them several groups may stand together.
    if (i >= 2) groups += std::max<size_t>(1, (part.size() + 3) / 4);
  }
  if (parts.back().empty() && groups > 1) --groups;
  return groups <= 6;
}

// (?::\d{1,5})?(?:[/?#]\S*)?$
bool is_tail(std::string_view text) {
  if (text.starts_with(':')) {
    size_t digits = 1;
    while (digits < text.size() && is_ascii_digit(text[digits])) ++digits;
    if (digits == 1 || digits > 6) return false;
    text.remove_prefix(digits);
  }
  return text.empty() || text[0] == '/' || text[0] == '?' || text[0] == '#';
}

bool is_url(std::string_view given) {
  const std::string text = lower_ascii(given);
  std::string_view rest = text;
  const size_t scheme = rest.starts_with("http://") ? 7 : rest.starts_with("https://") ? 8 : 0;
  rest.remove_prefix(scheme);
  if (scheme != 0 && rest.starts_with('[')) {
    const size_t close = rest.find(']');
    return close != std::string_view::npos && is_ipv6(rest.substr(1, close - 1)) &&
           is_tail(rest.substr(close + 1));
  }
  const size_t end = std::min(rest.find_first_of(":/?#"), rest.size());
  const std::string_view host = rest.substr(0, end);
  if (!is_tail(rest.substr(end))) return false;
  if (scheme != 0 && (is_host(host) || is_ipv4(host))) return true;
  if (scheme != 0) return false;
  return (host.starts_with("www.") && is_host(host.substr(4))) || is_known_domain(host);
}

// ^\S+@\w[\w.-]*\.\w+$
bool is_email(std::string_view text) {
  const size_t at_sign = text.rfind('@');
  if (at_sign == std::string_view::npos || at_sign == 0) return false;
  const std::string_view domain = text.substr(at_sign + 1);
  const size_t dot = domain.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == domain.size()) return false;
  for (size_t at = 0; at < domain.size();) {
    const size_t begin = at;
    const char32_t c = next_character(domain, at);
    const bool fits_inside = c == '.' || c == '-';
    if (!is_word(c) && (begin == 0 || begin > dot || !fits_inside)) return false;
  }
  return true;
}

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++found;
  }
  return found;
}

struct Word {
  std::string_view head;
  std::string middle;
  std::string_view tail;
};

// Punctuation around a word is no part of a link.
Word dissect(std::string_view text) {
  Word word;
  size_t begin = 0;
  for (;;) {
    if (text.substr(begin).starts_with("&lt;")) {
      begin += 4;
    } else if (begin < text.size() && (text[begin] == '(' || text[begin] == '<')) {
      ++begin;
    } else {
      break;
    }
  }
  word.head = text.substr(0, begin);
  text.remove_prefix(begin);
  size_t end = text.size();
  for (;;) {
    if (text.substr(0, end).ends_with("&gt;")) {
      end -= 4;
    } else if (end > 0 &&
               std::string_view(")>.,\n").find(text[end - 1]) != std::string_view::npos) {
      --end;
    } else {
      break;
    }
  }
  word.tail = text.substr(end);
  word.middle = text.substr(0, end);
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (const auto& [open, close] : kPairs) {
    const size_t opened = count(word.middle, open);
    if (opened <= count(word.middle, close)) continue;
    // As many as open inside move from the tail back into the link.
    for (size_t left = std::min(opened, count(word.tail, close)); left > 0; --left) {
      const size_t stop = word.tail.find(close) + close.size();
      word.middle += word.tail.substr(0, stop);
      word.tail.remove_prefix(stop);
    }
  }
  return word;
}

std::string linked(const std::string& text, const UrlStyle& style, const std::string& attributes) {
  const std::string_view view(text);
  if (is_url(text)) {
    std::string shown = text;
    if (style.trim_limit >= 0 && count_characters(text) > static_cast<size_t>(style.trim_limit)) {
      shown.resize(byte_of_character(text, static_cast<size_t>(style.trim_limit)));
      shown += "...";
    }
    const bool has_scheme = view.starts_with("https://") || view.starts_with("http://");
    return fmt::format("<a href=\"{}{}\"{}>{}</a>", has_scheme ? "" : "https://", text, attributes,
                       shown);
  }
  if (view.starts_with("mailto:") && is_email(view.substr(7))) {
    return fmt::format("<a href=\"{}\">{}</a>", text, view.substr(7));
  }
  if (view.find('@') != std::string_view::npos && !view.starts_with("www.") &&
      !view.starts_with('@') && view.find(':') == std::string_view::npos && is_email(view)) {
    return fmt::format("<a href=\"mailto:{0}\">{0}</a>", text);
  }
  std::string out = text;
  for (const std::string& scheme : style.extra_schemes) {
    if (out == scheme || !out.starts_with(scheme)) continue;
    out = fmt::format("<a href=\"{0}\"{1}>{0}</a>", out, attributes);
  }
  return out;
}

}  // namespace

std::string unescape_html(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '&') {
      out += text[at++];
      continue;
    }
    const std::string_view rest = text.substr(at + 1);
    const size_t size = rest.starts_with('#') ? append_numeric(out, rest) : append_named(out, rest);
    if (size == 0) out += '&';
    at += size + 1;
  }
  return out;
}

std::string strip_tags(std::string_view text) {
  step_text(text.size());
  std::string kept;
  size_t at = 0;
  for (size_t start = text.find('<'); start != std::string_view::npos; start = text.find('<', at)) {
    const bool is_comment = text.substr(start).starts_with("<!--");
    size_t end = is_comment ? text.find("-->", start + 4) : text.find('>', start);
    if (end == std::string_view::npos) break;
    end += is_comment ? 3 : 1;
    kept += text.substr(at, start - at);
    at = end;
  }
  kept += text.substr(at);
  std::string single;
  bool has_space = false;
  for (size_t i = 0; i < kept.size();) {
    const size_t begin = i;
    if (is_space(next_character(kept, i))) {
      has_space = true;
      continue;
    }
    if (has_space && !single.empty()) single += ' ';
    has_space = false;
    single.append(kept, begin, i - begin);
  }
  return unescape_html(single);
}

bool is_uri_scheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.find_first_not_of('/', colon + 1) != text.npos ||
      text.size() - colon > 3) {
    return false;
  }
  size_t characters = 0;
  for (size_t at = 0; at < colon; ++characters) {
    const char32_t c = next_character(text, at);
    if (!is_word(c) && c != '.' && c != '+' && c != '-') return false;
  }
  return characters >= 2;
}

std::string urlize(std::string_view text, const UrlStyle& style) {
  std::string attributes;
  const auto escaped = [](std::string_view value) {
    std::string out;
    for (const char c : value) {
      const size_t place = std::string_view("&><'\"").find(c);
      constexpr std::string_view kNames[] = {"&amp;", "&gt;", "&lt;", "&#39;", "&#34;"};
      if (place == std::string_view::npos) {
        out += c;
      } else {
        out += kNames[place];
      }
    }
    return out;
  };
  if (!style.rel.empty()) attributes += " rel=\"" + escaped(style.rel) + "\"";
  if (!style.target.empty()) attributes += " target=\"" + escaped(style.target) + "\"";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    size_t end = at;
    const bool is_blank = is_space(next_character(text, at));
    for (end = at; at < text.size(); end = at) {
      if (is_space(next_character(text, at)) != is_blank) break;
    }
    at = end;
    const std::string_view part = text.substr(begin, end - begin);
    if (is_blank) {
      out += part;
      continue;
    }
    step_text(8 * part.size());
    const Word word = dissect(part);
    out += word.head;
    out += linked(word.middle, style, attributes);
    out += word.tail;
    if (out.size() > 4096) foresee(out.size() + 16 * part.size());
  }
  return out;
}

}  // namespace lathe::templates
