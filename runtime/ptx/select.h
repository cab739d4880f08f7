// Module -> Code: names become registers, opcodes with their modifiers become operations of the
// executor. This is where everything that is not modelled bit-exactly is refused by name. Private
// to the select*.cpp: what holds the parts together, one file for each family of instructions.
#pragma once

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

inline bool is_float(Type t) { return t == Type::kF32 || t == Type::kF64; }
inline bool is_half(Type t) {
  return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2 ||
         t == Type::kTF32;
}
inline bool is_signed(Type t) {
  return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64;
}
RegKind kind_of(Type t);  // kNone for 16 bytes

class Selector {
 public:
  Selector(const Module& module, const Entry& entry) : module_(module), entry_(entry) {}
  Result<std::unique_ptr<ProgramCode>> run();

 private:
  struct Symbol {
    Space space;
    std::uint64_t address;  // offset in its space, or host address
  };
  struct Sum {
    const Instruction* at;
    Reg a, b;
  };

  Code& code() { return program_->code; }
  // Reports, the first one only; false, so that a caller can return it.
  bool fail(int line, int column, std::string message, std::string hint = {});
  bool fail(std::string message, std::string hint = {});
  bool refuse(const char* why = "is not modelled bit-exactly");
  std::string text_of(const Instruction& i) const;

  // ---- the frame of a kernel (select.cpp)
  bool layout_parameters();
  bool layout_variables();
  bool declare_registers();
  static bool ends_block(const Instruction& i) {
    return i.opcode == "bra" || i.opcode == "ret" || i.opcode == "exit";
  }
  bool split_blocks();
  bool select_block(std::uint32_t index);
  bool terminator(std::uint32_t index);
  bool check_contraction();
  // The instruction at_. A handler below takes the modifiers it understands; anything left refuses.
  bool instruction();
  bool take(std::string_view flag);
  bool operands(std::size_t n);
  const Operand& op(std::size_t i) const { return at_->operands[i]; }
  bool one_type() { return types_.size() == 1 || refuse(); }
  bool done() { return flags_.empty() ? true : refuse(); }

  // ---- operands and emission (select_operands.cpp); kNoReg after fail()
  Reg new_reg(RegKind kind);
  RegKind kind(Reg r) { return code().regs[r].kind; }
  Reg constant(RegKind kind, std::uint64_t bits);
  Reg special(Special which, RegKind kind);
  Reg special_by_name(const std::string& name);
  Reg named(const std::string& name);
  bool names_register(const Operand& o) const;
  // A source operand as a register of `want`; narrower or wider registers are accepted as PTX does
  // for b types.
  Reg source(const Operand& o, RegKind want, bool is_f64 = false);
  Reg destination(const Operand& o, RegKind want);
  // Base register of an address operand, with the constant part in `offset`.
  Reg address(const Operand& o, Space space, std::int64_t& offset);
  std::vector<Operand> elements(const Operand& o) const;
  Inst& emit(Op op, std::initializer_list<Reg> dst, std::initializer_list<Reg> src,
             std::int64_t imm = 0);
  // An intermediate value: computed whatever the guard says, since plain operations have no side
  // effect.
  Reg temp(Op op, std::initializer_list<Reg> src, std::int64_t imm = 0);
  bool plain(Op o, Reg d, std::initializer_list<Reg> src, std::int64_t imm = 0);
  // 8- and 16-bit operands widened to 32 bits as their type says.
  Reg widened(Reg r, Type t);
  static Op pick(Type t, Op s32, Op u32, Op s64, Op u64) {
    bool wide = bytes_of(t) == 8;
    return is_signed(t) ? (wide ? s64 : s32) : (wide ? u64 : u32);
  }

  // ---- one handler for a family of opcodes; several opcodes share one where they differ in a word
  // select_arithmetic.cpp
  bool mov();
  bool arithmetic();
  bool multiply();
  bool multiply_add();
  bool fma();
  bool unary();
  bool copysign();
  bool logic();
  bool shift();
  bool funnel();
  bool bits();
  bool bit_field();
  bool prmt();
  bool lop3();
  bool setp();
  bool selp();
  // select_convert.cpp
  bool cvt();
  bool cvt_half(Type to, Type from);
  bool cvt_float(Type to, Type from, Reg d, Reg a);
  bool cvta();
  // select_memory.cpp
  void take_hints();
  Space take_space();
  std::uint8_t vector_count();
  bool load();
  Reg loaded(const Operand& target, const Memory& m, Op o, std::initializer_list<Reg> src,
             std::int64_t imm);
  bool store();
  bool atomic();
  // select_async.cpp
  bool async();
  bool copy_async();
  bool words_to_read(std::int64_t bytes, std::array<Reg, 4>& reads);
  // select_warp.cpp
  bool shuffle();
  bool vote();
  bool activemask();
  bool barrier();
  bool fence();
  bool trap();
  bool mma();
  bool load_matrix();

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
  std::vector<Type> types_;  // modifiers of at_ that are types, and the rest
  std::vector<std::string> flags_;
  // What ptxas might contract: products and sums without a rounding suffix.
  std::set<Reg> products_;
  std::vector<Sum> sums_;
};

}  // namespace driftc::runtime::ptx
