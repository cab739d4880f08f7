// What becomes machine code: every basic block is cut into steps, each of which is one instruction
// for the interpreter or one unit for the translator. Private to runtime/ptx.
//
// A unit is a run of varying instructions without a barrier between them. Its machine code runs all
// of them for one group of 16 lanes, or half of it, then for the next, so that values stay in
// machine registers. That gives the bits of lockstep execution for every program without data
// races: lanes of different groups may only meet in memory at barriers.
//
// Uniform instructions go before or behind the unit, wherever the unit cannot notice, as units of
// their own: one group whose lanes are all the same. An instruction that the translator does not
// know is a step of its own, so a new operation needs nothing here to be right.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

struct UnitPlan {
  bool is_region = false;  // one kRegion instruction: body[0]
  bool uniform = false;    // uniform instructions, run once for the block
  std::uint32_t block = 0;
  std::vector<std::uint32_t> body;  // indices into the block's code
  std::vector<Reg> outputs;         // registers written here that someone reads later
};

struct PlanStep {
  std::int32_t unit = -1;         // index into units, or -1: interpret
  std::uint32_t instruction = 0;  // of the block
};

struct ProgramPlan {
  std::vector<std::vector<PlanStep>> blocks;
  std::vector<UnitPlan> units;
};

// `supported` says whether the translator knows an instruction (regions apart).
ProgramPlan plan_units(const Code& code, bool (*supported)(const Code& code, const Inst& inst));

}  // namespace driftc::runtime::ptx
