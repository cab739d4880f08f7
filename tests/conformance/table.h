// The table of operators: how many of ONNX's cases pass, are skipped and why, or fail.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace driftc::conformance {

struct Row {
  int passed = 0, failed = 0;
  std::map<std::string, int> skipped;  // by reason
};
struct Table {
  std::map<std::string, Row> operators;  // a case counts for each of its operators
  int passed = 0, failed = 0, skipped = 0;
  std::map<std::string, int> suites;  // passed, by suite
};

void add_passed(Table& table, const std::string& suite, const std::vector<std::string>& operators);
void add_failed(Table& table, const std::vector<std::string>& operators);
void add_skipped(Table& table, const std::vector<std::string>& operators,
                 const std::string& reason);

// docs/onnx.md. Operators that import does not know are listed by name only.
std::string render_docs(const Table& table, const std::vector<std::string>& known);

}  // namespace driftc::conformance
