#include "runtime/ptx/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/ptx/lexer.h"

namespace driftc::runtime::ptx {
namespace {

// Limits with reasons: what NVRTC prints stays far below; a hostile text is refused before memory
// is taken.
constexpr std::size_t kMaxText = 64u << 20;
constexpr std::uint64_t kMaxVariableBytes = 1u << 28;  // a .const or .global table
constexpr std::uint64_t kMaxInitializerBytes = 1u << 26;
constexpr std::uint64_t kMaxRegisters = 1u << 20;  // per kernel
constexpr std::size_t kMaxVector = 8;

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), lexer_(text) {
    module_.file = file;
    token_ = lexer_.next();
  }

  Result<Module> run() {
    while (token_.kind != Token::Kind::kEnd)
      if (!top_level()) return *std::move(error_);
    return std::move(module_);
  }

 private:
  // Parsing functions return false after fail(); error_ then holds the first error.
  bool fail_at(const Token& token, std::string message, std::string hint = {}) {
    if (error_) return false;
    Diagnostic d = internal_error(std::move(message), std::move(hint));
    d.place = {module_.file, token.line, token.column};
    std::size_t begin = 0;
    for (int line = 1; line < token.line && begin != std::string_view::npos; ++line) {
      begin = text_.find('\n', begin);
      if (begin != std::string_view::npos) ++begin;
    }
    if (begin != std::string_view::npos)
      d.source_line = std::string(
          text_.substr(begin, std::min<std::size_t>(text_.find('\n', begin) - begin, 200)));
    d.caret_length = static_cast<int>(std::clamp<std::size_t>(token.text.size(), 1, 40));
    error_ = std::move(d);
    return false;
  }
  bool fail(std::string message) { return fail_at(token_, std::move(message)); }
  std::string found() const {
    if (token_.kind == Token::Kind::kEnd) return "the end of the text";
    return fmt::format("'{}'", std::string(token_.text.substr(0, 40)));
  }
  void advance() { token_ = lexer_.next(); }
  bool take(char c) {
    if (!token_.is(c)) return false;
    advance();
    return true;
  }
  bool expect(char c) {
    if (take(c)) return true;
    return fail(fmt::format("expected '{}', found {}", c, found()));
  }
  bool take_word(std::string_view word) {
    if (!token_.is_word(word)) return false;
    advance();
    return true;
  }
  bool word(std::string& out, const char* what) {
    if (token_.kind != Token::Kind::kWord)
      return fail(fmt::format("expected {}, found {}", what, found()));
    out = token_.text;
    advance();
    return true;
  }
  bool integer(std::uint64_t& out, const char* what) {
    if (token_.kind != Token::Kind::kInteger)
      return fail(fmt::format("expected {}, found {}", what, found()));
    out = token_.bits;
    advance();
    return true;
  }

  bool top_level() {
    if (token_.kind != Token::Kind::kWord)
      return fail(fmt::format("expected a directive, found {}", found()));
    if (text_.size() > kMaxText) return fail("the text is larger than 64 MiB");
    std::string_view t = token_.text;
    if (t == ".version") {
      // "9.0" is no PTX number; read it as the rest of the line.
      module_.version = rest_of_line();
      return true;
    }
    if (t == ".target") {
      advance();
      if (!word(module_.target, "a target")) return false;
      while (take(',')) {
        std::string ignored;
        if (!word(ignored, "a target option")) return false;
      }
      return true;
    }
    if (t == ".address_size") {
      advance();
      std::uint64_t bits = 0;
      Token at = token_;
      if (!integer(bits, "an address size")) return false;
      return bits == 64 || fail_at(at, "only 64-bit addresses are supported");
    }
    if (t == ".file") return file_directive();
    if (t == ".section") return skip_section();
    return declaration();
  }

  std::string rest_of_line() {
    // The lexer already stands behind the directive's word; scan the raw text.
    std::size_t begin =
        static_cast<std::size_t>(token_.text.data() - text_.data()) + token_.text.size();
    std::size_t end = std::min(text_.find('\n', begin), text_.size());
    std::string out(text_.substr(begin, std::min<std::size_t>(end - begin, 40)));
    std::erase_if(out, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    int line = token_.line;
    do advance();
    while (token_.kind != Token::Kind::kEnd && token_.line == line);
    return out;
  }

  bool file_directive() {
    advance();
    std::uint64_t index = 0;
    if (!integer(index, "a file number")) return false;
    if (token_.kind != Token::Kind::kString) return fail("expected a file name");
    if (index >= 4096) return fail("more than 4096 source files");
    if (module_.source_files.size() <= index) module_.source_files.resize(index + 1);
    module_.source_files[index] = token_.text;
    advance();
    while (take(',')) {
      std::uint64_t ignored = 0;
      if (!integer(ignored, "a time stamp or size")) return false;
    }
    return true;
  }

  // .section .debug_info { ... }: debugging data, not needed.
  bool skip_section() {
    while (token_.kind != Token::Kind::kEnd && !token_.is('{')) advance();
    while (token_.kind != Token::Kind::kEnd && !token_.is('}')) advance();
    return expect('}');
  }

  bool declaration() {
    bool is_extern = false;
    for (;;) {
      if (take_word(".visible") || take_word(".weak") || take_word(".common")) continue;
      if (take_word(".extern")) {
        is_extern = true;
        continue;
      }
      break;
    }
    if (token_.is_word(".entry")) return entry(true);
    if (token_.is_word(".func")) return entry(false);
    if (token_.is_word(".pragma")) {
      while (token_.kind != Token::Kind::kEnd && !token_.is(';')) advance();
      return expect(';');
    }
    if (token_.is_word(".global") || token_.is_word(".const") || token_.is_word(".shared")) {
      Variable v;
      if (!variable(v)) return false;
      v.is_extern = is_extern;
      module_.variables.push_back(std::move(v));
      return expect(';');
    }
    return fail(fmt::format("directive {} is not supported", found()));
  }

  static std::optional<Space> space_of(std::string_view t) {
    if (t == ".param") return Space::kParam;
    if (t == ".shared") return Space::kShared;
    if (t == ".local") return Space::kLocal;
    if (t == ".global") return Space::kGlobal;
    if (t == ".const") return Space::kConst;
    return std::nullopt;
  }

  // .shared .align 16 .b8 name[1024]   (initialisers for .const and .global)
  bool variable(Variable& v) {
    std::optional<Space> space =
        token_.kind == Token::Kind::kWord ? space_of(token_.text) : std::nullopt;
    if (!space) return fail(fmt::format("expected a state space, found {}", found()));
    v.space = *space;
    advance();
    std::uint64_t lanes = 1;
    for (;;) {
      if (take_word(".align")) {
        std::uint64_t alignment = 0;
        Token at = token_;
        if (!integer(alignment, "an alignment")) return false;
        if (alignment == 0 || alignment > 256 || (alignment & (alignment - 1)))
          return fail_at(at, "an alignment is a power of two up to 256");
        v.alignment = static_cast<std::uint32_t>(alignment);
      } else if (take_word(".v2")) {
        lanes = 2;
      } else if (take_word(".v4")) {
        lanes = 4;
      } else if (take_word(".ptr")) {
        // .param .u64 .ptr .global .align 4 name: a hint about the pointer.
        while (token_.kind == Token::Kind::kWord && space_of(token_.text)) advance();
        if (take_word(".align")) {
          std::uint64_t ignored = 0;
          if (!integer(ignored, "an alignment")) return false;
        }
      } else {
        break;
      }
      if (v.type != Type::kNone) continue;
      if (token_.kind == Token::Kind::kWord && token_.text.size() > 1) {
        Type type = type_of(token_.text.substr(1));
        if (type != Type::kNone && token_.text[0] == '.') {
          v.type = type;
          advance();
        }
      }
    }
    if (v.type == Type::kNone) {
      if (token_.kind != Token::Kind::kWord || token_.text[0] != '.')
        return fail(fmt::format("expected a type, found {}", found()));
      v.type = type_of(token_.text.substr(1));
      if (v.type == Type::kNone || v.type == Type::kPred)
        return fail(fmt::format("unknown type {}", found()));
      advance();
      if (take_word(".ptr")) {
        while (token_.kind == Token::Kind::kWord && space_of(token_.text)) advance();
        if (take_word(".align")) {
          std::uint64_t ignored = 0;
          if (!integer(ignored, "an alignment")) return false;
        }
      }
    }
    if (!word(v.name, "a name")) return false;
    std::uint64_t element = bytes_of(v.type) * lanes;
    if (element == 0)
      return fail(fmt::format("a variable of type {} is not supported", name_of(v.type)));
    if (v.alignment == 0)
      v.alignment = static_cast<std::uint32_t>(std::min<std::uint64_t>(element, 16));
    std::uint64_t count = 1;
    while (take('[')) {
      if (take(']')) {
        count = 0;
        continue;
      }
      std::uint64_t n = 0;
      Token at = token_;
      if (!integer(n, "a length") || !expect(']')) return false;
      if (n > kMaxVariableBytes || count * n > kMaxVariableBytes)
        return fail_at(at, "the array is too large");
      count *= n;
    }
    if (count * element > kMaxVariableBytes) return fail("the array is too large");
    v.bytes = count * element;
    if (take('=')) return initializer(v);
    return true;
  }

  bool initializer(Variable& v) {
    if (v.space != Space::kConst && v.space != Space::kGlobal)
      return fail("only .const and .global take initialisers");
    unsigned width = bytes_of(v.type);
    int depth = 0;
    do {
      if (take('{')) {
        if (++depth > 8) return fail("initialiser nested too deeply");
      } else if (take('}')) {
        if (--depth < 0) return fail("unbalanced '}'");
      } else if (depth > 0 && take(',')) {
      } else {
        bool negative = take('-');
        std::uint64_t bits = token_.bits;
        if (token_.kind == Token::Kind::kFloat32 && width == 8)
          return fail("a 32-bit float in a 64-bit table");
        if (token_.kind != Token::Kind::kInteger && token_.kind != Token::Kind::kFloat32 &&
            token_.kind != Token::Kind::kFloat64)
          return fail(fmt::format(
              "expected a number, found {} (addresses in initialisers are not supported)",
              found()));
        if (negative) bits = ~bits + 1;
        advance();
        if (v.initializer.size() + width >
                std::min<std::uint64_t>(std::max<std::uint64_t>(v.bytes, width),
                                        kMaxInitializerBytes) &&
            v.bytes != 0)
          return fail("more values than the array holds");
        if (v.initializer.size() > kMaxInitializerBytes)
          return fail("the initialiser is too large");
        for (unsigned i = 0; i < width; ++i)
          v.initializer.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
      }
    } while (depth > 0);
    if (v.bytes == 0) v.bytes = v.initializer.size();
    return true;
  }

  bool entry(bool is_kernel) {
    Entry e;
    e.is_kernel = is_kernel;
    e.line = token_.line;
    advance();
    if (!is_kernel && token_.is('(')) {  // return value of a .func
      while (token_.kind != Token::Kind::kEnd && !token_.is(')')) advance();
      if (!expect(')')) return false;
    }
    if (!word(e.name, "a kernel name")) return false;
    if (take('(')) {
      while (!token_.is(')')) {
        Variable v;
        if (token_.is_word(".reg"))
          return fail("functions with register parameters are not supported");
        if (!variable(v)) return false;
        e.parameters.push_back(std::move(v));
        if (!take(',')) break;
      }
      if (!expect(')')) return false;
    }
    for (;;) {  // performance directives
      if (token_.is_word(".maxntid") || token_.is_word(".reqntid")) {
        advance();
        std::uint64_t product = 1;
        do {
          std::uint64_t n = 0;
          if (!integer(n, "a thread count")) return false;
          if (n == 0 || n > 1024 || (product *= n) > 1024)
            return fail("more than 1024 threads in a block");
        } while (take(','));
        e.max_threads = static_cast<std::uint32_t>(product);
      } else if (token_.is_word(".minnctapersm") || token_.is_word(".maxnreg") ||
                 token_.is_word(".maxclusterrank") || token_.is_word(".noreturn")) {
        advance();
        if (token_.kind == Token::Kind::kInteger) advance();
      } else {
        break;
      }
    }
    if (take(';')) return true;  // a declaration only
    if (!expect('{')) return false;
    if (!body(e)) return false;
    for (const Entry& other : module_.entries)
      if (other.name == e.name) return fail(fmt::format("kernel '{}' is defined twice", e.name));
    module_.entries.push_back(std::move(e));
    return true;
  }

  // Nested scopes ({ ... } from inline assembly) only limit register names; NVRTC makes them
  // unique, so they are flattened. `.reg` inside one is added to the kernel's registers.
  bool body(Entry& e) {
    int depth = 1;
    SourceLine source;
    std::uint64_t registers = 0;
    while (depth > 0) {
      if (token_.kind == Token::Kind::kEnd) return fail("the kernel has no closing '}'");
      if (take('}')) {
        --depth;
        continue;
      }
      if (take('{')) {
        if (++depth > 32) return fail("scopes nested too deeply");
        continue;
      }
      if (take(';')) continue;
      if (token_.is('@')) {
        if (!instruction(e, source)) return false;
        continue;
      }
      if (token_.kind != Token::Kind::kWord)
        return fail(fmt::format("expected an instruction, found {}", found()));
      if (token_.text == ".loc") {
        if (!loc(source)) return false;
      } else if (token_.text == ".reg") {
        if (!register_range(e, registers)) return false;
      } else if (token_.text == ".shared" || token_.text == ".local") {
        Variable v;
        if (!variable(v) || !expect(';')) return false;
        e.variables.push_back(std::move(v));
      } else if (token_.text == ".pragma") {
        while (token_.kind != Token::Kind::kEnd && !token_.is(';')) advance();
        if (!expect(';')) return false;
      } else if (token_.text[0] == '.') {
        return fail(fmt::format("directive {} is not supported inside a kernel", found()));
      } else {
        if (!instruction(e, source)) return false;
      }
    }
    return true;
  }

  bool loc(SourceLine& source) {
    advance();
    std::uint64_t file = 0, line = 0, column = 0;
    if (!integer(file, "a file number") || !integer(line, "a line") || !integer(column, "a column"))
      return false;
    source = {static_cast<std::uint32_t>(file), static_cast<std::uint32_t>(line)};
    // ", function_name $L__info_string0, inlined_at 1 20 3"
    while (take(',')) {
      std::string what;
      if (!word(what, "function_name or inlined_at")) return false;
      while (!token_.is(',') && (token_.kind == Token::Kind::kInteger || token_.is('+') ||
                                 (token_.kind == Token::Kind::kWord && token_.text[0] == '$')))
        advance();
    }
    return true;
  }

  bool register_range(Entry& e, std::uint64_t& total) {
    advance();
    if (token_.kind != Token::Kind::kWord) return fail("expected a register type");
    Type type = token_.text[0] == '.' ? type_of(token_.text.substr(1)) : Type::kNone;
    if (type == Type::kNone) return fail(fmt::format("unknown register type {}", found()));
    advance();
    do {
      Entry::RegisterRange range;
      range.type = type;
      if (!word(range.prefix, "a register name")) return false;
      if (take('<')) {
        std::uint64_t count = 0;
        if (!integer(count, "a register count") || !expect('>')) return false;
        total += count;
        if (count == 0 || total > kMaxRegisters) return fail("more registers than supported");
        range.count = static_cast<std::uint32_t>(count);
      } else if (++total > kMaxRegisters) {
        return fail("more registers than supported");
      }
      e.registers.push_back(std::move(range));
    } while (take(','));
    return expect(';');
  }

  bool instruction(Entry& e, const SourceLine& source) {
    Instruction i;
    i.line = token_.line;
    i.column = token_.column;
    i.source = source;
    if (take('@')) {
      i.guard_negated = take('!');
      if (!word(i.guard, "a predicate")) return false;
    }
    if (token_.kind != Token::Kind::kWord)
      return fail(fmt::format("expected an instruction, found {}", found()));
    std::string_view text = token_.text;
    i.line = token_.line;
    i.column = token_.column;
    Token name = token_;
    advance();
    if (i.guard.empty() && token_.is(':')) {
      advance();
      e.labels.push_back({std::string(text), static_cast<std::uint32_t>(e.body.size())});
      return true;
    }
    std::size_t dot = text.find('.');
    i.opcode = text.substr(0, dot);
    if (i.opcode.empty()) return fail_at(name, fmt::format("'{}' is no instruction", text));
    while (dot != std::string_view::npos) {
      std::size_t next = text.find('.', dot + 1);
      i.modifiers.emplace_back(
          text.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
      if (i.modifiers.size() > 24) return fail_at(name, "too many modifiers");
      dot = next;
    }
    while (!token_.is(';')) {
      if (i.operands.size() > 16) return fail("too many operands");
      Operand o;
      if (!operand(o, 0)) return false;
      i.operands.push_back(std::move(o));
      if (!take(',')) break;
    }
    if (!expect(';')) return false;
    e.body.push_back(std::move(i));
    return true;
  }

  bool operand(Operand& o, int depth) {
    o.column = token_.column;
    if (take('{')) {
      if (depth > 0) return fail("a vector inside a vector");
      o.kind = Operand::Kind::kVector;
      while (!token_.is('}')) {
        if (o.elements.size() >= kMaxVector) return fail("a vector has at most 8 elements");
        Operand element;
        if (!operand(element, depth + 1)) return false;
        o.elements.push_back(std::move(element));
        if (!take(',')) break;
      }
      return expect('}');
    }
    if (take('[')) return address(o);
    o.negated = take('!');
    bool negative = !o.negated && take('-');
    switch (token_.kind) {
      case Token::Kind::kInteger:
        o.kind = Operand::Kind::kInteger;
        o.integer = static_cast<std::int64_t>(negative ? ~token_.bits + 1 : token_.bits);
        advance();
        return true;
      case Token::Kind::kFloat32:
      case Token::Kind::kFloat64: {
        bool single = token_.kind == Token::Kind::kFloat32;
        o.kind = single ? Operand::Kind::kFloat32 : Operand::Kind::kFloat64;
        o.bits = token_.bits ^ (negative ? std::uint64_t{1} << (single ? 31 : 63) : 0);
        advance();
        return true;
      }
      case Token::Kind::kWord:
        if (negative) return fail("'-' before a name");
        o.kind = token_.text == "_"      ? Operand::Kind::kSink
                 : token_.text[0] == '%' ? Operand::Kind::kRegister
                                         : Operand::Kind::kSymbol;
        o.name = token_.text;
        advance();
        if (take('|')) return word(o.second, "a predicate");
        if (token_.is('+') && o.kind == Operand::Kind::kSymbol) {  // symbol+8
          advance();
          std::uint64_t offset = 0;
          if (!integer(offset, "an offset")) return false;
          o.integer = static_cast<std::int64_t>(offset);
        }
        return true;
      case Token::Kind::kEnd:
      case Token::Kind::kString:
      case Token::Kind::kPunct:
      case Token::Kind::kBad:
        break;
    }
    return fail(fmt::format("expected an operand, found {}", found()));
  }

  bool address(Operand& o) {
    o.kind = Operand::Kind::kAddress;
    if (token_.kind == Token::Kind::kInteger) {
      o.integer = static_cast<std::int64_t>(token_.bits);
      advance();
      return expect(']');
    }
    if (!word(o.name, "an address")) return false;
    if (take('+')) {
      bool negative = take('-');
      std::uint64_t offset = 0;
      Token at = token_;
      if (!integer(offset, "an offset")) return false;
      if (offset > (std::uint64_t{1} << 32)) return fail_at(at, "the offset is too large");
      o.integer = negative ? -static_cast<std::int64_t>(offset) : static_cast<std::int64_t>(offset);
    } else if (take('-')) {
      std::uint64_t offset = 0;
      Token at = token_;
      if (!integer(offset, "an offset")) return false;
      if (offset > (std::uint64_t{1} << 32)) return fail_at(at, "the offset is too large");
      o.integer = -static_cast<std::int64_t>(offset);
    }
    if (token_.is(',')) return fail("texture and surface addresses are not supported");
    return expect(']');
  }

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  Module module_;
  std::optional<Diagnostic> error_;
};

}  // namespace

Result<Module> parse_module(std::string_view text, std::string_view file) {
  return Parser(text, file).run();
}

}  // namespace driftc::runtime::ptx
