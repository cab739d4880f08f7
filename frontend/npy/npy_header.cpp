#include "frontend/npy/npy_header.h"

#include <fmt/format.h>

#include <charconv>

namespace driftc::frontend::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxRank = 32;  // numpy's own limit until 2.0

Diagnostic bad(std::string_view file, std::string message, std::string hint = {}) {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  d.place.file = std::string(file);
  return d;
}

// Text from a file in a message: printable, short.
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 40)) {
    if (c >= ' ' && c < 0x7F)
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > 40 ? out + "..." : out;
}

// The subset of Python literals numpy writes: a dict of strings to a string, a bool and a tuple.
class DictParser {
 public:
  DictParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<Header> parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!accept('{')) return syntax("'{'");
    while (!accept('}')) {
      DRIFTC_TRY(key, quoted());
      if (!accept(':')) return syntax("':'");
      if (key == "descr" && !has_descr) {
        if (peek() == '[') return bad(file_, "structured dtypes are not supported", accepted());
        DRIFTC_TRY(descr, quoted());
        header.descr = descr;
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        if (accept_word("True"))
          header.fortran_order = true;
        else if (!accept_word("False"))
          return syntax("True or False");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        DRIFTC_TRY(shape, tuple());
        header.shape = std::move(shape);
        has_shape = true;
      } else {
        return bad(file_, fmt::format("unexpected key '{}' in the .npy header", shown(key)));
      }
      if (!accept(',') && peek() != '}') return syntax("',' or '}'");
    }
    skip_space();
    if (!text_.empty()) return syntax("the end of the header");
    if (!has_descr || !has_order || !has_shape)
      return bad(file_, "the .npy header lacks 'descr', 'fortran_order' or 'shape'");
    DRIFTC_CHECK(decide_type(header));
    return header;
  }

 private:
  static std::string accepted() {
    return "accepted dtypes: f2, f4, f8, i4, i8; for example np.save(file, "
           "array.astype(np.float32))";
  }
  Diagnostic syntax(std::string_view wanted) const {
    return bad(file_, fmt::format("malformed .npy header: expected {} at '{}'", wanted,
                                  shown(text_.substr(0, 16))));
  }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t'))
      text_.remove_prefix(1);
  }
  char peek() {
    skip_space();
    return text_.empty() ? '\0' : text_[0];
  }
  bool accept(char c) {
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  Result<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return syntax("a quoted word");
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return syntax("a closing quote");
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }
  Result<ir::Shape> tuple() {
    std::vector<std::int64_t> dims;
    if (!accept('(')) return syntax("'('");
    while (!accept(')')) {
      skip_space();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc{}) return syntax("an extent");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (text_.starts_with('L')) text_.remove_prefix(1);  // Python 2 wrote 3L
      if (extent < 0) return bad(file_, fmt::format("negative extent {} in the shape", extent));
      if (dims.size() == kMaxRank) return bad(file_, "more than 32 axes");
      dims.push_back(extent);
      if (!accept(',') && peek() != ')') return syntax("',' or ')'");
    }
    return ir::Shape(std::move(dims));
  }
  Result<void> decide_type(Header& header) const {
    const std::string_view d = header.descr;
    struct Row {
      std::string_view kind;
      ir::DType dtype;
      std::size_t bytes;
    };
    static constexpr Row kRows[] = {{"f2", ir::DType::kF16, 2},
                                    {"f4", ir::DType::kF32, 4},
                                    {"f8", ir::DType::kF64, 8},
                                    {"i4", ir::DType::kI64, 4},
                                    {"i8", ir::DType::kI64, 8}};
    if (d.size() == 3 && (d[0] == '<' || d[0] == '>' || d[0] == '='))
      for (const Row& row : kRows)
        if (d.substr(1) == row.kind) {
          header.dtype = row.dtype;
          header.item_bytes = row.bytes;
          header.big_endian = d[0] == '>';
          return {};
        }
    return bad(file_, fmt::format("dtype '{}' is not supported", shown(d)), accepted());
  }

  std::string_view text_, file_;
};

}  // namespace

Result<std::size_t> header_size(std::string_view preamble, std::uint64_t file_size,
                                std::string_view file) {
  if (!preamble.starts_with(kMagic))
    return bad(file, "not a .npy file", "the first six bytes must be \\x93NUMPY");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(preamble[i]));
  };
  if (preamble.size() < 10) return bad(file, "truncated .npy header");
  const std::size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    return bad(file, fmt::format("unknown .npy format version {}.{}", major, minor),
               "versions 1.0, 2.0 and 3.0 are read");
  std::size_t size = 0;
  if (major == 1) {
    size = 10 + byte(8) + (byte(9) << 8);
  } else {
    if (preamble.size() < 12) return bad(file, "truncated .npy header");
    size = 12 + byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24);
  }
  if (size > file_size) return bad(file, "truncated .npy header");
  if (size > (std::size_t{1} << 20)) return bad(file, "the .npy header is longer than 1 MiB");
  return size;
}

Result<Header> parse_header(std::string_view head, std::uint64_t file_size, std::string_view file) {
  const std::size_t start = head[6] == 1 ? 10 : 12;
  DRIFTC_TRY(header, DictParser(head.substr(start), file).parse());
  header.data_offset = head.size();
  const auto elements = header.shape.checked_elements();
  if (!elements)
    return bad(file, fmt::format("shape {} has more than 2^40 elements", to_string(header.shape)));
  const std::uint64_t wanted = static_cast<std::uint64_t>(*elements) * header.item_bytes;
  const std::uint64_t present = file_size - header.data_offset;
  if (wanted != present)
    return bad(file, fmt::format("shape {} of dtype '{}' needs {} bytes, the file holds {}",
                                 to_string(header.shape), header.descr, wanted, present));
  return std::move(header);
}

}  // namespace driftc::frontend::npy
