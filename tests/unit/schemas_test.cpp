// docs/schema: every document that driftc writes has its schema, and what the commands write
// follows it. Documents of other test cases are held to their schemas by run_command.
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "codegen/nvrtc.h"
#include "tests/support/command_line.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using frontend::Json;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = DRIFTC_SOURCE_DIR;

// "compare-1" of every literal "driftc.compare/1" in the sources of `folder`.
std::set<std::string> documents_of(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".h") continue;
    const std::string text = tests::read_file(entry.path()), mark = "\"driftc.";
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
      at += mark.size();
      std::string name = text.substr(at, text.find('"', at) - at);
      const std::size_t slash = name.find('/');
      if (slash == std::string::npos || name.find_first_of(" \n") != std::string::npos) continue;
      out.insert(name.replace(slash, 1, "-"));
    }
  }
  return out;
}

Json schema_of(const std::string& document) {
  return Json::parse(tests::read_file(kSource / "docs/schema" / (document + ".json")));
}

// What `command` writes to stdout, as a document of the schema and as nothing else.
Json follows(const std::string& document, const std::string& command) {
  CAPTURE(command);
  const tests::Outcome outcome = tests::run_command(command, tests::TemporaryFolder());
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  Json json = Json::parse(outcome.out);
  const Json schema = schema_of(document);
  CHECK(json["schema"] == schema["properties"]["schema"]["const"]);
  CHECK(tests::schema_faults(schema, json) == "");
  // Closed, and every field is required.
  for (const auto& [name, value] : json.items()) {
    Json less = json;
    less.erase(name);
    CHECK(tests::schema_faults(schema, less) == "$: lacks '" + name + "'\n");
  }
  Json more = json;
  more["surprise"] = 1;
  CHECK(tests::schema_faults(schema, more) == "$: 'surprise' is not in the schema\n");
  return json;
}

}  // namespace

TEST_CASE("schemas: every document has one, and docs/cli.md names it") {
  const std::set<std::string> documents = documents_of(kSource / "frontend");
  CHECK(documents.size() >= 13);
  const std::string page = tests::read_file(kSource / "docs/cli.md");
  for (const std::string& document : documents) {
    CAPTURE(document);
    REQUIRE(fs::exists(kSource / "docs/schema" / (document + ".json")));
    std::string name = "driftc." + document;
    name[name.rfind('-')] = '/';
    const Json schema = schema_of(document);
    CHECK(schema["title"] == name);
    CHECK(schema["properties"]["schema"]["const"] == name);
    CHECK(page.find("schema/" + document + ".json") != std::string::npos);
  }
  // And no schema outlives its document.
  for (const auto& entry : fs::directory_iterator(kSource / "docs/schema"))
    CHECK_MESSAGE(documents.count(entry.path().stem()) == 1, entry.path().string());
}

TEST_CASE("schemas: tables of this build and of this machine") {
  follows("passes-1", "driftc passes --json -");
  follows("devices-1", "driftc devices --json -");
  follows("zoo-1", "driftc zoo --json -");
  follows("doctor-1", "driftc doctor --json -");
  // Nothing found, and no folder for a cache: the fields that are null then.
  const Json bare = follows("doctor-1",
                            "DRIFTC_LIBRARY_PATH=/nowhere CUDA_VISIBLE_DEVICES=-1 HOME= "
                            "XDG_CACHE_HOME= DRIFTC_CACHE_DIR= driftc doctor --json -");
  CHECK(bare["kernel_cache"]["folder"].is_null());
  CHECK(bare["kernel_cache"]["writable"] == false);
}

// Kernels that other cases compile, too.
TEST_CASE("schemas: sweeps and times") {
  const Json recorded = follows("bench-1", "driftc bench zoo:residual-block --runs 1 --json -");
  CHECK(recorded["kernels"].size() >= 2);
  CHECK(recorded["tuning"].is_null());
  if (!codegen::Nvrtc::load(Settings::from_env()).ok()) {
    std::cout << "[skip part] schemas: no NVRTC\n";
    return;
  }
  const Json tuned = follows("bench-1",
                             "driftc bench zoo:residual-block --input random:0 --runs 1 --mode "
                             "max-autotune --passes none,+choose-tiling --tuning "
                             "tests/filetests/cli/data/residual-block.tuning.json --json -");
  CHECK(tuned["tuning"]["kernels"].size() == 1);
  const Json sweep =
      follows("sweep-1", "driftc compare zoo:mlp --input ones --sweep passes --json -");
  CHECK(sweep["rows"].size() > 10);
  CHECK(sweep["rows"][0]["setting"] == "none");
  CHECK(sweep["rows"][0]["classes_changed"] == 0);
  const Json one = follows("sweep-1",
                           "driftc compare zoo:conv3x3 --input random:1 --sweep "
                           "orders=crs.fma,rsc.fma --json -");
  CHECK(one["rows"][0]["classes_changed"].is_null());
}
