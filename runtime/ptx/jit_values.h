// The values of one unit: its registers in static single assignment, with what is known about
// addresses. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/jit_plan.h"
#include "runtime/ptx/jit_shapes.h"
#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

struct Value {
  enum class From : std::uint8_t {
    kFile,     // the register file, one element per lane
    kUniform,  // the register file, one element for all lanes
    kInst      // an instruction of the unit
  };
  RegKind kind = RegKind::kNone;
  From from = From::kFile;
  Reg reg = kNoReg;        // kFile, kUniform
  std::int32_t inst = -1;  // kInst

  // 32 bits: root + the uniform registers + constant, modulo 2^32. A value that is no such sum is
  // its own root.
  ValueId root = kNoValue;
  std::vector<Reg> addends;
  std::uint32_t constant = 0;

  // The lanes' values differ as those of `pattern` do; itself when nothing better is known.
  Shape shape = Shape::unknown();
  ValueId pattern = kNoValue;
  // The shape where the unit's assumptions hold, and how the lanes looked when it was translated.
  Shape assumed = Shape::unknown(), guess = Shape::unknown();

  // 64 bits: (extended index << shift) + the uniform registers + offset, modulo 2^64.
  bool is_address = false;
  ValueId index = kNoValue;  // a 32-bit value, or none
  bool sign = false;         // sign extension of the index
  std::uint8_t shift = 0;
  std::vector<Reg> bases;
  std::int64_t offset = 0;

  bool needed = false;             // has to exist in a machine register
  bool canonical = false;          // somebody sees the bits of its NaNs
  bool inverted = false;           // a predicate that is wanted the other way round only
  std::vector<std::int32_t> uses;  // positions, ascending; the end of the unit is body.size()
};

// A comparison and a choice that are one instruction here: src[0] > src[1] ? src[0] : src[1], the
// same with <, and the first one where src[0] is NaN.
enum class Choice : std::uint8_t { kNone, kLarger, kSmaller, kLargerOrNan };

struct LocalInst {
  const Inst* inst = nullptr;
  Choice choice = Choice::kNone;  // of kSelp32
  ValueId src[5] = {kNoValue, kNoValue, kNoValue, kNoValue, kNoValue};
  ValueId old[4] = {kNoValue, kNoValue, kNoValue,
                    kNoValue};  // kept in lanes that the guard turns off
  ValueId dst[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
  ValueId guard = kNoValue;
  bool emit = false;
};

// A uniform register and what it held when the unit was translated.
struct Assumption {
  Reg reg;
  std::uint32_t bits;
};

struct Output {
  Reg reg;
  ValueId value;
};

struct UnitValues {
  std::vector<Value> values;
  std::vector<LocalInst> insts;  // one per entry of the unit's body
  std::vector<Output> outputs;
  std::vector<Assumption> assumptions;
  bool uniform = false;  // all lanes are the same, and all run
};

UnitValues value_unit(const Code& code, const UnitPlan& unit, const std::vector<Shape>& shapes,
                      const Seen& seen);

}  // namespace driftc::runtime::ptx
