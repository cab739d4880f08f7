#include "tests/unit/x86_code.h"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <vector>

namespace driftc::test {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> code) : code_(code) {}

  std::string run(std::size_t& instructions) {
    std::vector<std::size_t> open = {0};
    while (!open.empty() && problem_.empty()) {
      at_ = begin_ = open.back();
      open.pop_back();
      while (seen_.insert(begin_).second && problem_.empty()) {
        const End end = one();
        if (target_ >= 0) open.push_back(static_cast<std::size_t>(target_));
        if (end == End::kStop) break;
        begin_ = at_;
      }
    }
    instructions += seen_.size();
    return problem_;
  }

 private:
  enum class End : std::uint8_t { kGoOn, kStop };

  std::uint8_t byte() {
    if (at_ < code_.size()) return code_[at_++];
    fail("runs past the end");
    return 0;
  }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = fmt::format("{} at byte {}", what, begin_);
  }
  // ModRM and what belongs to it; its middle field.
  unsigned operand() {
    const std::uint8_t modrm = byte();
    const unsigned mod = modrm >> 6, rm = modrm & 7;
    unsigned displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (mod != 3 && rm == 4) {
      const std::uint8_t sib = byte();
      if (mod == 0 && (sib & 7) == 5) displacement = 4;
    } else if (mod == 0 && rm == 5) {
      displacement = 4;
    }
    at_ += displacement;
    return modrm >> 3 & 7;
  }
  void jump(unsigned bytes) {
    std::int32_t distance = 0;
    if (bytes == 1) {
      distance = byte();
      if (distance > 127) distance -= 256;
    } else {
      if (at_ + 4 > code_.size()) return fail("runs past the end");
      std::memcpy(&distance, code_.data() + at_, 4);
      at_ += 4;
    }
    target_ = static_cast<std::int64_t>(at_) + distance;
    if (target_ < 0 || target_ >= static_cast<std::int64_t>(code_.size()))
      fail("jumps out of the code");
  }

  End one() {
    target_ = -1;
    bool word = false, wide = false;
    std::uint8_t op = byte();
    if (op == 0x66) word = true, op = byte();
    if ((op & 0xF0) == 0x40) wide = (op & 8) != 0, op = byte();
    if (op == 0x62) {
      fail("an EVEX prefix (AVX-512)");
    } else if (op == 0xC4 || op == 0xC5) {
      vector(op == 0xC4);
    } else if (op == 0x0F) {
      two_bytes(byte());
    } else if (op == 0xE9 || op == 0xEB) {
      jump(op == 0xEB ? 1 : 4);
      return End::kStop;
    } else if (op == 0xC3) {
      return End::kStop;
    } else {
      plain(op, word, wide);
    }
    return End::kGoOn;
  }
  void vector(bool three) {
    const std::uint8_t first = byte();
    const unsigned map = three ? first & 31 : 1;
    if (three) byte();  // the register behind the first operand, its width, its prefix
    const std::uint8_t op = byte();
    if (map == 1 && op == 0x77) return;  // vzeroupper
    operand();
    const bool shift = op >= 0x70 && op <= 0x73;
    if (map == 3 || (map == 1 && (shift || op == 0xC2 || (op >= 0xC4 && op <= 0xC6)))) ++at_;
    if (map < 1 || map > 3) fail("an unknown map of VEX");
    const bool scalar = (map == 2 && op >= 0xF2 && op <= 0xF7) || (map == 3 && op == 0xF0);
    if (scalar) fail("an instruction of BMI");
    // AVX-VNNI has VEX encodings too.
    if (map == 2 && op >= 0x50 && op <= 0x53) fail("an instruction of AVX-VNNI");
  }
  void two_bytes(std::uint8_t op) {
    if (op >= 0x80 && op <= 0x8F) return jump(4);
    const bool known = (op >= 0x40 && op <= 0x4F) || (op >= 0x90 && op <= 0x9F) || op == 0xB6 ||
                       op == 0xB7 || op == 0xBE || op == 0xBF || op == 0xBC || op == 0xBD ||
                       op == 0xAF || op == 0x18 || op == 0x1F;
    if (!known) return fail(fmt::format("opcode 0F {:02X}", op));
    operand();
  }
  void plain(std::uint8_t op, bool word, bool wide) {
    const unsigned immediate = word ? 2 : 4;
    if (op < 0x40 && (op & 7) < 4) {  // add, or, and, sub, xor, cmp with an operand
      operand();
    } else if (op < 0x40 && (op & 7) < 6) {  // the same of eax and a number
      at_ += (op & 1) ? immediate : 1;
    } else if (op >= 0x50 && op < 0x60) {  // push, pop
    } else if (op >= 0x70 && op < 0x80) {
      jump(1);
    } else if (op >= 0xB8 && op < 0xC0) {
      at_ += wide ? 8 : immediate;
    } else {
      switch (op) {
        case 0x90:  // nop
          break;
        case 0xA8:
          at_ += 1;
          break;
        case 0xA9:
          at_ += immediate;
          break;
        case 0x63:
        case 0x84:
        case 0x85:
        case 0x88:
        case 0x89:
        case 0x8A:
        case 0x8B:
        case 0x8D:
        case 0xD1:
        case 0xFE:
        case 0xFF:
          operand();
          break;
        case 0x80:
        case 0x83:
        case 0xC0:
        case 0xC1:
        case 0xC6:
          operand();
          ++at_;
          break;
        case 0x81:
        case 0xC7:
          operand();
          at_ += immediate;
          break;
        case 0xF6:
          if (operand() < 2) ++at_;
          break;
        case 0xF7:
          if (operand() < 2) at_ += immediate;
          break;
        case 0xE8:
          jump(4);
          break;
        default:
          fail(fmt::format("opcode {:02X}", op));
      }
    }
  }

  std::span<const std::uint8_t> code_;
  std::size_t at_ = 0, begin_ = 0;
  std::int64_t target_ = -1;
  std::set<std::size_t> seen_;
  std::string problem_;
};

}  // namespace

std::string beyond_avx2(std::span<const std::uint8_t> code, std::size_t& instructions) {
  return Reader(code).run(instructions);
}

}  // namespace driftc::test
