// An oracle for generated kernels: the body of a kernel evaluated by scalar loops that share
// nothing with codegen or the interpreter but ir::denote (the order) and the named roundings.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/kernel.h"

namespace driftc::test {

// Operands in logical row-major order, as the body's inputs; the value of the body's output.
ir::Tensor reference(const ir::Kernel& kernel, const std::vector<ir::Tensor>& operands,
                     std::uint64_t atomic_seed = 0);

}  // namespace driftc::test
