// A kernel as code generation leaves it: CUDA C++ text and everything needed to launch it, with no
// pointers in it. The runner (runtime/kernel_runner.h) and, later, the CUDA driver executor
// interpret it alike.
//
// Shapes, strides, pads and scalars are arguments, so that one source (hence one PTX) serves every
// kernel of the same structure: algorithm, contract, schedule, kernel size, epilogue, layouts and
// element type.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/preparation.h"
#include "ir/kernel.h"

namespace driftc::codegen {

// One parameter of an entry, in order of declaration.
struct Argument {
  enum class Kind : std::uint8_t {
    kOperand,    // address of operand `index` of the kernel node, in its storage layout
    kPrepared,   // address of what preparation `index` made
    kResult,     // address of the result
    kWorkspace,  // address of workspace `index`
    kInt32,      // `integer`
    kInt64,      // `integer`
    kFloat32,    // `real`
  };
  Kind kind = Kind::kInt32;
  std::string name;  // of the parameter in the source
  int index = 0;
  std::int64_t integer = 0;
  float real = 0;
};

struct Launch {
  std::string entry;   // readable and stable: conv_implicit_gemm_3x3_crs_64x64
  std::string source;  // CUDA C++ with exactly this entry; compiled with --fmad=false
  std::vector<Argument> arguments;
  std::array<std::uint32_t, 3> grid{1, 1, 1};  // an extent of 0: nothing to launch
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
};

// Scratch memory that lives for one run of the kernel.
struct Workspace {
  std::string name;
  std::int64_t bytes = 0;
  bool zeroed = false;  // filled with zero bytes before the first launch
};

struct LoweredKernel {
  ir::Algorithm algorithm = ir::Algorithm::kElementwise;
  ir::NumericContract contract;
  ir::Schedule schedule;
  std::vector<Launch> launches;  // run in order
  std::vector<Workspace> workspaces;
  std::vector<Preparation> preparations;
};

}  // namespace driftc::codegen
