// docs/ir.md, generated from the operator table; a test holds the committed file to it.
#pragma once

#include <string>

namespace driftc::ir {

std::string render_ir_docs();

}  // namespace driftc::ir
