#include "ir/parser.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/text.h"
#include "ir/text_cursor.h"
#include "ir/verifier.h"

namespace driftc::ir {
namespace {

constexpr std::size_t kMaxNodes = 200000;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file)
      : in_(text, file), text_size_(text.size()) {}

  Result<Graph> parse() {
    if (!in_.accept("gir")) return in_.error("expected 'gir 1'", "a .gir file starts with 'gir 1'");
    DRIFTC_TRY(version, in_.integer());
    if (version != 1) return in_.error("this driftc reads gir 1");
    DRIFTC_CHECK(in_.expect("graph"));
    DRIFTC_TRY(name, in_.name('@'));
    Graph graph(name);
    DRIFTC_CHECK(in_.expect("("));
    if (!in_.accept(")")) {
      do {
        in_.skip();
        const std::size_t at = in_.at();
        DRIFTC_TRY(input, in_.name('%'));
        DRIFTC_CHECK(in_.expect(":"));
        DRIFTC_TRY(type, tensor_type());
        if (graph.find(input))
          return in_.error_at(at, "value " + identifier("%", input) + " is defined twice");
        graph.add_input(input, type);
      } while (in_.accept(","));
      DRIFTC_CHECK(in_.expect(")"));
    }
    DRIFTC_CHECK(in_.expect("{"));
    DRIFTC_CHECK(nodes(graph, nullptr, "return"));
    DRIFTC_CHECK(in_.expect("}"));
    if (!in_.done()) return in_.error("unexpected text after the graph");
    DRIFTC_CHECK(verified(graph));
    return graph;
  }

 private:
  Result<TensorType> tensor_type() {
    in_.skip();
    const std::size_t at = in_.at();
    const std::string_view word = in_.word();
    auto dtype = parse_dtype(word);
    if (!dtype)
      return in_.error_at(at, fmt::format("unknown element type '{}'", word),
                          "element types are f32, f64, f16, bf16, i64",
                          std::max<std::size_t>(1, word.size()));
    DRIFTC_TRY(dims, in_.integers());
    TensorType type{*dtype, Shape(dims), Layout::kNchw};
    if (!type.shape.checked_elements())
      return in_.error_at(at, "negative extent or more than 2^40 elements");
    if (in_.accept("@")) {
      if (in_.accept("nhwc")) {
        type.layout = Layout::kNhwc;
      } else if (!in_.accept("nchw")) {
        return in_.error("unknown layout", "layouts are nchw and nhwc");
      }
    }
    return type;
  }

  Result<ValueId> reference(const Graph& graph) {
    in_.skip();
    const std::size_t at = in_.at();
    DRIFTC_TRY(name, in_.name('%'));
    auto id = graph.find(name);
    if (!id) {
      std::vector<std::string> names;
      for (const Value& v : graph.values()) names.push_back(v.name);
      const std::string near = nearest_name(name, names);
      return in_.error_at(at, "value " + identifier("%", name) + " is not defined here",
                          near.empty() ? "values are defined before they are used"
                                       : "did you mean " + identifier("%", near) + "?",
                          name.size() + 1);
    }
    return *id;
  }

  Result<std::vector<std::string>> name_list() {
    std::vector<std::string> out;
    DRIFTC_CHECK(in_.expect("["));
    if (in_.accept("]")) return out;
    do {
      DRIFTC_TRY(name, in_.name('%'));
      out.push_back(name);
    } while (in_.accept(","));
    DRIFTC_CHECK(in_.expect("]"));
    return out;
  }

  // Statements up to `return a, b` (or `yield a` in a kernel), which sets the outputs.
  Result<void> nodes(Graph& graph, const Graph* outer, std::string_view terminator) {
    while (true) {
      if (in_.accept(terminator)) {
        std::vector<ValueId> outputs;
        do {
          DRIFTC_TRY(id, reference(graph));
          outputs.push_back(id);
        } while (in_.accept(","));
        graph.set_outputs(std::move(outputs));
        return {};
      }
      if (in_.peek() != '%')
        return in_.error(fmt::format("expected '%name = ...' or '{}'", terminator));
      if (graph.node_count() >= kMaxNodes) return in_.error("more than 200000 nodes");
      DRIFTC_CHECK(statement(graph, outer));
    }
  }

  Result<void> statement(Graph& graph, const Graph* outer) {
    in_.skip();
    const std::size_t at = in_.at();
    DRIFTC_TRY(name, in_.name('%'));
    if (graph.find(name))
      return in_.error_at(at, "value " + identifier("%", name) + " is defined twice", {},
                          name.size() + 1);
    Node node;
    node.location.file = in_.file();
    node.location.line = in_.line_at(at);
    node.from = {name};
    std::optional<TensorType> type;
    if (in_.accept(":")) {
      DRIFTC_TRY(declared, tensor_type());
      type = declared;
    }
    DRIFTC_CHECK(in_.expect("="));
    in_.skip();
    const std::size_t op_at = in_.at();
    const std::string_view op_name = in_.word();
    auto op = parse_op(op_name);
    if (!op)
      return in_.error_at(op_at, fmt::format("unknown op '{}'", op_name),
                          name_hint(op_name, op_names()), std::max<std::size_t>(1, op_name.size()));
    node.op = *op;
    if (*op == Op::kKernel) {
      if (outer != nullptr) return in_.error_at(op_at, "a kernel inside a kernel");
      if (!type) return in_.error_at(op_at, "a kernel needs a type: %r : f32[...] = kernel ...");
      return kernel(graph, std::move(node), name, *type);
    }
    if (*op == Op::kConstant) {
      DRIFTC_TRY(declared, tensor_type());
      type = declared;
      DRIFTC_TRY(value, literal(*type, name));
      node.literal = std::make_shared<const Literal>(std::move(value));
      DRIFTC_CHECK(trailer(node));
      graph.add_node(std::move(node), name, *type);
      return {};
    }
    if (in_.peek() == '%') {
      do {
        DRIFTC_TRY(operand, reference(graph));
        node.operands.push_back(operand);
      } while (in_.accept(","));
    }
    in_.skip();
    const std::size_t attributes_at = in_.at();
    DRIFTC_TRY(given, attribute_list());
    auto attributes = complete_attributes(*op, given);
    if (!attributes.ok())
      return in_.error_at(attributes_at, attributes.error().message, attributes.error().hint);
    node.attributes = std::move(attributes.value());
    if (!type && in_.accept(":")) {
      DRIFTC_TRY(declared, tensor_type());
      type = declared;
    }
    std::vector<TensorType> operand_types;
    for (ValueId v : node.operands) operand_types.push_back(graph.value(v).type);
    auto inferred = infer_type(*op, node.attributes, operand_types);
    if (!inferred.ok())
      return in_.error_at(op_at, inferred.error().message, inferred.error().hint, op_name.size());
    if (type && (type->dtype != inferred->dtype || type->shape != inferred->shape))
      return in_.error_at(op_at,
                          fmt::format("declared {}, but '{}' makes {}", to_string(*type), op_name,
                                      to_string(*inferred)),
                          {}, op_name.size());
    DRIFTC_CHECK(trailer(node));
    graph.add_node(std::move(node), name, type ? *type : *inferred);
    return {};
  }

  // from=[...] and loc(...), both optional.
  Result<void> trailer(Node& node) {
    if (in_.accept("from")) {
      DRIFTC_CHECK(in_.expect("="));
      DRIFTC_TRY(from, name_list());
      node.from = from;
    }
    return location(node);
  }
  Result<void> location(Node& node) {
    if (!in_.accept("loc")) return {};
    DRIFTC_CHECK(in_.expect("("));
    DRIFTC_TRY(file, in_.quoted_string());
    DRIFTC_CHECK(in_.expect(","));
    DRIFTC_TRY(name, in_.quoted_string());
    DRIFTC_CHECK(in_.expect(")"));
    node.location = {file, name, node.location.line};
    return {};
  }

  Result<AttributeList> attribute_list() {
    AttributeList out;
    if (!in_.accept("{")) return out;
    if (in_.accept("}")) return out;
    do {
      const std::string name(in_.word());
      if (name.empty()) return in_.error("expected an attribute name");
      DRIFTC_CHECK(in_.expect("="));
      if (in_.peek() == '[') {
        DRIFTC_TRY(values, in_.integers());
        out.emplace_back(name, values);
        continue;
      }
      in_.skip();
      const std::size_t at = in_.at();
      const std::string_view token = in_.number_token();
      std::int64_t integer = 0;
      auto [end, code] = std::from_chars(token.data(), token.data() + token.size(), integer);
      if (!token.empty() && code == std::errc() && end == token.data() + token.size()) {
        out.emplace_back(name, integer);
      } else if (auto number = parse_number(token)) {
        out.emplace_back(name, *number);
      } else if (in_.rewind(at); in_.peek() == '"') {
        DRIFTC_TRY(text, in_.quoted_string());
        out.emplace_back(name, text);
      } else {
        const std::string word(in_.word());
        if (word.empty()) return in_.error("expected a number, a list or a word");
        out.emplace_back(name, word);
      }
    } while (in_.accept(","));
    DRIFTC_CHECK(in_.expect("}"));
    return out;
  }

  template <class T>
  Result<void> elements(std::span<T> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i > 0) DRIFTC_CHECK(in_.expect(","));
      in_.skip();
      const std::size_t at = in_.at();
      if constexpr (std::is_same_v<T, std::int64_t>) {
        DRIFTC_TRY(v, in_.integer());
        out[i] = v;
      } else {
        const std::string_view token = in_.number_token();
        std::optional<T> v;
        if constexpr (std::is_same_v<T, float>) {
          v = parse_float(token);
        } else {
          v = parse_number(token);
        }
        if (!v)
          return in_.error_at(
              at, fmt::format("element {} of {} is missing or no number", i, out.size()));
        out[i] = *v;
      }
    }
    return in_.expect("}");
  }

  Result<Literal> literal(const TensorType& type, const std::string& name) {
    in_.skip();
    const std::size_t at = in_.at();
    if (type.dtype == DType::kF16 || type.dtype == DType::kBF16)
      return in_.error_at(at, "constants are f32, f64 or i64");
    if (in_.accept("splat")) {
      DRIFTC_CHECK(in_.expect("("));
      in_.skip();
      const std::size_t value_at = in_.at();
      const std::string_view token = in_.number_token();
      auto value = type.dtype == DType::kF32 ? [&]() -> std::optional<double> {
        auto f = parse_float(token);
        return f ? std::optional<double>(*f) : std::nullopt;
      }()
          : parse_number(token);
      if (!value) return in_.error_at(value_at, "expected a number");
      if (type.dtype == DType::kI64 &&
          (*value != static_cast<double>(
                         static_cast<std::int64_t>(std::min(std::max(*value, -0x1p53), 0x1p53)))))
        return in_.error_at(value_at, "expected an integer");
      DRIFTC_CHECK(in_.expect(")"));
      return Literal::splat(type, *value);
    }
    if (in_.accept("random")) {
      if (type.dtype != DType::kF32) return in_.error_at(at, "random constants are f32");
      DRIFTC_CHECK(in_.expect("("));
      DRIFTC_CHECK(in_.expect("seed"));
      DRIFTC_CHECK(in_.expect("="));
      DRIFTC_TRY(seed, in_.integer());
      DRIFTC_CHECK(in_.expect(","));
      DRIFTC_CHECK(in_.expect("he"));
      std::string generator = name;
      if (in_.accept(",")) {
        DRIFTC_CHECK(in_.expect("name"));
        DRIFTC_CHECK(in_.expect("="));
        DRIFTC_TRY(given, in_.quoted_string());
        generator = given;
      }
      DRIFTC_CHECK(in_.expect(")"));
      return Literal::random(type.shape, static_cast<std::uint64_t>(seed), generator);
    }
    if (in_.accept("file")) return file_literal(type, at);
    if (!in_.accept("{"))
      return in_.error_at(
          at, "expected the value of the constant",
          "{0x1p0, ...}, splat(0x1p0), random(seed=1, he) or file(\"path\", offset=0, xxh3=0x...)");
    // Each element takes at least two characters of text, so the text bounds the memory.
    const auto count = static_cast<std::uint64_t>(type.shape.elements());
    if (count > 0 && count * 2 - 1 > in_remaining())
      return in_.error_at(
          at, fmt::format("fewer values than the {} elements of {}", count, to_string(type)));
    Tensor tensor(type.dtype, type.shape);
    if (type.dtype == DType::kF32) {
      DRIFTC_CHECK(elements(tensor.data_mut<float>()));
    } else if (type.dtype == DType::kF64) {
      DRIFTC_CHECK(elements(tensor.data_mut<double>()));
    } else {
      DRIFTC_CHECK(elements(tensor.data_mut<std::int64_t>()));
    }
    return Literal::dense(std::move(tensor));
  }
  std::uint64_t in_remaining() { return text_size_ - in_.at(); }

  Result<Literal> file_literal(const TensorType& type, std::size_t at) {
    DRIFTC_CHECK(in_.expect("("));
    DRIFTC_TRY(path, in_.quoted_string());
    DRIFTC_CHECK(in_.expect(","));
    DRIFTC_CHECK(in_.expect("offset"));
    DRIFTC_CHECK(in_.expect("="));
    DRIFTC_TRY(offset, in_.integer());
    DRIFTC_CHECK(in_.expect(","));
    DRIFTC_CHECK(in_.expect("xxh3"));
    DRIFTC_CHECK(in_.expect("="));
    const std::string_view hash_text = in_.word();
    std::uint64_t hash = 0;
    if (!hash_text.starts_with("0x") ||
        std::from_chars(hash_text.data() + 2, hash_text.data() + hash_text.size(), hash, 16).ec !=
            std::errc())
      return in_.error_at(at, "xxh3 needs a hex number");
    DRIFTC_CHECK(in_.expect(")"));
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path resolved = fs::path(in_.file()).parent_path() / path;
    if (!fs::is_regular_file(resolved, error)) resolved = path;
    const auto size = fs::file_size(resolved, error);
    if (error) return in_.error_at(at, "cannot read '" + path + "'");
    const auto bytes = static_cast<std::uint64_t>(type.shape.elements()) * byte_size(type.dtype);
    if (offset < 0 || static_cast<std::uint64_t>(offset) > size ||
        bytes > size - static_cast<std::uint64_t>(offset))
      return in_.error_at(at, fmt::format("'{}' has {} bytes, too few for {} at offset {}", path,
                                          size, to_string(type), offset));
    Tensor tensor(type.dtype, type.shape);
    std::ifstream stream(resolved, std::ios::binary);
    stream.seekg(offset);
    stream.read(reinterpret_cast<char*>(tensor.bytes_mut().data()),
                static_cast<std::streamsize>(bytes));
    if (!stream) return in_.error_at(at, "cannot read '" + path + "'");
    Literal literal =
        Literal::from_file(std::move(tensor), path, static_cast<std::uint64_t>(offset));
    if (literal.hash() != hash)
      return in_.error_at(at, fmt::format("the bytes in '{}' have changed: xxh3 is 0x{:016x}", path,
                                          literal.hash()));
    return literal;
  }

  Result<void> kernel(Graph& graph, Node node, const std::string& name, const TensorType& type) {
    auto kernel = std::make_shared<Kernel>();
    in_.skip();
    const std::size_t at = in_.at();
    const std::string_view algorithm_name = in_.word();
    auto algorithm = parse_algorithm(algorithm_name);
    if (!algorithm) return in_.error_at(at, fmt::format("unknown algorithm '{}'", algorithm_name));
    kernel->algorithm = *algorithm;
    kernel->body = Graph("body");
    DRIFTC_CHECK(in_.expect("("));
    if (!in_.accept(")")) {
      do {
        in_.skip();
        const std::size_t operand_at = in_.at();
        DRIFTC_TRY(operand, reference(graph));
        const Value& value = graph.value(operand);
        if (kernel->body.find(value.name))
          return in_.error_at(operand_at, "an operand is listed twice");
        node.operands.push_back(operand);
        kernel->body.add_input(value.name, value.type);
      } while (in_.accept(","));
      DRIFTC_CHECK(in_.expect(")"));
    }
    DRIFTC_CHECK(in_.expect("from"));
    DRIFTC_CHECK(in_.expect("="));
    DRIFTC_TRY(from, name_list());
    node.from = from;
    if (in_.accept("reason")) {
      DRIFTC_CHECK(in_.expect("="));
      DRIFTC_TRY(reason, in_.quoted_string());
      kernel->reason = reason;
    }
    if (in_.accept("schedule")) DRIFTC_CHECK(schedule(kernel->schedule));
    DRIFTC_CHECK(in_.expect("contract"));
    DRIFTC_CHECK(contract(kernel->contract));
    DRIFTC_CHECK(in_.expect("{"));
    DRIFTC_CHECK(nodes(kernel->body, &graph, "yield"));
    DRIFTC_CHECK(in_.expect("}"));
    DRIFTC_CHECK(location(node));
    node.kernel = std::move(kernel);
    graph.add_node(std::move(node), name, type);
    return {};
  }

  Result<void> schedule(Schedule& s) {
    DRIFTC_CHECK(in_.expect("="));
    DRIFTC_CHECK(in_.expect("{"));
    in_.skip();
    const std::size_t at = in_.at();
    auto fixed_list = [&](std::string_view key,
                          std::size_t n) -> Result<std::vector<std::int64_t>> {
      DRIFTC_CHECK(in_.expect(key));
      DRIFTC_CHECK(in_.expect("="));
      DRIFTC_TRY(values, in_.integers());
      if (values.size() != n) return in_.error_at(at, fmt::format("'{}' needs {} entries", key, n));
      for (std::int64_t v : values)
        if (v < 0 || v > 1 << 16) return in_.error_at(at, "tile extents are 0 to 65536");
      return values;
    };
    DRIFTC_TRY(block, fixed_list("block", 3));
    DRIFTC_CHECK(in_.expect(","));
    DRIFTC_TRY(thread, fixed_list("thread", 2));
    DRIFTC_CHECK(in_.expect(","));
    DRIFTC_CHECK(in_.expect("vector"));
    DRIFTC_CHECK(in_.expect("="));
    DRIFTC_TRY(vector, in_.integer());
    if (vector < 1 || vector > 16) return in_.error_at(at, "vector is 1 to 16");
    s = {static_cast<int>(block[0]),  static_cast<int>(block[1]),  static_cast<int>(block[2]),
         static_cast<int>(thread[0]), static_cast<int>(thread[1]), static_cast<int>(vector)};
    return in_.expect("}");
  }

  Result<void> contract(NumericContract& c) {
    DRIFTC_CHECK(in_.expect("="));
    DRIFTC_CHECK(in_.expect("{"));
    do {
      in_.skip();
      const std::size_t at = in_.at();
      const std::string key(in_.word());
      DRIFTC_CHECK(in_.expect("="));
      in_.skip();
      const std::size_t value_at = in_.at();
      std::string_view value = in_.raw(",}");
      while (value.ends_with(' ')) value.remove_suffix(1);
      auto bad = [&](std::string hint) {
        return in_.error_at(value_at, fmt::format("unknown value '{}' for '{}'", value, key),
                            std::move(hint), std::max<std::size_t>(1, value.size()));
      };
      if (key == "order") {
        if (value == "none") {
          c.order.reset();
          continue;
        }
        auto order = parse_order(value);
        if (!order.ok())
          return in_.error_at(value_at + static_cast<std::size_t>(order.error().place.column - 1),
                              order.error().message, order.error().hint);
        c.order = order.value();
      } else if (key == "store") {
        auto precision = parse_precision(value);
        if (precision != Precision::kF32 && precision != Precision::kF16 &&
            precision != Precision::kBF16)
          return bad("f32, f16, bf16");
        c.store = *precision;
      } else if (key == "in" || key == "acc" || key == "inner") {
        auto precision = parse_precision(value);
        if (!precision) return bad("f32, tf32:rna, tf32:trunc, f16, bf16, f64");
        (key == "in" ? c.in : key == "acc" ? c.acc : c.inner) = *precision;
      } else if (key == "contract" || key == "ftz") {
        if (value != "on" && value != "off") return bad("on, off");
        (key == "contract" ? c.contract : c.ftz) = value == "on";
      } else if (key == "fold") {
        if (value != "none" && value != "f64" && value != "f32") return bad("none, f64, f32");
        c.fold = value == "none" ? Fold::kNone : value == "f64" ? Fold::kF64 : Fold::kF32;
      } else if (key == "transform") {
        const auto transform = parse_transform(value);
        if (!transform)
          return bad("none, winograd2:f32, winograd2:f64, winograd4:f32, winograd4:f64");
        c.transform = *transform;
      } else {
        return in_.error_at(at, "unknown part of a contract '" + key + "'",
                            "order, in, acc, inner, store, contract, ftz, fold, transform");
      }
    } while (in_.accept(","));
    return in_.expect("}");
  }

  TextCursor in_;
  std::size_t text_size_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace driftc::ir
