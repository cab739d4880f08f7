#include "ir/support/dynlib.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace driftc;
namespace fs = std::filesystem;

namespace {
fs::path scratch(const char* name) {
  fs::path p = fs::temp_directory_path() / ("driftc_dynlib_" + std::string(name));
  fs::remove_all(p);
  fs::create_directories(p);
  return p;
}
}  // namespace

TEST_CASE("dynlib: a library of the system is found and its symbols are called") {
  Settings settings;
  LibraryReport report;
  auto library = open_library({"libm", {"libm.so.6"}, {}, ""}, settings, &report);
  REQUIRE(library.ok());
  CHECK(report.path == library->path());
  auto* cosine = library->function<double(double)>("cos");
  REQUIRE((cosine != nullptr));
  CHECK(cosine(0.0) == 1.0);
  CHECK(library->symbol("no_such_symbol_here") == nullptr);
}

TEST_CASE("dynlib: what is missing is unavailable, with the places tried and the hint") {
  Settings settings;
  settings.library_path = {scratch("empty").string()};
  LibraryReport report;
  auto library =
      open_library({"Nothing", {"libdriftc-nothing.so.3"}, {}, "get it there"}, settings, &report);
  REQUIRE_FALSE(library.ok());
  CHECK(library.error().kind == ErrorKind::kUnavailable);
  CHECK(library.error().render().find("Nothing was not found") != std::string::npos);
  CHECK(library.error().hint == "get it there");
  CHECK(report.path.empty());
  REQUIRE_FALSE(report.attempts.empty());
  CHECK(report.attempts[0].outcome == "not there");
}

TEST_CASE("dynlib: the override comes first, stubs and broken files are passed over") {
  std::string real;
  {
    auto zlib = open_library({"zlib", {"libz.so.1"}, {}, ""}, Settings{});
    REQUIRE(zlib.ok());
    real = zlib->path();
  }
  fs::path folder = scratch("override"), stubs = folder / "stubs", broken = folder / "broken",
           good = folder / "good";
  for (const fs::path& p : {stubs, broken, good}) fs::create_directories(p);
  fs::copy_file(real, stubs / "libdriftc-test.so.1");
  std::ofstream(broken / "libdriftc-test.so.1") << "not a library";
  fs::copy_file(real, good / "libdriftc-test.so.1");
  Settings settings;
  settings.library_path = {stubs.string(), broken.string(), good.string()};
  LibraryReport report;
  auto library = open_library({"test", {"libdriftc-test.so.2", "libdriftc-test.so.1"}, {}, ""},
                              settings, &report);
  REQUIRE(library.ok());
  CHECK(library->path() == fs::canonical(good / "libdriftc-test.so.1").string());
  bool stub = false, bad = false;
  for (const LibraryAttempt& a : report.attempts) {
    stub = stub || a.outcome == "stub, never loaded";
    bad = bad || (a.path.find("/broken/") != std::string::npos && a.outcome != "not there" &&
                  a.outcome != "loaded");
  }
  CHECK(stub);
  CHECK(bad);

  // A wheel's folder: <site-packages>/nvidia/<package>/lib.
  fs::path wheel = folder / "site" / "nvidia" / "cu13" / "lib";
  fs::create_directories(wheel);
  fs::copy_file(real, wheel / "libdriftc-wheel.so.1");
  Settings wheels;
  wheels.wheel_roots = {(folder / "site").string()};
  auto from_wheel = open_library({"wheel", {"libdriftc-wheel.so.1"}, {}, ""}, wheels);
  REQUIRE(from_wheel.ok());
  CHECK(from_wheel->path() == fs::canonical(wheel / "libdriftc-wheel.so.1").string());
}

TEST_CASE("env: settings come from the environment") {
  ::setenv("DRIFTC_LIBRARY_PATH", "/a::/b/c", 1);
  ::setenv("DRIFTC_CACHE_DIR", "/tmp/some-cache", 1);
  Settings s = Settings::from_env();
  CHECK(s.library_path == std::vector<std::string>{"/a", "/b/c"});
  CHECK(s.cache_dir == "/tmp/some-cache");
  ::unsetenv("DRIFTC_LIBRARY_PATH");
  ::unsetenv("DRIFTC_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  CHECK(Settings::from_env().cache_dir == "/x/driftc");
  ::unsetenv("XDG_CACHE_HOME");
}
