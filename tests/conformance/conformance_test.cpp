// ONNX's own test cases. `./dev test` runs all of them in the interpreter and a few compiled;
// `./dev conformance` runs all in both forms and prints the table.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "frontend/onnx/onnx.h"
#include "tests/conformance/run.h"
#include "tests/conformance/table.h"
#include "tests/support/services.h"

using namespace driftc;
using namespace driftc::conformance;

namespace {

constexpr int kLeastPassed = 446;
const std::string kPage = std::string(DRIFTC_SOURCE_DIR) + "/docs/onnx.md";

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    auto loaded = all_cases();
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().render());
    return std::move(*loaded);
  }();
  return all;
}

bool have_cases(const char* what) {
  if (installed()) return true;
  std::printf("[skip] %s: the package libonnx-testdata is not installed\n", what);
  return false;
}

std::string page() {
  std::ifstream in(kPage, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

TEST_CASE("conformance: ONNX's cases in the interpreter, and docs/onnx.md") {
  if (!have_cases("conformance")) return;
  Table table;
  for (const Case& c : cases()) {
    if (!c.skip.empty()) {
      add_skipped(table, c.operators, c.skip);
      continue;
    }
    const Outcome outcome = run(c, Form::kInterpreter);
    CHECK_MESSAGE(outcome.failure.empty(), c.suite, "/", c.name, ": ", outcome.failure);
    if (outcome.failure.empty())
      add_passed(table, c.suite, c.operators);
    else
      add_failed(table, c.operators);
  }
  CHECK(table.passed >= kLeastPassed);
  CHECK_MESSAGE(page() == render_docs(table, frontend::onnx::supported_operators()),
                "docs/onnx.md is stale: DRIFTC_BLESS=1 ./dev conformance rewrites it");
}

TEST_CASE("conformance: one case of each operator, compiled") {
  if (!have_cases("conformance compiled") || !tests::kernels_available("conformance compiled"))
    return;
  std::set<std::string> seen;
  std::size_t kernels = 0;
  for (const Case& c : cases()) {
    if (!c.skip.empty() || c.operators.size() != 1 || kernels >= 6) continue;
    if (!seen.insert(c.operators[0]).second) continue;
    const Outcome outcome = run(c, Form::kCompiled);
    kernels += outcome.kernels;
    CHECK_MESSAGE(outcome.failure.empty(), c.suite, "/", c.name, ": ", outcome.failure);
  }
}

TEST_SUITE("conformance") {
  TEST_CASE("conformance: all cases in both forms" * doctest::skip()) {
    if (!have_cases("conformance") || !tests::kernels_available("conformance")) return;
    Table table;
    std::size_t kernels = 0, interpreted = 0;
    std::string failures;
    for (const Case& c : cases()) {
      if (!c.skip.empty()) {
        add_skipped(table, c.operators, c.skip);
        continue;
      }
      Outcome outcome = run(c, Form::kInterpreter);
      if (outcome.failure.empty()) {
        outcome = run(c, Form::kCompiled);
        kernels += outcome.kernels;
        interpreted += outcome.interpreted;
      }
      CHECK_MESSAGE(outcome.failure.empty(), c.suite, "/", c.name, ": ", outcome.failure);
      if (outcome.failure.empty())
        add_passed(table, c.suite, c.operators);
      else
        add_failed(table, c.operators);
    }
    const std::string docs = render_docs(table, frontend::onnx::supported_operators());
    std::fputs(docs.c_str(), stdout);
    fmt::print("\n{} kernels; {} passing cases have a node without a kernel\n", kernels,
               interpreted);
    if (std::getenv("DRIFTC_BLESS") != nullptr) std::ofstream(kPage, std::ios::binary) << docs;
    CHECK(table.passed >= kLeastPassed);
    CHECK_MESSAGE(page() == docs,
                  "docs/onnx.md is stale: DRIFTC_BLESS=1 ./dev conformance rewrites it");
  }
}
