#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "ir/support/assert.h"
#include "ir/support/diagnostic.h"

namespace driftc {

void assertion_failed(const char* expression, const char* message, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: driftc bug: %s (%s)\n", file, line, message, expression);
  std::abort();
}

std::string Diagnostic::render() const {
  std::string out;
  if (!place.file.empty()) {
    out += place.file;
    if (place.line > 0) {
      out += ':' + std::to_string(place.line);
      if (place.column > 0) out += ':' + std::to_string(place.column);
    }
    out += ": ";
  }
  out += "error: " + message + '\n';
  if (!source_line.empty() && place.line > 0) {
    std::string number = std::to_string(place.line);
    out += std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number + " | " +
           source_line + '\n';
    if (place.column > 0) {
      out += "      | ";
      for (int i = 0; i + 1 < place.column && i < static_cast<int>(source_line.size()); ++i)
        out += source_line[static_cast<std::size_t>(i)] == '\t' ? '\t' : ' ';
      out += '^';
      out.append(static_cast<std::size_t>(std::max(0, caret_length - 1)), '~');
      out += '\n';
    }
  }
  for (const std::string& note : notes) out += "  note: " + note + '\n';
  if (!hint.empty()) out += "  hint: " + hint + '\n';
  return out;
}

namespace {
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > 200) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string name_hint(std::string_view name, const std::vector<std::string>& candidates) {
  std::string near = nearest_name(name, candidates);
  if (!near.empty()) return "did you mean '" + near + "'?";
  std::string out = "known: ";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == 24) return out + ", ...";
    out += (i ? ", " : "") + candidates[i];
  }
  return out;
}

}  // namespace driftc
