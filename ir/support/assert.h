// Assertions for driftc's own bugs. User mistakes never come here: they return a Result (result.h).
// A failed assertion prints expression, place and message and aborts; it stays on in release builds
// because a wrong number that is reported as right costs more than the check.
#pragma once

namespace driftc {
[[noreturn]] void assertion_failed(const char* expression, const char* message, const char* file,
                                   int line);
}  // namespace driftc

#define DRIFTC_ASSERT(condition, message)                                  \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::driftc::assertion_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
