// A program bound to a block size: registers have byte offsets, operations have functions. Private
// to runtime/ptx.
#pragma once

#include <memory>
#include <vector>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

struct BoundBlock {
  std::vector<BoundInst> code;
  Place condition;
};

struct BoundProgram {
  const ProgramCode* program = nullptr;
  std::uint32_t lanes = 0, groups = 0;
  std::size_t file_bytes = 0;  // of the register file
  std::uint32_t scratch_offset =
      0;                            // one vector register of the widest kind, for masked operations
  std::size_t region_operands = 0;  // scratch of the regions
  std::size_t region_pointers = 0;
  std::vector<BoundBlock> blocks;
  std::vector<std::unique_ptr<BoundRegion>> regions;
  struct Preset {  // a constant or special register
    Reg reg;
    Place place;
  };
  std::vector<Preset> presets;
  std::vector<Place> places;  // by register
};

BoundProgram bind(const ProgramCode& program, std::uint32_t lanes);

}  // namespace driftc::runtime::ptx
