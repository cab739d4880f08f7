// Nothing is blamed without an effect (product.md, idea 5): the compiled arm as it is set, once
// more (an A/A run), and then with one flag turned over at a time. What changed is told by hashes
// of the compiled graph, the CUDA text, the PTX and the bits. Deterministic, as pair_run.
#pragma once

#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

// Flags: every pass of the table (fallback and precision only where they are on, since they need
// to be told more), and every option that is not at its default. The second of the two equal runs
// has another order of blocks, warps and atomics, as a GPU would: where that shows, no effect can
// be told from chance and there are no rows. A flip whose graph is the very same is not run.
// Memory: the outputs of two arms. Errors as pair_run; a flip that is an input error is a row.
Result<KnobAudit> audit_knobs(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                              const PairSettings& settings, const Services& services);

}  // namespace driftc::runtime::study
