#include "frontend/cli/interrupt.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

namespace driftc::frontend {
namespace {

// What an interrupt has to clean. The one piece of state that outlives a command: signals are
// global too.
struct Registry {
  std::recursive_mutex mutex;
  std::vector<const Temporary*> temporaries;
  std::vector<std::string> folders;  // with unfinished entries of the kernel cache
};
Registry& registry() {
  static Registry* const kRegistry = new Registry;  // never destroyed: the watcher may outlive main
  return *kRegistry;
}

void remove(const std::string& path, Temporary::Remove how) {
  std::error_code error;
  if (how == Temporary::Remove::kAlways)
    std::filesystem::remove_all(path, error);
  else
    std::filesystem::remove(path, error);
}

void clean() {
  namespace fs = std::filesystem;
  std::error_code error;
  // Newest first: what lies inside goes before the folder around it.
  const auto& all = registry().temporaries;
  for (auto it = all.rbegin(); it != all.rend(); ++it) remove((*it)->path(), (*it)->how());
  const std::string mark = fmt::format(".tmp.{}.", ::getpid());
  for (const std::string& folder : registry().folders)
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->path().filename().string().find(mark) != std::string::npos) {
        std::error_code ignored;
        fs::remove(it->path(), ignored);
      }
}

}  // namespace

void watch_for_interrupts() {
  registry();
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) return;
    registry().mutex.lock();  // kept: nothing may be registered or committed any more
    clean();
    std::fputs(signal == SIGINT ? "\ndriftc: interrupted\n" : "\ndriftc: terminated\n", stderr);
    std::fflush(stderr);
    ::_exit(signal == SIGINT ? 130 : 143);
  }).detach();
}

WriteLock::WriteLock() { registry().mutex.lock(); }
WriteLock::~WriteLock() { registry().mutex.unlock(); }

namespace {

std::array<char, 4096> crash_message;  // filled before a handler can run

// Only calls that are safe in a signal handler.
[[noreturn]] void on_crash(int) {
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, crash_message.data(), std::strlen(crash_message.data()));
  ::_exit(4);
}

}  // namespace

void report_crashes(const std::string& command_line) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr bool kSanitized = true;  // the sanitizer's own report says more
#else
  constexpr bool kSanitized = false;
#endif
  if (kSanitized) return;
  const auto end = fmt::format_to_n(
      crash_message.data(), crash_message.size() - 1,
      "error: this is a fault of driftc, please report it\n  note: the command was: {}\n",
      command_line);
  *end.out = '\0';
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_crash);
}

Temporary::Temporary(std::string path, Remove remove) : path_(std::move(path)), remove_(remove) {
  const WriteLock lock;
  registry().temporaries.push_back(this);
}

Temporary::~Temporary() {
  const WriteLock lock;
  remove(path_, remove_);
  auto& all = registry().temporaries;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
}

void remove_unfinished_in(std::string folder) {
  const WriteLock lock;
  registry().folders.push_back(std::move(folder));
}

}  // namespace driftc::frontend
