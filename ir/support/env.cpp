#include "ir/support/env.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace driftc {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split_path(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = text.find(':', begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// lib/python3.*/site-packages of a virtual environment, if there.
void add_site_packages(const fs::path& venv, std::vector<std::string>& out) {
  std::error_code error;
  for (fs::directory_iterator it(venv / "lib", error), end; !error && it != end;
       it.increment(error)) {
    fs::path site = it->path() / "site-packages";
    std::error_code missing;
    if (it->path().filename().string().starts_with("python3") && fs::is_directory(site, missing))
      out.push_back(site.string());
  }
}

// `.deps` (a folder of virtual environments, or one itself) in `start` or a folder above it.
void add_deps_above(fs::path start, std::vector<std::string>& out) {
  for (int depth = 0; depth < 8; ++depth) {
    fs::path deps = start / ".deps";
    std::error_code error;
    if (fs::is_directory(deps, error)) {
      add_site_packages(deps, out);
      for (fs::directory_iterator it(deps, error), end; !error && it != end; it.increment(error))
        add_site_packages(it->path(), out);
      return;
    }
    if (!start.has_parent_path() || start.parent_path() == start) return;
    start = start.parent_path();
  }
}

}  // namespace

Settings Settings::from_env() {
  Settings s;
  std::string bless = variable("DRIFTC_BLESS");
  s.bless = !bless.empty() && bless != "0";
  s.dump_dir = variable("DRIFTC_DUMP_DIR");
  s.cache_dir = variable("DRIFTC_CACHE_DIR");
  if (s.cache_dir.empty()) {
    std::string base = variable("XDG_CACHE_HOME");
    std::string home = variable("HOME");
    if (!base.empty())
      s.cache_dir = base + "/driftc";
    else if (!home.empty())
      s.cache_dir = home + "/.cache/driftc";
  }
  s.executor = variable("DRIFTC_EXECUTOR");
  s.tensorcore_data = variable("DRIFTC_TENSORCORE_DATA");
  s.library_path = split_path(variable("DRIFTC_LIBRARY_PATH"));
  std::string venv = variable("VIRTUAL_ENV");
  if (!venv.empty()) add_site_packages(venv, s.wheel_roots);
  std::error_code error;
  fs::path binary = fs::read_symlink("/proc/self/exe", error);
  if (!error) add_deps_above(binary.parent_path(), s.wheel_roots);
  fs::path cwd = fs::current_path(error);
  if (!error) add_deps_above(cwd, s.wheel_roots);
  return s;
}

}  // namespace driftc
