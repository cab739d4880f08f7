#include <doctest/doctest.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/filetests/filetest.h"

using namespace driftc;

// `roundtrip`: the printed graph, after checking that it parses to itself. `error`: the rendered
// message.
static std::string parse_command(const std::string& command, const tests::Filetest& test) {
  auto graph = ir::parse_graph(test.text, test.path);
  if (command == "error") {
    CHECK_MESSAGE(!graph.ok(), test.path << " parses, but an error is expected");
    return graph.ok() ? "" : graph.error().render();
  }
  if (!graph.ok()) return graph.error().render();
  const std::string text = ir::print(*graph);
  auto again = ir::parse_graph(text, test.path);
  CHECK_MESSAGE(again.ok(), (again.ok() ? "" : again.error().render()));
  if (again.ok()) CHECK(ir::print(*again) == text);
  return text;
}

TEST_CASE("filetests: parse and print") { tests::run_folder("parse", parse_command); }
TEST_CASE("filetests: verify") { tests::run_folder("verify", parse_command); }
