// Module -> Code: names become registers, opcodes with their modifiers become operations of the
// executor. This is where everything that is not modelled bit-exactly is refused by name.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/ptx/program.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {

ProgramCode::ProgramCode() = default;
ProgramCode::~ProgramCode() = default;

const OpFacts& facts_of(Op op) {
  static constexpr OpFacts kFacts[] = {
#define N RegKind::kNone
#define W RegKind::kW
#define L RegKind::kL
#define P RegKind::kP
#define X(name, d, a, b, c) {#name, d, a, b, c},
#include "runtime/ptx/ops.def"
#undef X
#undef N
#undef W
#undef L
#undef P
  };
  static constexpr OpFacts kOther = {"other", RegKind::kNone, RegKind::kNone, RegKind::kNone,
                                     RegKind::kNone};
  return is_plain(op) ? kFacts[static_cast<std::size_t>(op)] : kOther;
}

namespace {

constexpr std::uint32_t kMaxShared = 227 * 1024;
constexpr std::uint64_t kMaxLocal = 512 * 1024;  // per thread, as on the hardware

bool is_float(Type t) { return t == Type::kF32 || t == Type::kF64; }
bool is_half(Type t) {
  return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2 ||
         t == Type::kTF32;
}
bool is_signed(Type t) {
  return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64;
}
RegKind kind_of(Type t) {
  if (t == Type::kPred) return RegKind::kP;
  switch (bytes_of(t)) {
    case 1:
    case 2:
    case 4:
      return RegKind::kW;
    case 8:
      return RegKind::kL;
    default:
      return RegKind::kNone;
  }
}

class Selector {
 public:
  Selector(const Module& module, const Entry& entry) : module_(module), entry_(entry) {}

  Result<std::unique_ptr<ProgramCode>> run() {
    program_ = std::make_unique<ProgramCode>();
    program_->name = entry_.name;
    program_->file = module_.file;
    program_->source_files = module_.source_files;
    program_->max_threads = entry_.max_threads;
    program_->instruction_count = entry_.body.size();
    if (!layout_parameters() || !layout_variables() || !declare_registers() || !split_blocks())
      return *std::move(error_);
    for (std::uint32_t b = 0; b < code().blocks.size(); ++b)
      if (!select_block(b)) return *std::move(error_);
    if (!check_contraction()) return *std::move(error_);
    return std::move(program_);
  }

 private:
  Code& code() { return program_->code; }

  bool fail(int line, int column, std::string message, std::string hint = {}) {
    if (error_) return false;
    Diagnostic d =
        internal_error(fmt::format("kernel '{}': {}", entry_.name, message), std::move(hint));
    d.place = {module_.file, line, column};
    error_ = std::move(d);
    return false;
  }
  bool fail(std::string message, std::string hint = {}) {
    return fail(at_ ? at_->line : entry_.line, at_ ? at_->column : 1, std::move(message),
                std::move(hint));
  }
  std::string text_of(const Instruction& i) const {
    std::string out = i.opcode;
    for (const std::string& m : i.modifiers) out += "." + m;
    return out;
  }
  bool refuse(const char* why = "is not modelled bit-exactly") {
    return fail(fmt::format("instruction '{}' {}", text_of(*at_), why));
  }

  // ---- layout
  // -------------------------------------------------------------------------------------------------
  struct Symbol {
    Space space;
    std::uint64_t address;  // offset in its space, or host address
  };

  bool layout_parameters() {
    std::uint64_t offset = 0;
    for (const Variable& v : entry_.parameters) {
      offset = (offset + v.alignment - 1) / v.alignment * v.alignment;
      symbols_[v.name] = {Space::kParam, offset};
      offset += v.bytes;
      if (offset > 32764) return fail(entry_.line, 1, "more than 32764 bytes of parameters");
    }
    program_->parameter_bytes = offset;
    return true;
  }

  bool layout_variables() {
    std::set<std::string> used;
    auto note = [&](const Operand& o) {
      if (!o.name.empty()) used.insert(o.name);
      for (const Operand& e : o.elements) used.insert(e.name);
    };
    for (const Instruction& i : entry_.body)
      for (const Operand& o : i.operands) note(o);

    std::uint64_t shared = 0, local = 0;
    std::vector<const Variable*> dynamic;
    auto place = [&](const Variable& v) {
      std::uint64_t& top = v.space == Space::kShared ? shared : local;
      top = (top + v.alignment - 1) / v.alignment * v.alignment;
      symbols_[v.name] = {v.space, top};
      if (v.space == Space::kShared) program_->shared_arrays.push_back({v.name, top, v.bytes});
      top += v.bytes;
    };
    for (const Variable& v : entry_.variables) {
      place(v);
      if (shared > kMaxShared || local > kMaxLocal)
        return fail(entry_.line, 1, fmt::format("'{}' needs too much memory", v.name));
    }
    for (const Variable& v : module_.variables) {
      if (!used.count(v.name)) continue;
      if (v.space == Space::kShared) {
        if (v.is_extern || v.bytes == 0)
          dynamic.push_back(&v);
        else
          place(v);
        if (shared > kMaxShared)
          return fail(entry_.line, 1, fmt::format("'{}' needs too much shared memory", v.name));
      } else {
        if (v.is_extern)
          return fail(entry_.line, 1,
                      fmt::format("extern variable '{}' is not defined in the module", v.name));
        Segment segment;
        segment.storage.resize((v.bytes + 7) / 8 + 1);
        segment.bytes = v.bytes;
        segment.name = v.name;
        if (!v.initializer.empty())
          std::memcpy(segment.storage.data(), v.initializer.data(),
                      std::min<std::size_t>(v.initializer.size(), v.bytes));
        symbols_[v.name] = {v.space, reinterpret_cast<std::uint64_t>(segment.storage.data())};
        program_->segments.push_back(std::move(segment));
      }
    }
    // Dynamic shared memory starts behind the static part; all extern arrays share that start.
    shared = (shared + 15) / 16 * 16;
    for (const Variable* v : dynamic) {
      symbols_[v->name] = {Space::kShared, shared};
      program_->shared_arrays.push_back({v->name, shared, 0});
    }
    program_->static_shared_bytes = static_cast<std::uint32_t>(shared);
    program_->local_bytes = static_cast<std::uint32_t>((local + 15) / 16 * 16);
    return true;
  }

  // ---- registers
  // ----------------------------------------------------------------------------------------------
  bool declare_registers() {
    for (const Entry::RegisterRange& r : entry_.registers) {
      if (kind_of(r.type) == RegKind::kNone) {
        if (r.type == Type::kB128) continue;  // refused where used
        return fail(entry_.line, 1,
                    fmt::format("registers of type {} are not supported", name_of(r.type)));
      }
      if (r.count)
        ranges_[r.prefix] = {kind_of(r.type), r.count};
      else
        singles_[r.prefix] = kind_of(r.type);
    }
    return true;
  }

  Reg new_reg(RegKind kind) {
    code().regs.push_back({});
    code().regs.back().kind = kind;
    return static_cast<Reg>(code().regs.size() - 1);
  }
  Reg constant(RegKind kind, std::uint64_t bits) {
    if (kind == RegKind::kW) bits &= 0xFFFFFFFFu;
    if (kind == RegKind::kP) bits = bits ? 1 : 0;
    auto [at, fresh] = constants_.try_emplace({kind, bits}, 0);
    if (fresh) {
      at->second = new_reg(kind);
      RegInfo& info = code().regs[at->second];
      info.is_constant = true;
      info.bits = bits;
    }
    return at->second;
  }
  Reg special(Special which, RegKind kind) {
    auto [at, fresh] = specials_.try_emplace(which, 0);
    if (fresh) {
      at->second = new_reg(kind);
      RegInfo& info = code().regs[at->second];
      info.is_special = true;
      info.bits = static_cast<std::uint64_t>(which);
    }
    return at->second;
  }
  Reg special_by_name(const std::string& name) {
    static const std::map<std::string, Special> kNames = {{"%tid.x", Special::kTidX},
                                                          {"%tid.y", Special::kTidY},
                                                          {"%tid.z", Special::kTidZ},
                                                          {"%ntid.x", Special::kNtidX},
                                                          {"%ntid.y", Special::kNtidY},
                                                          {"%ntid.z", Special::kNtidZ},
                                                          {"%ctaid.x", Special::kCtaidX},
                                                          {"%ctaid.y", Special::kCtaidY},
                                                          {"%ctaid.z", Special::kCtaidZ},
                                                          {"%nctaid.x", Special::kNctaidX},
                                                          {"%nctaid.y", Special::kNctaidY},
                                                          {"%nctaid.z", Special::kNctaidZ},
                                                          {"%laneid", Special::kLaneId},
                                                          {"%warpid", Special::kWarpId},
                                                          {"%nwarpid", Special::kNwarpid},
                                                          {"%lanemask_eq", Special::kLanemaskEq},
                                                          {"%lanemask_lt", Special::kLanemaskLt},
                                                          {"%lanemask_le", Special::kLanemaskLe},
                                                          {"%lanemask_gt", Special::kLanemaskGt},
                                                          {"%lanemask_ge", Special::kLanemaskGe}};
    auto at = kNames.find(name);
    return at == kNames.end() ? kNoReg : special(at->second, RegKind::kW);
  }

  // The register called `name`, or kNoReg after fail().
  Reg named(const std::string& name) {
    if (auto at = registers_.find(name); at != registers_.end()) return at->second;
    RegKind kind = RegKind::kNone;
    if (auto at = singles_.find(name); at != singles_.end()) {
      kind = at->second;
    } else {
      std::size_t digits = name.size();
      while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
      // A prefix may end in digits itself, so every split is tried.
      for (; digits < name.size() && kind == RegKind::kNone; ++digits) {
        auto range = ranges_.find(name.substr(0, digits));
        if (range == ranges_.end() || name.size() - digits > 9) continue;
        unsigned long index = std::stoul(name.substr(digits));
        if (index < range->second.second) kind = range->second.first;
      }
    }
    if (kind == RegKind::kNone) {
      Reg s = special_by_name(name);
      if (s == kNoReg) fail(fmt::format("register '{}' is not declared or not supported", name));
      return s;
    }
    Reg r = new_reg(kind);
    registers_[name] = r;
    return r;
  }

  RegKind kind(Reg r) { return code().regs[r].kind; }

  // Registers declared by inline assembly need not begin with '%'.
  bool names_register(const Operand& o) const {
    return o.kind == Operand::Kind::kRegister ||
           (o.kind == Operand::Kind::kSymbol && singles_.count(o.name));
  }

  // A source operand as a register of `want`; narrower or wider registers are accepted as PTX does
  // for b types.
  Reg source(const Operand& o, RegKind want, bool is_f64 = false) {
    switch (names_register(o) ? Operand::Kind::kRegister : o.kind) {
      case Operand::Kind::kRegister: {
        Reg r = named(o.name);
        if (r == kNoReg) return r;
        if (kind(r) == want) {
          if (!o.negated) return r;
          if (want != RegKind::kP) return fail(fmt::format("'!' before '{}'", o.name)), kNoReg;
          return temp(Op::kNotPred, {r});
        }
        if (kind(r) == RegKind::kL && want == RegKind::kW) return temp(Op::kTruncL, {r});
        fail(fmt::format("register '{}' has the wrong width for '{}'", o.name, text_of(*at_)));
        return kNoReg;
      }
      case Operand::Kind::kInteger:
        return constant(want, static_cast<std::uint64_t>(o.integer));
      case Operand::Kind::kFloat32:
        if (want != RegKind::kW) return fail("a 32-bit float literal in a 64-bit operand"), kNoReg;
        return constant(want, o.bits);
      case Operand::Kind::kFloat64:
        if (want != RegKind::kL || !is_f64)
          return fail("a 64-bit float literal in a 32-bit operand"), kNoReg;
        return constant(want, o.bits);
      case Operand::Kind::kSymbol: {
        auto at = symbols_.find(o.name);
        if (at == symbols_.end())
          return fail(fmt::format("symbol '{}' is not declared", o.name)), kNoReg;
        if (at->second.space == Space::kParam)
          return fail(fmt::format("the address of parameter '{}' is not supported", o.name)),
                 kNoReg;
        return constant(want, at->second.address + static_cast<std::uint64_t>(o.integer));
      }
      case Operand::Kind::kSink:
      case Operand::Kind::kAddress:
      case Operand::Kind::kVector:
      case Operand::Kind::kLabel:
        break;
    }
    fail(fmt::format("'{}' has an operand of the wrong form", text_of(*at_)));
    return kNoReg;
  }
  Reg destination(const Operand& o, RegKind want) {
    if (o.kind == Operand::Kind::kSink) return new_reg(want);
    if (!names_register(o) || o.negated)
      return fail(fmt::format("'{}' does not write a register", text_of(*at_))), kNoReg;
    Reg r = named(o.name);
    if (r == kNoReg) return r;
    if (code().regs[r].is_special) return fail(fmt::format("'{}' is read-only", o.name)), kNoReg;
    if (kind(r) != want)
      return fail(fmt::format("register '{}' has the wrong width for '{}'", o.name, text_of(*at_))),
             kNoReg;
    return r;
  }

  // ---- emission
  // -----------------------------------------------------------------------------------------------
  Inst& emit(Op op, std::initializer_list<Reg> dst, std::initializer_list<Reg> src,
             std::int64_t imm = 0) {
    Inst i;
    i.op = op;
    for (Reg r : dst) i.dst[i.destinations++] = r;
    for (Reg r : src) i.src[i.sources++] = r;
    i.imm = imm;
    i.line = static_cast<std::uint32_t>(at_->line);
    i.source = at_->source;
    i.guard = guard_;
    i.guard_negated = guard_ != kNoReg && at_->guard_negated;
    block_->code.push_back(i);
    return block_->code.back();
  }
  // An intermediate value: computed whatever the guard says, since plain operations have no side
  // effect.
  Reg temp(Op op, std::initializer_list<Reg> src, std::int64_t imm = 0) {
    for (Reg r : src)
      if (r == kNoReg) return kNoReg;
    Reg d = new_reg(facts_of(op).d);
    Inst& i = emit(op, {d}, src, imm);
    i.guard = kNoReg;
    i.guard_negated = false;
    return d;
  }

  // ---- blocks
  // -------------------------------------------------------------------------------------------------
  static bool ends_block(const Instruction& i) {
    return i.opcode == "bra" || i.opcode == "ret" || i.opcode == "exit";
  }

  bool split_blocks() {
    std::size_t count = entry_.body.size();
    if (count > (1u << 22)) return fail(entry_.line, 1, "more than 4 million instructions");
    std::vector<char> leader(count + 1, 0);
    leader[0] = 1;
    for (const Label& l : entry_.labels) {
      if (!label_at_.emplace(l.name, l.instruction).second)
        return fail(entry_.line, 1, fmt::format("label '{}' is defined twice", l.name));
      leader[l.instruction] = 1;
    }
    for (std::size_t i = 0; i < count; ++i)
      if (ends_block(entry_.body[i])) leader[i + 1] = 1;
    block_of_.assign(count + 1, 0);
    std::uint32_t blocks = 0;
    for (std::size_t i = 0; i <= count; ++i) {
      if (leader[i] || i == count) {
        // The end of the body is a block of its own: falling off it returns.
        begins_.push_back(static_cast<std::uint32_t>(i));
        ++blocks;
      }
      block_of_[i] = blocks - 1;
    }
    begins_.push_back(static_cast<std::uint32_t>(count));
    code().blocks.resize(blocks);
    return true;
  }

  bool select_block(std::uint32_t index) {
    block_ = &code().blocks[index];
    std::uint32_t begin = begins_[index],
                  end = index + 1 < begins_.size() ? begins_[index + 1] : begin;
    bool last = index + 1 == code().blocks.size();
    block_->end = last ? Block::End::kReturn : Block::End::kJump;
    block_->target = index + 1;
    for (std::uint32_t i = begin; i < end; ++i) {
      at_ = &entry_.body[i];
      block_->line = static_cast<std::uint32_t>(at_->line);
      block_->source = at_->source;
      guard_ = kNoReg;
      if (!at_->guard.empty()) {
        guard_ = named(at_->guard);
        if (guard_ == kNoReg) return false;
        if (kind(guard_) != RegKind::kP)
          return fail(fmt::format("'{}' is no predicate", at_->guard));
      }
      if (ends_block(*at_)) return terminator(index);
      if (!instruction()) return error_ ? false : refuse();
    }
    return true;
  }

  bool terminator(std::uint32_t index) {
    std::uint32_t target =
        static_cast<std::uint32_t>(code().blocks.size()) - 1;  // the empty block at the end returns
    if (at_->opcode == "bra") {
      for (const std::string& m : at_->modifiers)
        if (m != "uni") return refuse();
      if (at_->operands.size() != 1) return fail("bra takes one label");
      auto label = label_at_.find(at_->operands[0].name);
      if (label == label_at_.end())
        return fail(fmt::format("label '{}' is not defined", at_->operands[0].name));
      target = block_of_[label->second];
    }
    block_->target = target;
    if (guard_ == kNoReg) {
      block_->end = Block::End::kJump;
    } else {
      block_->end = Block::End::kBranch;
      block_->condition = guard_;
      block_->condition_negated = at_->guard_negated;
      block_->next = index + 1;
    }
    return true;
  }

  // ---- instructions
  // -------------------------------------------------------------------------------------------
  // Modifiers split into types and the rest; a handler takes what it understands, anything left
  // refuses.
  bool take(std::string_view flag) {
    auto at = std::find(flags_.begin(), flags_.end(), flag);
    if (at == flags_.end()) return false;
    flags_.erase(at);
    return true;
  }
  bool operands(std::size_t n) {
    if (at_->operands.size() == n) return true;
    return fail(
        fmt::format("'{}' takes {} operands, found {}", text_of(*at_), n, at_->operands.size()));
  }
  const Operand& op(std::size_t i) const { return at_->operands[i]; }
  bool done() { return flags_.empty() ? true : refuse(); }

  bool instruction() {
    types_.clear();
    flags_.clear();
    for (const std::string& m : at_->modifiers) {
      Type t = type_of(m);
      if (t != Type::kNone)
        types_.push_back(t);
      else
        flags_.push_back(m);
    }
    using Handler = bool (Selector::*)();
    static const std::unordered_map<std::string_view, Handler> kHandlers = {
        {"mov", &Selector::mov},          {"add", &Selector::arithmetic},
        {"sub", &Selector::arithmetic},   {"mul", &Selector::multiply},
        {"mad", &Selector::multiply_add}, {"fma", &Selector::fma},
        {"div", &Selector::arithmetic},   {"rem", &Selector::arithmetic},
        {"min", &Selector::arithmetic},   {"max", &Selector::arithmetic},
        {"abs", &Selector::unary},        {"neg", &Selector::unary},
        {"sqrt", &Selector::unary},       {"rcp", &Selector::unary},
        {"and", &Selector::logic},        {"or", &Selector::logic},
        {"xor", &Selector::logic},        {"not", &Selector::logic},
        {"shl", &Selector::shift},        {"shr", &Selector::shift},
        {"shf", &Selector::funnel},       {"popc", &Selector::bits},
        {"clz", &Selector::bits},         {"brev", &Selector::bits},
        {"bfe", &Selector::bit_field},    {"bfi", &Selector::bit_field},
        {"prmt", &Selector::prmt},        {"lop3", &Selector::lop3},
        {"setp", &Selector::setp},        {"selp", &Selector::selp},
        {"cvt", &Selector::cvt},          {"cvta", &Selector::cvta},
        {"ld", &Selector::load},          {"ldu", &Selector::load},
        {"st", &Selector::store},         {"atom", &Selector::atomic},
        {"red", &Selector::atomic},       {"shfl", &Selector::shuffle},
        {"vote", &Selector::vote},        {"activemask", &Selector::activemask},
        {"bar", &Selector::barrier},      {"barrier", &Selector::barrier},
        {"membar", &Selector::fence},     {"fence", &Selector::fence},
        {"trap", &Selector::trap},        {"copysign", &Selector::copysign},
        {"mma", &Selector::mma},          {"ldmatrix", &Selector::load_matrix}};
    auto at = kHandlers.find(at_->opcode);
    if (at == kHandlers.end()) return refuse();
    return (this->*at->second)() && done();
  }

  bool one_type() { return types_.size() == 1 || refuse(); }
  bool plain(Op o, Reg d, std::initializer_list<Reg> src, std::int64_t imm = 0) {
    if (d == kNoReg) return false;
    for (Reg r : src)
      if (r == kNoReg) return false;
    emit(o, {d}, src, imm);
    return true;
  }
  // 8- and 16-bit operands widened to 32 bits as their type says.
  Reg widened(Reg r, Type t) {
    if (r == kNoReg || kind(r) != RegKind::kW) return r;
    if (bytes_of(t) == 2) return temp(is_signed(t) ? Op::kSextH : Op::kZextH, {r});
    if (bytes_of(t) == 1) return temp(is_signed(t) ? Op::kSextB : Op::kZextB, {r});
    return r;
  }
  static Op pick(Type t, Op s32, Op u32, Op s64, Op u64) {
    bool wide = bytes_of(t) == 8;
    return is_signed(t) ? (wide ? s64 : s32) : (wide ? u64 : u32);
  }

  bool mov() {
    if (!one_type() || !operands(2)) return false;
    Type t = types_[0];
    if (t == Type::kB128) return refuse();
    if (op(0).kind == Operand::Kind::kVector) {
      const auto& e = op(0).elements;
      Reg a = source(op(1), kind_of(t), t == Type::kF64 || t == Type::kB64);
      if (a == kNoReg) return false;
      if (e.size() != 2) return refuse();
      if (bytes_of(t) == 8) {
        Reg lo = destination(e[0], RegKind::kW), hi = destination(e[1], RegKind::kW);
        // A destination may be a half of nothing that is read again: both reads come from `a`, a
        // 64-bit register.
        return plain(Op::kTruncL, lo, {a}) && plain(Op::kHighL, hi, {a});
      }
      if (bytes_of(t) == 4) {
        Reg copy = temp(Op::kMov32, {a});  // a destination may be the source
        Reg lo = destination(e[0], RegKind::kW), hi = destination(e[1], RegKind::kW);
        return plain(Op::kZextH, lo, {copy}) &&
               plain(Op::kShrU32, hi, {copy, constant(RegKind::kW, 16)});
      }
      return refuse();
    }
    if (op(1).kind == Operand::Kind::kVector) {
      const auto& e = op(1).elements;
      if (e.size() != 2) return refuse();
      Reg lo = source(e[0], RegKind::kW), hi = source(e[1], RegKind::kW);
      if (bytes_of(t) == 8) return plain(Op::kPack64, destination(op(0), RegKind::kL), {lo, hi});
      if (bytes_of(t) == 4) return plain(Op::kPack32, destination(op(0), RegKind::kW), {lo, hi});
      return refuse();
    }
    RegKind k = kind_of(t);
    Op o = k == RegKind::kP ? Op::kMovPred : k == RegKind::kL ? Op::kMov64 : Op::kMov32;
    // mov.b32 between a 64-bit register and a symbol, or mov.u64 of a 32-bit special register, do
    // not occur.
    return plain(o, destination(op(0), k), {source(op(1), k, true)});
  }

  // The only rounding modelled for arithmetic is to nearest. Records what ptxas might contract.
  bool float_rounding(bool& suffixed) {
    suffixed = take("rn");
    return true;
  }

  bool arithmetic() {
    if (!one_type() || !operands(3)) return false;
    Type t = types_[0];
    const std::string& o = at_->opcode;
    if (is_half(t)) return refuse();
    RegKind k = kind_of(t);
    if (is_float(t)) {
      bool single = t == Type::kF32, suffixed = false;
      if (o == "rem") return refuse();
      if (o == "min" || o == "max") {
        bool nan = take("NaN");
        if (nan && !single) return refuse();
        Op code = o == "min" ? (single ? (nan ? Op::kMinNanF32 : Op::kMinF32) : Op::kMinF64)
                             : (single ? (nan ? Op::kMaxNanF32 : Op::kMaxF32) : Op::kMaxF64);
        return plain(code, destination(op(0), k), {source(op(1), k, true), source(op(2), k, true)});
      }
      float_rounding(suffixed);
      if (o == "div" && !suffixed) return refuse();  // div.approx, div.full
      Op code = o == "add"   ? (single ? Op::kAddF32 : Op::kAddF64)
                : o == "sub" ? (single ? Op::kSubF32 : Op::kSubF64)
                             : (single ? Op::kDivF32 : Op::kDivF64);
      Reg a = source(op(1), k, true), b = source(op(2), k, true), d = destination(op(0), k);
      if (!suffixed) sums_.push_back({at_, a, b});
      return plain(code, d, {a, b});
    }
    Op code;
    bool widen = bytes_of(t) < 4;
    if (o == "add")
      code = pick(t, Op::kAdd32, Op::kAdd32, Op::kAdd64, Op::kAdd64);
    else if (o == "sub")
      code = pick(t, Op::kSub32, Op::kSub32, Op::kSub64, Op::kSub64);
    else if (o == "div")
      code = pick(t, Op::kDivS32, Op::kDivU32, Op::kDivS64, Op::kDivU64);
    else if (o == "rem")
      code = pick(t, Op::kRemS32, Op::kRemU32, Op::kRemS64, Op::kRemU64);
    else if (o == "min")
      code = pick(t, Op::kMinS32, Op::kMinU32, Op::kMinS64, Op::kMinU64);
    else
      code = pick(t, Op::kMaxS32, Op::kMaxU32, Op::kMaxS64, Op::kMaxU64);
    Reg a = source(op(1), k), b = source(op(2), k);
    if (widen && o != "add" && o != "sub") a = widened(a, t), b = widened(b, t);
    return plain(code, destination(op(0), k), {a, b});
  }

  bool multiply() {
    if (!one_type() || !operands(3)) return false;
    Type t = types_[0];
    if (is_half(t)) return refuse();
    RegKind k = kind_of(t);
    if (is_float(t)) {
      bool suffixed = false;
      float_rounding(suffixed);
      Reg d = destination(op(0), k);
      if (!suffixed) products_.insert(d);
      return plain(t == Type::kF32 ? Op::kMulF32 : Op::kMulF64, d,
                   {source(op(1), k, true), source(op(2), k, true)});
    }
    Reg a = source(op(1), k), b = source(op(2), k);
    if (take("wide")) {
      if (bytes_of(t) == 2)
        return plain(Op::kMul32, destination(op(0), RegKind::kW), {widened(a, t), widened(b, t)});
      if (bytes_of(t) != 4) return refuse();
      return plain(is_signed(t) ? Op::kMulWideS32 : Op::kMulWideU32,
                   destination(op(0), RegKind::kL), {a, b});
    }
    if (take("hi")) {
      if (bytes_of(t) < 4) return refuse();
      return plain(pick(t, Op::kMulHiS32, Op::kMulHiU32, Op::kMulHiS64, Op::kMulHiU64),
                   destination(op(0), k), {a, b});
    }
    if (!take("lo")) return refuse();
    return plain(bytes_of(t) == 8 ? Op::kMul64 : Op::kMul32, destination(op(0), k), {a, b});
  }

  bool multiply_add() {
    if (!one_type() || !operands(4)) return false;
    Type t = types_[0];
    if (is_half(t)) return refuse();
    if (is_float(t)) return fma();
    RegKind k = kind_of(t);
    Reg a = source(op(1), k), b = source(op(2), k);
    if (take("wide")) {
      if (bytes_of(t) == 2) {
        Reg product = temp(Op::kMul32, {widened(a, t), widened(b, t)});
        return plain(Op::kAdd32, destination(op(0), RegKind::kW),
                     {product, source(op(3), RegKind::kW)});
      }
      if (bytes_of(t) != 4) return refuse();
      return plain(is_signed(t) ? Op::kMadWideS32 : Op::kMadWideU32,
                   destination(op(0), RegKind::kL), {a, b, source(op(3), RegKind::kL)});
    }
    if (take("hi")) {
      if (bytes_of(t) < 4) return refuse();
      Reg high = temp(pick(t, Op::kMulHiS32, Op::kMulHiU32, Op::kMulHiS64, Op::kMulHiU64), {a, b});
      return plain(bytes_of(t) == 8 ? Op::kAdd64 : Op::kAdd32, destination(op(0), k),
                   {high, source(op(3), k)});
    }
    if (!take("lo")) return refuse();
    return plain(bytes_of(t) == 8 ? Op::kMad64 : Op::kMad32, destination(op(0), k),
                 {a, b, source(op(3), k)});
  }

  bool fma() {
    if (!one_type() || !operands(4)) return false;
    Type t = types_[0];
    if (!is_float(t) || !take("rn")) return refuse();
    RegKind k = kind_of(t);
    return plain(t == Type::kF32 ? Op::kFmaF32 : Op::kFmaF64, destination(op(0), k),
                 {source(op(1), k, true), source(op(2), k, true), source(op(3), k, true)});
  }

  bool unary() {
    if (!one_type() || !operands(2)) return false;
    Type t = types_[0];
    const std::string& o = at_->opcode;
    if (is_half(t)) return refuse();
    RegKind k = kind_of(t);
    Reg a = source(op(1), k, true), d = destination(op(0), k);
    if (is_float(t)) {
      bool single = t == Type::kF32;
      if (o == "abs") return plain(single ? Op::kAbsF32 : Op::kAbsF64, d, {a});
      if (o == "neg") {
        if (products_.count(a))
          products_.insert(d);  // ptxas sees through a negation when it contracts
        return plain(single ? Op::kNegF32 : Op::kNegF64, d, {a});
      }
      if (!take("rn")) return refuse();  // sqrt.approx, rcp.approx
      if (o == "sqrt") return plain(single ? Op::kSqrtF32 : Op::kSqrtF64, d, {a});
      return plain(single ? Op::kRcpF32 : Op::kRcpF64, d, {a});
    }
    if (o == "abs") return plain(bytes_of(t) == 8 ? Op::kAbsS64 : Op::kAbsS32, d, {widened(a, t)});
    if (o == "neg") return plain(bytes_of(t) == 8 ? Op::kNeg64 : Op::kNeg32, d, {a});
    return refuse();
  }

  bool copysign() {
    if (!one_type() || !operands(3) || !is_float(types_[0])) return refuse();
    RegKind k = kind_of(types_[0]);
    return plain(k == RegKind::kW ? Op::kCopysignF32 : Op::kCopysignF64, destination(op(0), k),
                 {source(op(1), k, true), source(op(2), k, true)});
  }

  bool logic() {
    if (!one_type()) return false;
    Type t = types_[0];
    RegKind k = kind_of(t);
    const std::string& o = at_->opcode;
    auto by_kind = [&](Op p, Op w, Op l) {
      return k == RegKind::kP ? p : k == RegKind::kL ? l : w;
    };
    if (o == "not") {
      if (!operands(2)) return false;
      return plain(by_kind(Op::kNotPred, Op::kNot32, Op::kNot64), destination(op(0), k),
                   {source(op(1), k, true)});
    }
    if (!operands(3)) return false;
    Op code = o == "and"  ? by_kind(Op::kAndPred, Op::kAnd32, Op::kAnd64)
              : o == "or" ? by_kind(Op::kOrPred, Op::kOr32, Op::kOr64)
                          : by_kind(Op::kXorPred, Op::kXor32, Op::kXor64);
    return plain(code, destination(op(0), k), {source(op(1), k, true), source(op(2), k, true)});
  }

  bool shift() {
    if (!one_type() || !operands(3)) return false;
    Type t = types_[0];
    RegKind k = kind_of(t);
    Reg a = source(op(1), k), amount = source(op(2), RegKind::kW), d = destination(op(0), k);
    if (at_->opcode == "shl")
      return plain(k == RegKind::kL ? Op::kShl64 : Op::kShl32, d, {a, amount});
    return plain(pick(t, Op::kShrS32, Op::kShrU32, Op::kShrS64, Op::kShrU64), d,
                 {widened(a, t), amount});
  }

  bool funnel() {
    if (!one_type() || !operands(4) || types_[0] != Type::kB32) return refuse();
    bool left = take("l"), right = !left && take("r");
    bool clamp = take("clamp"), wrap = !clamp && take("wrap");
    if ((!left && !right) || (!clamp && !wrap)) return refuse();
    constexpr RegKind W = RegKind::kW;
    return plain(left ? Op::kShfL32 : Op::kShfR32, destination(op(0), W),
                 {source(op(1), W), source(op(2), W), source(op(3), W)}, clamp ? 1 : 0);
  }

  bool bits() {
    if (!one_type() || !operands(2)) return false;
    RegKind k = kind_of(types_[0]);
    if (bytes_of(types_[0]) < 4) return refuse();
    bool wide = k == RegKind::kL;
    Reg a = source(op(1), k);
    const std::string& o = at_->opcode;
    if (o == "popc")
      return plain(wide ? Op::kPopc64 : Op::kPopc32, destination(op(0), RegKind::kW), {a});
    if (o == "clz")
      return plain(wide ? Op::kClz64 : Op::kClz32, destination(op(0), RegKind::kW), {a});
    return plain(wide ? Op::kBrev64 : Op::kBrev32, destination(op(0), k), {a});
  }

  bool bit_field() {
    if (!one_type()) return false;
    Type t = types_[0];
    RegKind k = kind_of(t);
    constexpr RegKind W = RegKind::kW;
    if (bytes_of(t) < 4) return refuse();
    if (at_->opcode == "bfe") {
      if (!operands(4)) return false;
      return plain(pick(t, Op::kBfeS32, Op::kBfeU32, Op::kBfeS64, Op::kBfeU64),
                   destination(op(0), k), {source(op(1), k), source(op(2), W), source(op(3), W)});
    }
    if (!operands(5)) return false;
    return plain(k == RegKind::kL ? Op::kBfi64 : Op::kBfi32, destination(op(0), k),
                 {source(op(1), k), source(op(2), k), source(op(3), W), source(op(4), W)});
  }

  bool prmt() {
    constexpr RegKind W = RegKind::kW;
    if (!one_type() || !operands(4)) return false;  // modes f4e, b4e, ... stay in flags_ and refuse
    return plain(Op::kPrmt32, destination(op(0), W),
                 {source(op(1), W), source(op(2), W), source(op(3), W)});
  }

  bool lop3() {
    constexpr RegKind W = RegKind::kW;
    if (!one_type() || !operands(5) || op(4).kind != Operand::Kind::kInteger) return refuse();
    return plain(Op::kLop332, destination(op(0), W),
                 {source(op(1), W), source(op(2), W), source(op(3), W)}, op(4).integer & 255);
  }

  bool setp() {
    if (!one_type() || at_->operands.size() < 3 || at_->operands.size() > 4 || flags_.empty())
      return refuse();
    Type t = types_[0];
    if (is_half(t) || t == Type::kPred) return refuse();
    static const std::map<std::string_view, Comparison> kNames = {
        {"eq", Comparison::kEq},   {"ne", Comparison::kNe},   {"lt", Comparison::kLt},
        {"le", Comparison::kLe},   {"gt", Comparison::kGt},   {"ge", Comparison::kGe},
        {"lo", Comparison::kLt},   {"ls", Comparison::kLe},   {"hi", Comparison::kGt},
        {"hs", Comparison::kGe},   {"equ", Comparison::kEqu}, {"neu", Comparison::kNeu},
        {"ltu", Comparison::kLtu}, {"leu", Comparison::kLeu}, {"gtu", Comparison::kGtu},
        {"geu", Comparison::kGeu}, {"num", Comparison::kNum}, {"nan", Comparison::kNan}};
    auto comparison = kNames.find(flags_[0]);
    if (comparison == kNames.end()) return refuse();
    if (!is_float(t) && comparison->second > Comparison::kGe) return refuse();
    flags_.erase(flags_.begin());
    RegKind k = kind_of(t);
    Reg a = source(op(1), k, true), b = source(op(2), k, true);
    Op code = t == Type::kF32   ? Op::kSetpF32
              : t == Type::kF64 ? Op::kSetpF64
                                : pick(t, Op::kSetpS32, Op::kSetpU32, Op::kSetpS64, Op::kSetpU64);
    if (!is_float(t)) a = widened(a, t), b = widened(b, t);
    std::int64_t imm = static_cast<std::int64_t>(comparison->second);
    Op combine = take("and")   ? Op::kAndPred
                 : take("or")  ? Op::kOrPred
                 : take("xor") ? Op::kXorPred
                               : Op::kMovPred;
    Reg d = destination(op(0), RegKind::kP);
    if (combine == Op::kMovPred && op(0).second.empty() && at_->operands.size() == 3)
      return plain(code, d, {a, b}, imm);
    // p = cmp OP c, q = !cmp OP c; through temporaries, since a destination may be c itself.
    Reg raw = temp(code, {a, b}, imm);
    Reg c = at_->operands.size() == 4 ? source(op(3), RegKind::kP) : kNoReg;
    if (raw == kNoReg || (c == kNoReg) != (combine == Op::kMovPred)) return refuse();
    Reg first = combine == Op::kMovPred ? raw : temp(combine, {raw, c});
    if (!op(0).second.empty()) {
      Reg q = named(op(0).second);
      if (q == kNoReg || kind(q) != RegKind::kP)
        return fail("the second destination is no predicate");
      Reg inverse = temp(Op::kNotPred, {raw});
      Reg second = combine == Op::kMovPred ? inverse : temp(combine, {inverse, c});
      if (!plain(Op::kMovPred, q, {second})) return false;
    }
    return plain(Op::kMovPred, d, {first});
  }

  bool selp() {
    if (!one_type() || !operands(4)) return false;
    RegKind k = kind_of(types_[0]);
    if (k == RegKind::kP || k == RegKind::kNone) return refuse();
    return plain(k == RegKind::kL ? Op::kSelp64 : Op::kSelp32, destination(op(0), k),
                 {source(op(1), k, true), source(op(2), k, true), source(op(3), RegKind::kP)});
  }

  bool cvt() {
    if (types_.size() != 2) return refuse();
    Type to = types_[0], from = types_[1];
    if (is_half(to) || is_half(from)) return cvt_half(to, from);
    if (!operands(2)) return refuse();
    RegKind kt = kind_of(to), kf = kind_of(from);
    Reg a = source(op(1), kf, true), d = destination(op(0), kt);
    if (a == kNoReg || d == kNoReg) return false;
    if (is_float(to) && is_float(from)) return cvt_float(to, from, d, a);
    if (is_float(to)) {
      bool exact = to == Type::kF64 && bytes_of(from) <= 4;
      if (!take("rn") && !exact) return refuse();
      a = widened(a, from);
      if (to == Type::kF32)
        return plain(pick(from, Op::kS32ToF32, Op::kU32ToF32, Op::kS64ToF32, Op::kU64ToF32), d,
                     {a});
      return plain(pick(from, Op::kS32ToF64, Op::kU32ToF64, Op::kS64ToF64, Op::kU64ToF64), d, {a});
    }
    if (is_float(from)) {
      Rounding r = take("rni")   ? Rounding::kNearest
                   : take("rzi") ? Rounding::kZero
                   : take("rmi") ? Rounding::kDown
                                 : Rounding::kUp;
      if (r == Rounding::kUp && !take("rpi")) return refuse();
      take("sat");  // float to integer always saturates
      Op code = from == Type::kF32
                    ? pick(to, Op::kF32ToS32, Op::kF32ToU32, Op::kF32ToS64, Op::kF32ToU64)
                    : pick(to, Op::kF64ToS32, Op::kF64ToU32, Op::kF64ToS64, Op::kF64ToU64);
      std::int64_t imm = static_cast<std::int64_t>(r);
      if (bytes_of(to) >= 4) return plain(code, d, {a}, imm);
      // Narrow results saturate at their own range; through 32 bits that is a clamp.
      int width = static_cast<int>(8 * bytes_of(to));
      Reg wide = temp(code, {a}, imm);
      if (!is_signed(to))
        return plain(Op::kMinU32, d, {wide, constant(RegKind::kW, (1u << width) - 1)});
      std::int64_t top = (std::int64_t{1} << (width - 1)) - 1;
      Reg low =
          temp(Op::kMaxS32, {wide, constant(RegKind::kW, static_cast<std::uint64_t>(-top - 1))});
      return plain(Op::kMinS32, d, {low, constant(RegKind::kW, static_cast<std::uint64_t>(top))});
    }
    // integer to integer
    if (kt == RegKind::kL) {
      if (kf == RegKind::kL) return plain(Op::kMov64, d, {a});
      return plain(is_signed(from) ? Op::kSextW : Op::kZextW, d, {widened(a, from)});
    }
    Reg w = kf == RegKind::kL ? temp(Op::kTruncL, {a}) : a;
    Type narrow = bytes_of(to) <= bytes_of(from) ? to : from;
    switch (bytes_of(narrow)) {
      case 1:
        return plain(is_signed(narrow) ? Op::kSextB : Op::kZextB, d, {w});
      case 2:
        return plain(is_signed(narrow) ? Op::kSextH : Op::kZextH, d, {w});
      default:
        return plain(Op::kMov32, d, {w});
    }
  }

  // Between f32 and the formats of tensor-core operands; the bits of all of these are defined.
  bool cvt_half(Type to, Type from) {
    constexpr RegKind W = RegKind::kW;
    if (to == Type::kF16x2 || to == Type::kBF16x2) {  // the first source goes to the upper half
      if (!operands(3) || from != Type::kF32 || !take("rn")) return refuse();
      const Op narrow = to == Type::kF16x2 ? Op::kF32ToF16 : Op::kF32ToBf16;
      const Reg high = temp(narrow, {source(op(1), W)}), low = temp(narrow, {source(op(2), W)});
      return plain(Op::kPack32, destination(op(0), W), {low, high});
    }
    if (!operands(2)) return refuse();
    Op code;
    if (from == Type::kF32) {
      if (to == Type::kTF32 ? !take("rna") : !take("rn")) return refuse();
      code = to == Type::kTF32   ? Op::kF32ToTf32
             : to == Type::kF16  ? Op::kF32ToF16
             : to == Type::kBF16 ? Op::kF32ToBf16
                                 : Op::kMov32;
      if (code == Op::kMov32) return refuse();
    } else if (to == Type::kF32 && (from == Type::kF16 || from == Type::kBF16)) {
      code = from == Type::kF16 ? Op::kF16ToF32 : Op::kBf16ToF32;
    } else {
      return refuse();
    }
    return plain(code, destination(op(0), W), {source(op(1), W)});
  }

  bool cvt_float(Type to, Type from, Reg d, Reg a) {
    if (to != from) {
      if (to == Type::kF64) return plain(Op::kF32ToF64, d, {a});
      if (!take("rn")) return refuse();
      return plain(Op::kF64ToF32, d, {a});
    }
    bool single = to == Type::kF32;
    if (take("sat")) return single ? plain(Op::kSatF32, d, {a}) : refuse();
    Rounding r;
    if (take("rni"))
      r = Rounding::kNearest;
    else if (take("rzi"))
      r = Rounding::kZero;
    else if (take("rmi"))
      r = Rounding::kDown;
    else if (take("rpi"))
      r = Rounding::kUp;
    else
      return refuse();
    return plain(single ? Op::kRoundF32 : Op::kRoundF64, d, {a}, static_cast<std::int64_t>(r));
  }

  // A generic address is the host address, in every space; shared and local addresses are offsets.
  bool cvta() {
    if (!one_type() || !operands(2) || bytes_of(types_[0]) != 8) return refuse();
    bool to = take("to");
    Reg d = destination(op(0), RegKind::kL), a = source(op(1), RegKind::kL);
    if (take("global") || take("const")) return plain(Op::kMov64, d, {a});
    Op code = to ? Op::kSub64 : Op::kAdd64;
    if (take("shared") || take("shared::cta"))
      return plain(code, d, {a, special(Special::kSharedBase, RegKind::kL)});
    if (take("local")) return plain(code, d, {a, special(Special::kLocalBase, RegKind::kL)});
    return refuse();
  }

  // Cache and ordering hints: the executor runs a block's threads in lockstep, so they change
  // nothing.
  void take_hints() {
    std::erase_if(flags_, [](const std::string& f) {
      static const std::set<std::string_view> kHints = {
          "volatile", "weak", "relaxed", "acquire", "release", "cta", "cluster", "gpu", "sys",
          "nc",       "ca",   "cg",      "cs",      "lu",      "cv",  "wb",      "wt"};
      return kHints.count(f) || f.starts_with("L1::") || f.starts_with("L2::");
    });
  }
  Space take_space() {
    if (take("global")) return Space::kGlobal;
    if (take("shared") || take("shared::cta")) return Space::kShared;
    if (take("local")) return Space::kLocal;
    if (take("const")) return Space::kConst;
    if (take("param") || take("param::entry")) return Space::kParam;
    return Space::kNone;
  }

  // Base register of an address operand, with the constant part in `offset`.
  Reg address(const Operand& o, Space space, std::int64_t& offset) {
    if (o.kind != Operand::Kind::kAddress)
      return fail(fmt::format("'{}' takes an address", text_of(*at_))), kNoReg;
    offset = o.integer;
    bool narrow = space == Space::kShared;
    if (o.name.empty()) return constant(narrow ? RegKind::kW : RegKind::kL, 0);
    if (o.name[0] != '%' && !singles_.count(o.name)) {
      auto at = symbols_.find(o.name);
      if (at == symbols_.end())
        return fail(fmt::format("symbol '{}' is not declared", o.name)), kNoReg;
      Space actual = at->second.space;
      if (actual != space)
        return fail(fmt::format("'{}' is not in the state space of '{}'", o.name, text_of(*at_))),
               kNoReg;
      return constant(narrow ? RegKind::kW : RegKind::kL, at->second.address);
    }
    Reg r = named(o.name);
    if (r == kNoReg) return r;
    if (narrow && kind(r) == RegKind::kL) return temp(Op::kTruncL, {r});
    if (!narrow && kind(r) == RegKind::kW && space == Space::kLocal) return temp(Op::kZextW, {r});
    if (kind(r) != (narrow ? RegKind::kW : RegKind::kL))
      return fail(fmt::format("address register '{}' has the wrong width", o.name)), kNoReg;
    return r;
  }

  bool vector_count(std::uint8_t& count) {
    count = take("v2") ? 2 : take("v4") ? 4 : 1;
    return true;
  }
  std::vector<Operand> elements(const Operand& o) const {
    return o.kind == Operand::Kind::kVector ? o.elements : std::vector<Operand>{o};
  }

  bool load() {
    take_hints();
    if (!one_type() || !operands(2)) return false;
    Type t = types_[0];
    Space space = take_space();
    Memory m;
    vector_count(m.count);
    m.space = space;
    m.bytes = static_cast<std::uint8_t>(bytes_of(t));
    m.sign_extend = is_signed(t);
    if (m.bytes == 0 || m.bytes > 8) return refuse();
    std::vector<Operand> targets = elements(op(0));
    if (targets.size() != m.count) return fail("the vector has the wrong length");
    std::int64_t offset = 0;
    if (space == Space::kParam) {
      auto at = symbols_.find(op(1).name);
      if (op(1).kind != Operand::Kind::kAddress || at == symbols_.end() ||
          at->second.space != Space::kParam)
        return refuse("reads a parameter at a computed address, which is not supported");
      offset = static_cast<std::int64_t>(at->second.address) + op(1).integer;
      if (offset < 0 || static_cast<std::uint64_t>(offset) + std::uint64_t{m.bytes} * m.count >
                            program_->parameter_bytes)
        return fail("a parameter access outside the parameters");
      for (std::uint8_t i = 0; i < m.count; ++i) {
        Reg d = loaded(targets[i], m, Op::kLoadParam, {}, offset + i * m.bytes);
        if (d == kNoReg) return false;
      }
      return true;
    }
    Reg base = address(op(1), space, offset);
    if (base == kNoReg) return false;
    // All destinations in one instruction, so that the address is read before any of them is
    // written.
    std::array<Reg, 4> d{};
    std::array<Reg, 4> widen{kNoReg, kNoReg, kNoReg, kNoReg};
    RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
    for (std::uint8_t i = 0; i < m.count; ++i) {
      if (names_register(targets[i])) {
        Reg r = named(targets[i].name);
        if (r == kNoReg) return false;
        if (kind(r) == RegKind::kL && k == RegKind::kW) {
          widen[i] = r;
          d[i] = new_reg(RegKind::kW);
          continue;
        }
      }
      d[i] = destination(targets[i], k);
      if (d[i] == kNoReg) return false;
    }
    Inst& inst = emit(Op::kLoad, {}, {base}, offset);
    inst.memory = m;
    inst.destinations = m.count;
    inst.dst = d;
    for (std::uint8_t i = 0; i < m.count; ++i)
      if (widen[i] != kNoReg) emit(m.sign_extend ? Op::kSextW : Op::kZextW, {widen[i]}, {d[i]});
    return true;
  }
  Reg loaded(const Operand& target, const Memory& m, Op o, std::initializer_list<Reg> src,
             std::int64_t imm) {
    RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
    Reg wide = kNoReg, d;
    if (names_register(target)) {
      Reg r = named(target.name);
      if (r == kNoReg) return r;
      if (kind(r) == RegKind::kL && k == RegKind::kW) wide = r;
    }
    d = wide != kNoReg ? new_reg(RegKind::kW) : destination(target, k);
    if (d == kNoReg) return d;
    Inst& inst = emit(o, {d}, src, imm);
    inst.memory = m;
    inst.memory.count = 1;
    if (wide != kNoReg) emit(m.sign_extend ? Op::kSextW : Op::kZextW, {wide}, {d});
    return d;
  }

  bool store() {
    take_hints();
    if (!one_type() || !operands(2)) return false;
    Type t = types_[0];
    Memory m;
    m.space = take_space();
    vector_count(m.count);
    m.bytes = static_cast<std::uint8_t>(bytes_of(t));
    if (m.bytes == 0 || m.bytes > 8) return refuse();
    if (m.space == Space::kParam || m.space == Space::kConst)
      return refuse("writes a read-only state space");
    std::vector<Operand> values = elements(op(1));
    if (values.size() != m.count) return fail("the vector has the wrong length");
    std::int64_t offset = 0;
    Reg base = address(op(0), m.space, offset);
    if (base == kNoReg) return false;
    std::array<Reg, 4> v{};
    for (std::uint8_t i = 0; i < m.count; ++i) {
      v[i] = source(values[i], m.bytes == 8 ? RegKind::kL : RegKind::kW, true);
      if (v[i] == kNoReg) return false;
    }
    Inst& inst = emit(Op::kStore, {}, {base}, offset);
    inst.memory = m;
    for (std::uint8_t i = 0; i < m.count; ++i) inst.src[inst.sources++] = v[i];
    return true;
  }

  bool atomic() {
    take_hints();
    bool reduction = at_->opcode == "red";
    if (!one_type()) return false;
    Type t = types_[0];
    Memory m;
    m.space = take_space();
    m.bytes = static_cast<std::uint8_t>(bytes_of(t));
    if (m.space != Space::kGlobal && m.space != Space::kShared && m.space != Space::kNone)
      return refuse();
    AtomicKind kind;
    bool cas = false;
    if (take("add")) {
      if (is_half(t)) return refuse();
      kind = t == Type::kF32   ? AtomicKind::kAddF32
             : t == Type::kF64 ? AtomicKind::kAddF64
                               : AtomicKind::kAdd;
    } else if (is_float(t) || is_half(t)) {
      return refuse();
    } else if (take("min")) {
      kind = is_signed(t) ? AtomicKind::kMinS : AtomicKind::kMinU;
    } else if (take("max")) {
      kind = is_signed(t) ? AtomicKind::kMaxS : AtomicKind::kMaxU;
    } else if (take("and")) {
      kind = AtomicKind::kAnd;
    } else if (take("or")) {
      kind = AtomicKind::kOr;
    } else if (take("xor")) {
      kind = AtomicKind::kXor;
    } else if (take("exch")) {
      kind = AtomicKind::kExch;
    } else if (take("cas")) {
      kind = AtomicKind::kCas;
      cas = true;
    } else {
      return refuse();  // inc, dec
    }
    take("noftz");
    if (m.bytes != 4 && m.bytes != 8) return refuse();
    std::size_t first = reduction ? 0 : 1;
    if (!operands(first + (cas ? 3 : 2))) return false;
    RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
    std::int64_t offset = 0;
    Reg base = address(op(first), m.space, offset), value = source(op(first + 1), k, true);
    Reg second = cas ? source(op(first + 2), k, true) : kNoReg;
    Reg d = reduction ? new_reg(k) : destination(op(0), k);
    if (base == kNoReg || value == kNoReg || d == kNoReg || (cas && second == kNoReg)) return false;
    Inst& inst = emit(Op::kAtomic, {d}, {base, value}, offset);
    if (cas) inst.src[inst.sources++] = second;
    inst.memory = m;
    inst.memory.count =
        static_cast<std::uint8_t>(kind);  // an atomic has no vector form; the field holds its kind
    if (m.space != Space::kShared) program_->has_global_atomics = true;
    return true;
  }

  bool shuffle() {
    if (!take("sync") || types_.size() != 1 || types_[0] != Type::kB32 || !operands(5))
      return refuse();
    ShuffleKind kind = take("up")     ? ShuffleKind::kUp
                       : take("down") ? ShuffleKind::kDown
                       : take("bfly") ? ShuffleKind::kBfly
                                      : ShuffleKind::kIdx;
    if (kind == ShuffleKind::kIdx && !take("idx")) return refuse();
    constexpr RegKind W = RegKind::kW;
    Reg a = source(op(1), W), b = source(op(2), W), c = source(op(3), W), mask = source(op(4), W);
    Reg d = destination(op(0), W), p = kNoReg;
    if (!op(0).second.empty() && op(0).second != "_") {
      p = named(op(0).second);
      if (p == kNoReg || this->kind(p) != RegKind::kP)
        return fail("the second destination is no predicate");
    }
    if (a == kNoReg || b == kNoReg || c == kNoReg || mask == kNoReg || d == kNoReg) return false;
    Inst& inst = emit(Op::kShuffle, {d}, {a, b, c, mask}, static_cast<std::int64_t>(kind));
    if (p != kNoReg) inst.dst[inst.destinations++] = p;
    return true;
  }

  bool vote() {
    if (!take("sync") || types_.size() != 1 || !operands(3)) return refuse();
    VoteKind kind = take("all")   ? VoteKind::kAll
                    : take("any") ? VoteKind::kAny
                    : take("uni") ? VoteKind::kUni
                                  : VoteKind::kBallot;
    if (kind == VoteKind::kBallot && !take("ballot")) return refuse();
    Reg p = source(op(1), RegKind::kP), mask = source(op(2), RegKind::kW);
    Reg d = destination(op(0), kind == VoteKind::kBallot ? RegKind::kW : RegKind::kP);
    if (p == kNoReg || mask == kNoReg || d == kNoReg) return false;
    emit(Op::kVote, {d}, {p, mask}, static_cast<std::int64_t>(kind));
    return true;
  }

  bool activemask() {
    if (!operands(1)) return false;
    Reg d = destination(op(0), RegKind::kW);
    if (d == kNoReg) return false;
    emit(Op::kActiveMask, {d}, {});
    return true;
  }

  bool barrier() {
    if (take("warp")) {  // threads of a warp are in lockstep already
      take("sync");
      program_->has_warp_barriers = true;
      return true;
    }
    take("cta");
    if (!take("sync")) return refuse();
    take("aligned");
    if (!operands(1) || op(0).kind != Operand::Kind::kInteger)
      return refuse("of a part of the block is not supported");
    if (guard_ != kNoReg) return refuse("under a predicate is not supported");
    emit(Op::kBarrier, {}, {});
    return true;
  }
  bool fence() {
    flags_.clear();
    return true;
  }
  bool trap() {
    emit(Op::kTrap, {}, {});
    return true;
  }

  // Fragments of A, B and C as written: vectors of registers.
  bool mma() {
    if (!operands(4)) return false;
    if (guard_ != kNoReg) return refuse("under a predicate is not supported");
    auto shape = mma_shape(module_.target, flags_, types_);
    if (!shape.ok()) return refuse(shape.error().message.c_str());
    flags_.clear();
    const int acc = shape->parts() * shape->acc_regs;
    const std::array<int, 4> counts = {acc, shape->a_regs, shape->b_regs, acc};
    std::array<std::vector<Reg>, 4> regs;  // D, A, B, C
    for (std::size_t o = 0; o < 4; ++o) {
      const std::vector<Operand> list = elements(op(o));
      if (list.size() != static_cast<std::size_t>(counts[o]))
        return fail(fmt::format("operand {} of '{}' has {} registers, expected {}", o + 1,
                                text_of(*at_), list.size(), counts[o]));
      for (const Operand& e : list) {
        const Reg r = o == 0 ? destination(e, RegKind::kW) : source(e, RegKind::kW);
        if (r == kNoReg) return false;
        regs[o].push_back(r);
      }
    }
    // The first part must not overwrite what the second reads.
    if (shape->parts() > 1)
      for (std::size_t o = 1; o < 4; ++o)
        for (Reg& r : regs[o])
          if (std::find(regs[0].begin(), regs[0].end(), r) != regs[0].end())
            r = temp(Op::kMov32, {r});
    for (int part = 0; part < shape->parts(); ++part) {
      Inst& inst = emit(Op::kMma, {}, {}, static_cast<std::int64_t>(program_->mma_shapes.size()));
      const auto first = static_cast<std::size_t>(part * shape->acc_regs),
                 last = first + static_cast<std::size_t>(shape->acc_regs);
      for (std::size_t i = first; i < last; ++i) inst.dst[inst.destinations++] = regs[0][i];
      for (const std::size_t o : {1, 2})
        for (const Reg r : regs[o]) inst.src[inst.sources++] = r;
      for (std::size_t i = first; i < last; ++i) inst.src[inst.sources++] = regs[3][i];
      program_->mma_shapes.push_back(*shape);
      program_->mma_shapes.back().column = 4 * part;
    }
    return true;
  }

  bool load_matrix() {
    if (!operands(2) || types_ != std::vector<Type>{Type::kB16}) return refuse();
    if (guard_ != kNoReg) return refuse("under a predicate is not supported");
    if (!take("sync") || !take("aligned") || !take("m8n8")) return refuse();
    Memory m;
    m.count = take("x4") ? 4 : take("x2") ? 2 : 1;
    if (m.count == 1 && !take("x1")) return refuse();
    if (!take("shared") && !take("shared::cta")) return refuse();
    m.space = Space::kShared;
    m.bytes = 16;  // of a row
    const std::vector<Operand> list = elements(op(0));
    if (list.size() != m.count) return fail("the vector has the wrong length");
    std::int64_t offset = 0;
    const Reg base = address(op(1), m.space, offset);
    if (base == kNoReg) return false;
    std::array<Reg, 4> d{};
    for (std::size_t i = 0; i < list.size(); ++i) {
      d[i] = destination(list[i], RegKind::kW);
      if (d[i] == kNoReg) return false;
    }
    Inst& inst = emit(Op::kLoadMatrix, {}, {base}, offset);
    inst.memory = m;
    inst.destinations = m.count;
    inst.dst = d;
    return true;
  }

  // ptxas may contract an unsuffixed mul with an unsuffixed add or sub, which would give other bits
  // than executing the text as it stands (numerics.md, 2.2). Registers are not followed through
  // copies: NVRTC contracts before it prints, and with --fmad=false every instruction carries .rn
  // anyway.
  bool check_contraction() {
    for (const Sum& s : sums_) {
      if (!products_.count(s.a) && !products_.count(s.b)) continue;
      at_ = s.at;
      return fail(fmt::format("'{}' may be contracted with the product it reads, so its bits are "
                              "not defined by the PTX",
                              text_of(*s.at)),
                  "compile with --fmad=false: NVRTC then writes .rn");
    }
    return true;
  }

  struct Sum {
    const Instruction* at;
    Reg a, b;
  };
  const Module& module_;
  const Entry& entry_;
  std::unique_ptr<ProgramCode> program_;
  std::optional<Diagnostic> error_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::unordered_map<std::string, Reg> registers_;
  std::unordered_map<std::string, std::pair<RegKind, std::uint32_t>> ranges_;
  std::unordered_map<std::string, RegKind> singles_;
  std::map<std::pair<RegKind, std::uint64_t>, Reg> constants_;
  std::map<Special, Reg> specials_;
  std::unordered_map<std::string, std::uint32_t> label_at_;
  std::vector<std::uint32_t> block_of_, begins_;
  Block* block_ = nullptr;
  const Instruction* at_ = nullptr;
  Reg guard_ = kNoReg;
  std::vector<Type> types_;
  std::vector<std::string> flags_;
  std::set<Reg> products_;
  std::vector<Sum> sums_;
};

}  // namespace

Result<std::unique_ptr<ProgramCode>> select(const Module& module, const Entry& entry) {
  return Selector(module, entry).run();
}

}  // namespace driftc::runtime::ptx
