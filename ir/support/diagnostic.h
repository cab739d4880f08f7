// What a user is told when something is wrong: one message with a place, the facts and a next step.
// Rendered form (file:line:column, the source line, a caret, a hint) is `render`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace driftc {

// Exit code of the process that reports the error (docs: product.md, "Exit").
enum class ErrorKind {
  kInput = 2,        // bad usage or bad input
  kUnavailable = 3,  // NVRTC, a GPU, cuDNN ... is needed and absent
  kInternal = 4,     // driftc's own fault: a generated kernel was rejected
  kInterrupted = 130,
};

// A position in a text file. line and column count from 1; 0 means "not known".
struct SourcePlace {
  std::string file;
  int line = 0;
  int column = 0;
  friend bool operator==(const SourcePlace&, const SourcePlace&) = default;
};

struct Diagnostic {
  ErrorKind kind = ErrorKind::kInput;
  SourcePlace place;        // empty file: no place in a text
  std::string message;      // one sentence, no trailing full stop
  std::string source_line;  // the line of `place`, for the caret; may be empty
  int caret_length = 1;
  std::string hint;  // what would be accepted; may be empty
  std::vector<std::string> notes;

  // "file:line:column: error: message", source line with caret, notes, hint; ends with '\n'.
  std::string render() const;
};

inline Diagnostic input_error(std::string message, std::string hint = {}) {
  Diagnostic d;
  d.message = std::move(message);
  d.hint = std::move(hint);
  return d;
}
inline Diagnostic unavailable(std::string message, std::string hint = {}) {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  d.kind = ErrorKind::kUnavailable;
  return d;
}
inline Diagnostic internal_error(std::string message, std::string hint = {}) {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  d.kind = ErrorKind::kInternal;
  return d;
}

// The candidate nearest to `name` by edit distance, or "" when none is near (at most a third of the
// letters differ). For "did you mean" hints.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);
// "did you mean 'x'?" or "known: a, b, c" when nothing is near.
std::string name_hint(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace driftc
