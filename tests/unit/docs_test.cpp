// Generated pages are committed; these cases hold them to their tables. DRIFTC_BLESS=1 rewrites
// them.
#include "ir/docs.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

static void check_page(const std::string& path, const std::string& want) {
  const std::string full = std::string(DRIFTC_SOURCE_DIR) + "/" + path;
  if (std::getenv("DRIFTC_BLESS") != nullptr) std::ofstream(full, std::ios::binary) << want;
  std::ifstream in(full, std::ios::binary);
  const std::string have((std::istreambuf_iterator<char>(in)), {});
  CHECK_MESSAGE(have == want,
                path << " is stale: DRIFTC_BLESS=1 ./dev test -tc=\"docs*\" rewrites it");
}

TEST_CASE("docs: ir.md is generated from the operator table") {
  check_page("docs/ir.md", driftc::ir::render_ir_docs());
}
