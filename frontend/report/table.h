// Aligned text tables and numbers for people. Nothing here computes: values are rounded for reading
// only, the JSON report has every digit. Output depends on the arguments alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace driftc::frontend {

// What the stream that is written to can show.
struct TextStyle {
  bool colour = false;  // only for a terminal
  bool ascii = false;   // a terminal that does not speak UTF-8
};

enum class Colour { kNone, kGreen, kYellow, kRed, kBold, kDim };
std::string coloured(std::string_view text, Colour colour, const TextStyle& style);
// " · ", or " | " where only ASCII is safe.
std::string separator(const TextStyle& style);

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    std::size_t gap = 2;  // spaces before the column
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Missing cells are empty. `colour` applies to the cell of column `coloured_column`.
  void add(std::vector<std::string> cells, std::size_t coloured_column = 0,
           Colour colour = Colour::kNone);
  void divider();               // an empty line
  void line(std::string text);  // a line of text across the columns
  bool empty() const { return rows_.empty(); }
  // Columns are as wide as their widest cell; each line starts with `indent` spaces.
  std::string render(const TextStyle& style, std::size_t indent = 2) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::size_t coloured_column = 0;
    Colour colour = Colour::kNone;
    bool is_text = false;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

std::string brief(double value);           // two significant digits: "0", "1.2e-07", "0.34", "inf"
std::string brief_count(std::uint64_t n);  // "113", "2.1e+09" beyond seven digits
std::string share(std::int64_t part,
                  std::int64_t whole);  // "12 %", "<0.1 %", ">99.9 %", "-" for none
std::string plural(std::int64_t n, std::string_view noun);  // "1 value", "3 values"
// Control characters and broken UTF-8 as \xHH (names come from files), then at most `width` columns
// with the middle cut out.
std::string printable(std::string_view text);
std::string shortened(std::string_view text, std::size_t width);
std::size_t display_width(std::string_view utf8);

}  // namespace driftc::frontend
