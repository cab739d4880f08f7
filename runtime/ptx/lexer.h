// PTX text -> tokens, one at a time, with line and column. Comments and white space vanish.
#pragma once

#include <cstdint>
#include <string_view>

namespace driftc::runtime::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kWord,     // "ld.global.nc.f32", ".reg", "%r1", "$L__BB0_2", "%tid.x"
    kInteger,  // value in `bits`; 0x, 0b and octal forms, an optional U
    kFloat32,  // 0f3F800000
    kFloat64,  // 0d3FF0000000000000
    kString,   // text without the quotes
    kPunct,    // one character
    kBad,      // not PTX; `text` is the character or the overlong number
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  std::uint64_t bits = 0;
  int line = 1;
  int column = 1;

  bool is(char c) const { return kind == Kind::kPunct && text[0] == c; }
  bool is_word(std::string_view w) const { return kind == Kind::kWord && text == w; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

 private:
  void skip_blank();
  Token number(Token token);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
};

}  // namespace driftc::runtime::ptx
