#include "frontend/cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;

std::string system_message() { return std::strerror(errno); }

Diagnostic cannot_write(const std::string& path, const std::string& why) {
  return input_error(fmt::format("cannot write '{}': {}", path, why));
}

bool write_all(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int saved = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written) errno = saved;
  return written && closed;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return input_error(fmt::format("cannot read '{}': it is a folder", path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    return input_error(fmt::format("cannot read '{}': {}", path, system_message()));
  std::string out;
  char buffer[1 << 16];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) out.append(buffer, got);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return input_error(fmt::format("cannot read '{}': {}", path, system_message()));
  return out;
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  std::error_code error;
  // A device or a pipe (/dev/stdout, >(...)) cannot be replaced by a rename: it is written
  // directly.
  const fs::file_status status = fs::status(path, error);
  if (!error && fs::exists(status) && !fs::is_regular_file(status)) {
    if (fs::is_directory(status)) return cannot_write(path, "it is a folder");
    if (!write_all(path, bytes)) return cannot_write(path, system_message());
    return {};
  }
  const WriteLock lock;
  const Temporary temporary(fmt::format("{}.tmp.{}", path, ::getpid()));
  if (!write_all(temporary.path(), bytes)) return cannot_write(path, system_message());
  if (std::rename(temporary.path().c_str(), path.c_str()) != 0)
    return cannot_write(path, system_message());
  return {};
}

Result<void> check_can_write(const std::string& path) {
  if (path.empty() || path == "-") return {};
  std::error_code error;
  if (fs::is_directory(path, error)) return cannot_write(path, "it is a folder");
  const fs::path folder = fs::absolute(path, error).parent_path();
  if (!fs::is_directory(folder, error)) return cannot_write(path, "there is no such folder");
  if (!fs::exists(path, error) && ::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_write(path, system_message());
  return {};
}

const std::string& FileNames::of(const std::string& value_name) {
  if (auto known = by_value_.find(value_name); known != by_value_.end()) return known->second;
  std::string safe;
  for (char c : value_name) {
    const bool kept = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-';
    safe += kept ? c : '_';
  }
  const bool special = safe.empty() || safe == "." || safe == "..";
  if (special) safe.assign(1, '_');
  std::string name = safe;
  for (std::size_t n = 2; taken_.count(name) != 0; ++n) name = fmt::format("{}.{}", safe, n);
  taken_[name] = 1;
  return by_value_[value_name] = name;
}

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {}

Result<std::unique_ptr<OutputFolder>> OutputFolder::create(const std::string& path) {
  auto out = std::unique_ptr<OutputFolder>(new OutputFolder(path));
  const WriteLock lock;
  std::error_code error;
  // The folders that are made, outermost first: on failure they go again.
  fs::path folder = fs::absolute(path, error);
  std::vector<fs::path> missing;
  for (; !fs::exists(folder, error) && folder.has_relative_path(); folder = folder.parent_path())
    missing.push_back(folder);
  for (auto it = missing.rbegin(); it != missing.rend(); ++it)
    out->made_.push_back(std::make_unique<Temporary>(it->string(), Temporary::Remove::kWhenEmpty));
  fs::create_directories(path, error);
  if (error) return cannot_write(path, error.message());
  out->staging_ = std::make_unique<Temporary>(
      (fs::path(path) / fmt::format(".driftc.tmp.{}", ::getpid())).string());
  fs::create_directory(out->staging_->path(), error);
  if (error) return cannot_write(path, error.message());
  return out;
}

OutputFolder::~OutputFolder() {
  staging_.reset();
  while (!made_.empty()) made_.pop_back();  // innermost first
}

Result<void> OutputFolder::add(const std::string& relative_path, std::string_view bytes) {
  const WriteLock lock;
  const fs::path file = fs::path(staging_->path()) / relative_path;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return cannot_write(relative_path, error.message());
  if (!write_all(file.string(), bytes))
    return cannot_write((fs::path(path_) / relative_path).string(), system_message());
  return {};
}

Result<void> OutputFolder::commit() {
  const WriteLock lock;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(staging_->path(), error), end; !error && it != end;
       it.increment(error))
    if (!it->is_directory()) files.push_back(it->path());
  if (error) return cannot_write(path_, error.message());
  for (const fs::path& file : files) {
    const fs::path target = fs::path(path_) / file.lexically_relative(staging_->path());
    fs::create_directories(target.parent_path(), error);
    if (!error) fs::rename(file, target, error);
    if (error) return cannot_write(target.string(), error.message());
  }
  return {};
}

Terminal Terminal::detect() {
  return {.stdout_is_terminal = ::isatty(STDOUT_FILENO) == 1,
          .stderr_is_terminal = ::isatty(STDERR_FILENO) == 1};
}

Result<void> print(std::string_view text, bool to_stderr) {
  std::FILE* stream = to_stderr ? stderr : stdout;
  if (std::fwrite(text.data(), 1, text.size(), stream) != text.size() || std::fflush(stream) != 0)
    return input_error(
        fmt::format("cannot write to {}: {}", to_stderr ? "stderr" : "stdout", system_message()));
  return {};
}

void note(std::string_view text) {
  // On a terminal a line of progress may stand there.
  const char* clear = ::isatty(STDERR_FILENO) == 1 ? "\r\x1b[K" : "";
  const std::string line = fmt::format("{}driftc: {}\n", clear, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string shell_quoted(const std::string& argument) {
  const bool plain =
      !argument.empty() && argument.find_first_not_of(
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_-./:=,+@%") == std::string::npos;
  if (plain) return argument;
  std::string out = "'";
  for (char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void Progress::show(const std::string& line) {
  if (!enabled_) return;
  std::fprintf(stderr, "\r\x1b[K%.78s", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace driftc::frontend
