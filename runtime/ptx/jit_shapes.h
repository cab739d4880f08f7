// How the lanes of a group relate in a register, as far as that can be proved for a block size:
// addresses known to be in line, or all the same, need no look at run time. Private to runtime/ptx.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/ptx/frame.h"
#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

// value(lane) = value(lane 0) + step * lane within every group of 16 lanes, modulo 2^32 (2^64 for
// wide registers; of predicates, step 0 says that all lanes agree).
struct Shape {
  enum class Kind : std::uint8_t {
    kNothing,  // never written as far as seen
    kLinear,
    kUnknown
  };
  Kind kind = Kind::kNothing;
  std::int32_t step = 0;

  static Shape splat() { return {Kind::kLinear, 0}; }
  static Shape unknown() { return {Kind::kUnknown, 0}; }
  bool is_linear() const { return kind == Kind::kLinear; }
  bool is_splat() const { return kind == Kind::kLinear && step == 0; }
  bool operator==(const Shape&) const = default;
};

// What registers hold while a unit is translated: good for guesses that its code checks.
struct Seen {
  const std::byte* regs = nullptr;
  const Place* places = nullptr;  // by register
  std::uint32_t group = 0, lanes = 0xFFFF;
  // Of uniform registers only those that hold the same all through a launch, and which of them were
  // asked for: what follows from them can be checked once for many groups.
  bool steady_only = false;
  std::vector<Reg>* asked = nullptr;

  std::uint32_t uniform(Reg r) const;
  // How the lanes of a register of 32 bits look.
  Shape shape(Reg r) const;
};

// What one unguarded plain instruction does to shapes; with `seen`, for the values uniform
// registers hold now.
Shape shape_after(const Code& code, const Inst& inst, const Shape* sources,
                  const Seen* seen = nullptr);

// By register. Holds for the lanes that run at any point of a program that reads no register before
// it wrote it.
std::vector<Shape> find_shapes(const Code& code, const std::array<std::uint32_t, 3>& block);

}  // namespace driftc::runtime::ptx
