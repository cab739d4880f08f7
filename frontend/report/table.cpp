#include "frontend/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace driftc::frontend {
namespace {

// Length of the valid UTF-8 sequence at the start of `text`; 0 when there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string coloured(std::string_view text, Colour colour, const TextStyle& style) {
  if (!style.colour || colour == Colour::kNone) return std::string(text);
  const char* code = "0";
  switch (colour) {
    case Colour::kNone:
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kYellow:
      code = "33";
      break;
    case Colour::kRed:
      code = "31;1";
      break;
    case Colour::kBold:
      code = "1";
      break;
    case Colour::kDim:
      code = "2";
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string separator(const TextStyle& style) { return style.ascii ? " | " : " \xC2\xB7 "; }

void Table::add(std::vector<std::string> cells, std::size_t coloured_column, Colour colour) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), coloured_column, colour, false});
}
void Table::divider() { line(""); }
void Table::line(std::string text) { rows_.push_back({{std::move(text)}, 0, Colour::kNone, true}); }

std::string Table::render(const TextStyle& style, std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const Row& row : rows_)
    if (!row.is_text)
      for (std::size_t i = 0; i < columns_.size(); ++i)
        widths[i] = std::max(widths[i], display_width(row.cells[i]));
  std::string out;
  auto add_line = [&](const std::vector<std::string>& cells, std::size_t at, Colour colour,
                      bool head) {
    std::string text(indent, ' ');
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string gap(widths[i] - display_width(cells[i]), ' ');
      const bool right = columns_[i].align == Align::kRight;
      if (i > 0) text.append(columns_[i].gap, ' ');
      if (right) text += gap;
      const Colour c = head ? Colour::kDim : i == at ? colour : Colour::kNone;
      text += cells[i].empty() ? "" : coloured(cells[i], c, style);
      if (!right) text += gap;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& t) { return !t.empty(); }))
    add_line(titles, 0, Colour::kNone, true);
  for (const Row& row : rows_) {
    if (row.is_text)
      out += row.cells[0].empty() ? "\n" : std::string(indent, ' ') + row.cells[0] + '\n';
    else
      add_line(row.cells, row.coloured_column, row.colour, false);
  }
  return out;
}

std::string brief(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  return fmt::format("{:.2g}", value);
}

std::string brief_count(std::uint64_t n) {
  return n < 10000000 ? std::to_string(n) : fmt::format("{:.1e}", static_cast<double>(n));
}

std::string share(std::int64_t part, std::int64_t whole) {
  if (part == 0) return "-";
  if (part == whole) return "100 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.1) return "<0.1 %";
  if (percent > 99.9) return ">99.9 %";
  return percent < 10 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string plural(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls (U+0080..U+009F) move a terminal's cursor just as C0 controls do.
    const bool control =
        (length == 1 && (first < 0x20 || first == 0x7F)) ||
        (length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control) {
      for (std::size_t i = 0; i < std::max<std::size_t>(1, length); ++i)
        out += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[i]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t width) {
  std::string safe = printable(text);
  if (display_width(safe) <= width) return safe;
  std::vector<std::string_view> letters;
  for (std::string_view rest = safe; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, sequence_length(rest));
    letters.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  const std::size_t kept = width - 2, head = kept / 2, tail = kept - head;
  std::string out;
  for (std::size_t i = 0; i < head; ++i) out += letters[i];
  out += "..";
  for (std::size_t i = letters.size() - tail; i < letters.size(); ++i) out += letters[i];
  return out;
}

}  // namespace driftc::frontend
