// Result<T>: a value or a Diagnostic. Errors of users (bad files, bad flags, missing libraries)
// travel as Result; exceptions do not cross a folder border.
//
//   Result<Graph> load(std::string_view path) {
//     DRIFTC_TRY(text, read_file(path));      // declares `text`, returns the error otherwise
//     DRIFTC_CHECK(validate(text));           // for Result<void>
//     return parse(text, path);
//   }
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "ir/support/assert.h"
#include "ir/support/diagnostic.h"

namespace driftc {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  Result(Diagnostic error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    DRIFTC_ASSERT(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  const T& value() const& {
    DRIFTC_ASSERT(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && {
    DRIFTC_ASSERT(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Diagnostic& error() const {
    DRIFTC_ASSERT(!ok(), "error() of a good Result");
    return std::get<1>(state_);
  }
  Diagnostic& error() {
    DRIFTC_ASSERT(!ok(), "error() of a good Result");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Diagnostic> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Diagnostic error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Diagnostic& error() const {
    DRIFTC_ASSERT(!ok(), "error() of a good Result");
    return *error_;
  }
  Diagnostic& error() {
    DRIFTC_ASSERT(!ok(), "error() of a good Result");
    return *error_;
  }

 private:
  std::optional<Diagnostic> error_;
};

}  // namespace driftc

#define DRIFTC_CONCAT_(a, b) a##b
#define DRIFTC_CONCAT(a, b) DRIFTC_CONCAT_(a, b)
#define DRIFTC_TRY(name, ...)                                                                     \
  auto DRIFTC_CONCAT(name, _result) = (__VA_ARGS__);                                              \
  if (!DRIFTC_CONCAT(name, _result).ok()) return std::move(DRIFTC_CONCAT(name, _result).error()); \
  auto& name = DRIFTC_CONCAT(name, _result).value()
#define DRIFTC_CHECK(...)                                                         \
  do {                                                                            \
    auto driftc_check_result = (__VA_ARGS__);                                     \
    if (!driftc_check_result.ok()) return std::move(driftc_check_result.error()); \
  } while (false)
