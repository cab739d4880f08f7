// `// test passes=NAME,NAME [WORD=VALUE ...]`: exactly these passes (form-kernels is implied by a
// kernel pass), then the printed graph; a user error is printed as it is shown. Words:
// set=PASS.OPTION=VALUE (repeatable), order=ORDER
// (--eager-order), fallback=NODE,NODE, sm=COUNT. `// test select=LIST ...` goes through --passes
// instead.
#include <doctest/doctest.h>

#include <sstream>

#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/pipeline.h"
#include "tests/filetests/filetest.h"

using namespace driftc;

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, at);)
    if (!word.empty()) words.push_back(word);
  return words;
}

Result<std::string> transform(const std::string& command, const tests::Filetest& test) {
  DRIFTC_TRY(graph, ir::parse_graph(test.text, test.path));
  passes::PassContext context;
  std::vector<std::string> listed;
  passes::SelectionRequest request;
  for (const std::string& word : split(command, ' ')) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "passes") {
      listed = split(value, ',');
    } else if (key == "select") {
      request.passes = value;
    } else if (key == "set") {
      request.sets.push_back(value);
      DRIFTC_CHECK(passes::set_option(context.options, value));
    } else if (key == "order") {
      DRIFTC_TRY(order, ir::parse_order(value));
      context.eager_order = order;
    } else if (key == "fallback") {
      context.fallback = split(value, ',');
      request.fallback_named = true;
    } else if (key == "sm") {
      context.sm_count = std::stoi(value);
    } else {
      return input_error("unknown word '" + word + "' in the test command");
    }
  }
  if (request.passes.empty()) {
    DRIFTC_TRY(result, passes::run_listed(graph, listed, context));
    return ir::print(result.graph);
  }
  DRIFTC_TRY(selection, passes::select_passes(request));
  DRIFTC_TRY(result, passes::run_pipeline(graph, selection, context));
  return ir::print(result.graph);
}

std::string passes_command(const std::string& command, const tests::Filetest& test) {
  auto text = transform(command, test);
  if (!text.ok()) return text.error().render();
  auto again = ir::parse_graph(*text, test.path);
  CHECK_MESSAGE(again.ok(), test.path << ": " << (again.ok() ? "" : again.error().render()));
  if (again.ok()) CHECK(ir::print(*again) == *text);
  return *text;
}

}  // namespace

TEST_CASE("filetests: passes") { tests::run_folder("passes", passes_command); }
