#include "runtime/ptx/lexer.h"

namespace driftc::runtime::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool is_word_part(char c) { return is_word_start(c) || is_digit(c); }
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++at_;
      ++line_;
      line_begin_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() &&
             !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') {
          ++line_;
          line_begin_ = at_ + 1;
        }
        ++at_;
      }
      at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
    } else {
      return;
    }
  }
}

Token Lexer::number(Token token) {
  std::size_t begin = at_;
  int base = 10;
  std::size_t digits = 0;
  std::size_t max_digits = 0;  // 0: bounded by overflow only
  if (text_[at_] == '0' && at_ + 1 < text_.size()) {
    char mark = text_[at_ + 1];
    if (mark == 'x' || mark == 'X')
      base = 16, at_ += 2;
    else if (mark == 'b' || mark == 'B')
      base = 2, at_ += 2;
    else if (mark == 'f' || mark == 'F')
      base = 16, at_ += 2, max_digits = 8, token.kind = Token::Kind::kFloat32;
    else if (mark == 'd' || mark == 'D')
      base = 16, at_ += 2, max_digits = 16, token.kind = Token::Kind::kFloat64;
    else if (is_digit(mark))
      base = 8, at_ += 1;
  }
  bool good = true;
  std::uint64_t value = 0;
  while (at_ < text_.size() && digit_value(text_[at_]) < (base == 16 ? 16 : 10)) {
    std::uint64_t digit = static_cast<std::uint64_t>(digit_value(text_[at_]));
    std::uint64_t b = static_cast<std::uint64_t>(base);
    if (digit >= b || value > (~std::uint64_t{0} - digit) / b) good = false;
    value = value * b + digit;
    ++digits;
    ++at_;
  }
  if (max_digits)
    good = good && digits == max_digits;
  else if (at_ < text_.size() && (text_[at_] == 'U' || text_[at_] == 'u'))
    ++at_;
  if (digits == 0) good = false;
  if (at_ < text_.size() && is_word_part(text_[at_])) good = false;  // "12abc", "1.5"
  token.text = text_.substr(begin, at_ - begin);
  token.bits = value;
  if (!good) token.kind = Token::Kind::kBad;
  return token;
}

Token Lexer::next() {
  skip_blank();
  Token token;
  token.line = line_;
  token.column = static_cast<int>(at_ - line_begin_) + 1;
  if (at_ >= text_.size()) return token;
  std::size_t begin = at_;
  char c = text_[at_];
  if (is_digit(c)) {
    token.kind = Token::Kind::kInteger;
    return number(token);
  }
  if (is_word_start(c)) {
    while (at_ < text_.size() &&
           (is_word_part(text_[at_]) ||
            (text_[at_] == ':' && at_ + 1 < text_.size() && text_[at_ + 1] == ':'))) {
      at_ += text_[at_] == ':' ? 2 : 1;  // "shared::cta" is one word
    }
    token.kind = Token::Kind::kWord;
  } else if (c == '"') {
    std::size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') ++end;
    bool closed = end < text_.size() && text_[end] == '"';
    token.kind = closed ? Token::Kind::kString : Token::Kind::kBad;
    token.text = text_.substr(begin + 1, end - begin - 1);
    at_ = closed ? end + 1 : end;
    return token;
  } else {
    static constexpr std::string_view kPunctuation = "{}[]()<>,;:+-*=@!|";
    token.kind =
        kPunctuation.find(c) != std::string_view::npos ? Token::Kind::kPunct : Token::Kind::kBad;
    ++at_;
  }
  token.text = text_.substr(begin, at_ - begin);
  return token;
}

}  // namespace driftc::runtime::ptx
