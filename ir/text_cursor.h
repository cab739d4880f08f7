// A cursor over the text of a graph with line and column, and the primitive tokens. Private to the
// parser (parser.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"

namespace driftc::ir {

class TextCursor {
 public:
  TextCursor(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void skip();
  std::size_t at() const { return at_; }
  void rewind(std::size_t at) { at_ = at; }
  bool done();
  char peek();
  bool accept(std::string_view token);
  std::string_view word();
  // Everything up to one of `stops` outside parentheses and on this line.
  std::string_view raw(std::string_view stops);
  std::string_view number_token();
  Diagnostic error_at(std::size_t at, std::string message, std::string hint = {},
                      std::size_t length = 1) const;
  // Lines are counted forward from the last position asked for: parsing asks in ascending order.
  int line_at(std::size_t at) const;
  Diagnostic error(std::string message, std::string hint = {});
  const std::string& file() const { return file_; }
  Result<void> expect(std::string_view token);
  Result<std::string> quoted_string();
  // %name or @name.
  Result<std::string> name(char sigil);
  Result<std::int64_t> integer();
  Result<std::vector<std::int64_t>> integers();

 private:
  static bool word_char(char ch);

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  mutable std::size_t counted_at_ = 0;
  mutable int counted_line_ = 1;
};

}  // namespace driftc::ir
