// The frame of a kernel: parameters, variables, register declarations, basic blocks, and which
// handler an opcode goes to.
#include "runtime/ptx/select.h"

#include <algorithm>
#include <cstring>

namespace driftc::runtime::ptx {

namespace {

constexpr std::uint32_t kMaxShared = 227 * 1024;
constexpr std::uint64_t kMaxLocal = 512 * 1024;  // per thread, as on the hardware

}  // namespace

Result<std::unique_ptr<ProgramCode>> Selector::run() {
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

bool Selector::fail(int line, int column, std::string message, std::string hint) {
  if (error_) return false;
  Diagnostic d =
      internal_error(fmt::format("kernel '{}': {}", entry_.name, message), std::move(hint));
  d.place = {module_.file, line, column};
  error_ = std::move(d);
  return false;
}

bool Selector::fail(std::string message, std::string hint) {
  return fail(at_ ? at_->line : entry_.line, at_ ? at_->column : 1, std::move(message),
              std::move(hint));
}

std::string Selector::text_of(const Instruction& i) const {
  std::string out = i.opcode;
  for (const std::string& m : i.modifiers) out += "." + m;
  return out;
}

bool Selector::refuse(const char* why) {
  return fail(fmt::format("instruction '{}' {}", text_of(*at_), why));
}

bool Selector::layout_parameters() {
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

bool Selector::layout_variables() {
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

bool Selector::declare_registers() {
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

bool Selector::split_blocks() {
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

bool Selector::select_block(std::uint32_t index) {
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
      if (kind(guard_) != RegKind::kP) return fail(fmt::format("'{}' is no predicate", at_->guard));
    }
    if (ends_block(*at_)) return terminator(index);
    if (!instruction()) return error_ ? false : refuse();
  }
  return true;
}

bool Selector::terminator(std::uint32_t index) {
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

// Modifiers split into types and the rest; a handler takes what it understands, anything left
// refuses.
bool Selector::take(std::string_view flag) {
  auto at = std::find(flags_.begin(), flags_.end(), flag);
  if (at == flags_.end()) return false;
  flags_.erase(at);
  return true;
}

bool Selector::operands(std::size_t n) {
  if (at_->operands.size() == n) return true;
  return fail(
      fmt::format("'{}' takes {} operands, found {}", text_of(*at_), n, at_->operands.size()));
}

bool Selector::instruction() {
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
      {"mma", &Selector::mma},          {"ldmatrix", &Selector::load_matrix},
      {"cp", &Selector::async}};
  auto at = kHandlers.find(at_->opcode);
  if (at == kHandlers.end()) return refuse();
  return (this->*at->second)() && done();
}

// ptxas may contract an unsuffixed mul with an unsuffixed add or sub, which would give other bits
// than executing the text as it stands (numerics.md, 2.2). Registers are not followed through
// copies: NVRTC contracts before it prints, and with --fmad=false every instruction carries .rn
// anyway.
bool Selector::check_contraction() {
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

Result<std::unique_ptr<ProgramCode>> select(const Module& module, const Entry& entry) {
  return Selector(module, entry).run();
}

}  // namespace driftc::runtime::ptx
