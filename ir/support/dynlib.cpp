#include "ir/support/dynlib.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

namespace driftc {
namespace {

namespace fs = std::filesystem;

bool is_stub(const std::string& path) { return path.find("/stubs/") != std::string::npos; }

std::string real_path(const std::string& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path, error);
  return error ? path : resolved.string();
}

std::string path_of_handle(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
    return real_path(map->l_name);
  return fallback;
}

// Sorted listing, so that the search does not depend on the order of the directory.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> wheel_folders(const Settings& settings) {
  std::vector<std::string> out;
  for (const std::string& root : settings.wheel_roots) {
    std::vector<fs::path> packages = entries(fs::path(root) / "nvidia");
    // Newest first: cu13 sorts after cu12 and after the older per-library folders' names do not
    // matter.
    std::reverse(packages.begin(), packages.end());
    for (const fs::path& package : packages) {
      std::error_code error;
      if (fs::is_directory(package / "lib", error)) out.push_back((package / "lib").string());
    }
  }
  return out;
}

std::vector<std::string> cuda_prefix_folders() {
  std::vector<std::string> out;
  std::vector<fs::path> found = entries("/usr/local");
  std::reverse(found.begin(), found.end());  // cuda-13.x before cuda-12.x; plain "cuda" last
  for (const fs::path& path : found)
    if (path.filename().string().starts_with("cuda")) out.push_back((path / "lib64").string());
  return out;
}

void open_helpers(const LibrarySpec& spec, const std::string& folder) {
  for (const std::string& pattern : spec.helpers) {
    std::string prefix = pattern;
    bool any_version = prefix.ends_with('*');
    if (any_version) prefix.pop_back();
    for (const fs::path& path : entries(folder)) {
      std::string file = path.filename().string();
      if (any_version ? file.starts_with(prefix) : file == prefix) {
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) break;
      }
    }
  }
}

}  // namespace

void* SharedLibrary::symbol(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

Result<SharedLibrary> open_library(const LibrarySpec& spec, const Settings& settings,
                                   LibraryReport* report) {
  LibraryReport local;
  LibraryReport& log = report ? *report : local;
  log = {};
  log.name = spec.name;
  SharedLibrary library;
  auto accept = [&](void* handle, const std::string& fallback) {
    std::string path = path_of_handle(handle, fallback);
    if (is_stub(path)) {
      log.attempts.push_back({path, "stub, never loaded"});
      dlclose(handle);
      return false;
    }
    log.attempts.push_back({path, "loaded"});
    log.path = path;
    library.handle_ = handle;
    library.path_ = path;
    return true;
  };
  auto try_folder = [&](const std::string& folder) {
    for (const std::string& soname : spec.sonames) {
      std::string path = folder + "/" + soname;
      std::error_code error;
      if (!fs::exists(path, error)) {
        log.attempts.push_back({path, "not there"});
        continue;
      }
      if (is_stub(path) || is_stub(real_path(path))) {
        log.attempts.push_back({path, "stub, never loaded"});
        continue;
      }
      open_helpers(spec, folder);
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (accept(handle, path)) return true;
      } else {
        const char* message = dlerror();
        log.attempts.push_back({path, message ? message : "cannot be loaded"});
      }
    }
    return false;
  };

  for (const std::string& folder : settings.library_path)
    if (try_folder(folder)) return library;
  for (const std::string& soname : spec.sonames)
    if (void* handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD))
      if (accept(handle, soname)) return library;
  for (const std::string& folder : wheel_folders(settings))
    if (try_folder(folder)) return library;
  for (const std::string& soname : spec.sonames) {
    // Path unknown before loading, so a stub on the loader's path is recognised after the fact and
    // dropped.
    if (void* handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (accept(handle, soname)) {
        open_helpers(spec, fs::path(library.path_).parent_path().string());
        return library;
      }
    } else {
      const char* message = dlerror();
      log.attempts.push_back({soname, message ? message : "not found by the loader"});
    }
  }
  for (const std::string& folder : cuda_prefix_folders())
    if (try_folder(folder)) return library;

  Diagnostic d = unavailable(spec.name + " was not found", spec.hint);
  std::size_t shown = 0;
  for (const LibraryAttempt& attempt : log.attempts) {
    if (attempt.outcome == "not there") continue;
    if (++shown > 4) break;
    d.notes.push_back(attempt.path + ": " + attempt.outcome);
  }
  return d;
}

}  // namespace driftc
