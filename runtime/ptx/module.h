// A PTX file as parsed: declarations and instructions by name, nothing interpreted yet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace driftc::runtime::ptx {

enum class Space : std::uint8_t { kNone, kReg, kParam, kShared, kLocal, kGlobal, kConst };

// Scalar types as written: width and kind.
enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF64
};
unsigned bytes_of(Type type);         // 0 for kNone and kPred
const char* name_of(Type type);       // "f32"
Type type_of(std::string_view name);  // kNone when it is no type

// A variable: parameter, shared or local array, module-level constant or global array, or register.
struct Variable {
  std::string name;
  Space space = Space::kNone;
  Type type = Type::kNone;
  std::uint32_t alignment = 0;
  std::uint64_t bytes = 0;  // 0 with is_extern: dynamic shared memory
  bool is_extern = false;
  std::vector<std::uint8_t> initializer;  // shorter than `bytes`: the rest is zero
  // Elements of the initializer that are addresses of other variables are refused by the parser.
};

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,
    kInteger,
    kFloat32,
    kFloat64,
    kSymbol,
    kAddress,
    kVector,
    kLabel,
    kSink
  };
  Kind kind = Kind::kRegister;
  bool negated = false;           // "!%p1"
  std::string name;               // register, symbol, label, base of an address
  std::int64_t integer = 0;       // value, or the offset of an address
  std::uint64_t bits = 0;         // of a float literal
  std::vector<Operand> elements;  // of a vector
  std::string second;             // the predicate of "%r1|%p1"; "" when absent
  int column = 0;
};

// Where an instruction came from in the CUDA source (".loc" directives; needs -lineinfo).
struct SourceLine {
  std::uint32_t file = 0;  // index of ".file"
  std::uint32_t line = 0;  // 0: not known
};

struct Instruction {
  std::string opcode;                  // "fma"
  std::vector<std::string> modifiers;  // "rn", "f32"
  std::vector<Operand> operands;
  std::string guard;  // "%p1", "" when unconditional
  bool guard_negated = false;
  int line = 0;
  int column = 0;
  SourceLine source;
};

struct Label {
  std::string name;
  std::uint32_t instruction = 0;  // index of the instruction that follows
};

struct Entry {
  std::string name;
  bool is_kernel = true;  // false: a .func, which nothing may call
  std::vector<Variable> parameters;
  std::vector<Variable> variables;  // .shared and .local declared inside
  struct RegisterRange {            // .reg .b32 %r<17>; or a single register (count 0)
    std::string prefix;
    Type type = Type::kNone;
    std::uint32_t count = 0;
  };
  std::vector<RegisterRange> registers;
  std::vector<Instruction> body;
  std::vector<Label> labels;
  std::uint32_t max_threads = 0;  // .maxntid product, 0 = not given
  int line = 0;
};

struct Module {
  std::string file;
  std::string version;              // "9.0"
  std::string target;               // "sm_90"
  std::vector<Variable> variables;  // .global, .const, .shared at module level
  std::vector<Entry> entries;
  std::vector<std::string> source_files;  // by ".file" index; empty strings where unused
};

}  // namespace driftc::runtime::ptx
