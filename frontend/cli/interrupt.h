// Ctrl-C leaves no half-written file. A thread waits for SIGINT and SIGTERM (so that the cleaning
// code is ordinary code), removes what is registered here and ends the process with 130 (143 for
// SIGTERM).
#pragma once

#include <cstdint>
#include <string>

namespace driftc::frontend {

// Call once, before any other thread starts: they inherit the blocked signals.
void watch_for_interrupts();

// Held while a file is written or moved: an interrupt then waits until the file is whole, and no
// file is begun after it. Recursive.
class WriteLock {
 public:
  WriteLock();
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;
};

// A crash (failed assertion, bad memory access) ends with 4 and says how to report it. The command
// line is copied. Not under sanitizers, which report better.
void report_crashes(const std::string& command_line);

// A file or folder that must not survive an interrupt or an error, for the life of the object.
class Temporary {
 public:
  enum class Remove : std::uint8_t { kAlways, kWhenEmpty };  // kWhenEmpty: a folder made for output
  explicit Temporary(std::string path, Remove remove = Remove::kAlways);
  ~Temporary();  // removes what is still there
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }
  Remove how() const { return remove_; }

 private:
  std::string path_;
  Remove remove_;
};

// Files in `folder` whose name holds ".tmp.<this process>." are removed on an interrupt as well
// (the kernel cache names its unfinished entries so).
void remove_unfinished_in(std::string folder);

}  // namespace driftc::frontend
