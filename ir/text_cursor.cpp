#include "ir/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace driftc::ir {

void TextCursor::skip() {
  while (at_ < text_.size()) {
    const char ch = text_[at_];
    if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r') {
      ++at_;
    } else if (ch == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool TextCursor::done() {
  skip();
  return at_ == text_.size();
}

char TextCursor::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::accept(std::string_view token) {
  skip();
  if (!text_.substr(at_).starts_with(token)) return false;
  const char last = token.back();
  const std::size_t end = at_ + token.size();
  if (word_char(last) && end < text_.size() && word_char(text_[end])) return false;
  at_ = end;
  return true;
}

std::string_view TextCursor::word() {
  skip();
  const std::size_t start = at_;
  while (at_ < text_.size() && word_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view TextCursor::raw(std::string_view stops) {
  skip();
  const std::size_t start = at_;
  int depth = 0;
  while (at_ < text_.size() && text_[at_] != '\n') {
    if (text_[at_] == '(') ++depth;
    if (text_[at_] == ')') --depth;
    if (depth <= 0 && stops.find(text_[at_]) != std::string_view::npos) break;
    ++at_;
  }
  return text_.substr(start, at_ - start);
}

std::string_view TextCursor::number_token() {
  skip();
  const std::size_t start = at_;
  if (at_ < text_.size() && text_[at_] == '-') ++at_;
  while (at_ < text_.size()) {
    const char ch = text_[at_];
    const char before = at_ > start ? text_[at_ - 1] : '\0';
    const bool sign = (ch == '-' || ch == '+') && (before == 'p' || before == 'e' || before == 'P');
    if (!sign && !(word_char(ch) && ch != '_') && ch != '(') break;
    if (ch == '(') {
      if (text_.substr(start, at_ - start) != "nan") break;
      while (at_ < text_.size() && text_[at_] != ')' && text_[at_] != '\n') ++at_;
      if (at_ < text_.size() && text_[at_] == ')') ++at_;
      break;
    }
    ++at_;
  }
  return text_.substr(start, at_ - start);
}

Diagnostic TextCursor::error_at(std::size_t at, std::string message, std::string hint,
                                std::size_t length) const {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  const std::size_t begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;
  std::size_t end = text_.find('\n', at);
  if (end == std::string_view::npos) end = text_.size();
  d.place = {file_, line_at(at), static_cast<int>(at - begin) + 1};
  d.source_line = std::string(text_.substr(begin, std::min<std::size_t>(end - begin, 200)));
  d.caret_length = static_cast<int>(length);
  return d;
}

int TextCursor::line_at(std::size_t at) const {
  if (at < counted_at_) {
    counted_at_ = 0;
    counted_line_ = 1;
  }
  for (; counted_at_ < at; ++counted_at_)
    if (text_[counted_at_] == '\n') ++counted_line_;
  return counted_line_;
}

Diagnostic TextCursor::error(std::string message, std::string hint) {
  skip();
  return error_at(at_, std::move(message), std::move(hint));
}

Result<void> TextCursor::expect(std::string_view token) {
  if (accept(token)) return {};
  return error(fmt::format("expected '{}'", token));
}

Result<std::string> TextCursor::quoted_string() {
  skip();
  const std::size_t start = at_;
  if (at_ >= text_.size() || text_[at_] != '"') return error("expected a quoted string");
  ++at_;
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
    if (text_[at_] != '\\') {
      out += text_[at_++];
      continue;
    }
    const char ch = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    at_ += 2;
    if (ch == 'n') {
      out += '\n';
    } else if (ch == '"' || ch == '\\') {
      out += ch;
    } else if (ch == 'x' && at_ + 2 <= text_.size()) {
      unsigned value = 0;
      auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + at_ + 2, value, 16);
      if (code != std::errc() || end != text_.data() + at_ + 2)
        return error_at(at_, "expected two hex digits after \\x");
      out += static_cast<char>(value);
      at_ += 2;
    } else {
      return error_at(at_ - 2, "unknown escape", "escapes are \\\" \\\\ \\n \\xHH");
    }
  }
  if (at_ >= text_.size() || text_[at_] != '"') return error_at(start, "string is not closed");
  ++at_;
  return out;
}

Result<std::string> TextCursor::name(char sigil) {
  skip();
  const std::size_t start = at_;
  if (at_ >= text_.size() || text_[at_] != sigil)
    return error(fmt::format("expected a name that starts with '{}'", sigil));
  ++at_;
  if (at_ < text_.size() && text_[at_] == '"') return quoted_string();
  const std::size_t begin = at_;
  while (at_ < text_.size() && word_char(text_[at_])) ++at_;
  if (at_ == begin) return error_at(start, "empty name", "other characters need quotes: %\"a/b\"");
  return std::string(text_.substr(begin, at_ - begin));
}

Result<std::int64_t> TextCursor::integer() {
  skip();
  const std::size_t start = at_;
  const std::string_view token = number_token();
  std::int64_t value = 0;
  auto [end, code] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (token.empty() || code != std::errc() || end != token.data() + token.size())
    return error_at(start, "expected an integer", {}, std::max<std::size_t>(1, token.size()));
  return value;
}

Result<std::vector<std::int64_t>> TextCursor::integers() {
  DRIFTC_CHECK(expect("["));
  std::vector<std::int64_t> out;
  if (accept("]")) return out;
  do {
    DRIFTC_TRY(v, integer());
    out.push_back(v);
  } while (accept(","));
  DRIFTC_CHECK(expect("]"));
  return out;
}

bool TextCursor::word_char(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
         ch == '_' || ch == '.';
}

}  // namespace driftc::ir
