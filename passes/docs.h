// docs/passes.md, generated from the table. A test compares the committed file with this text.
#pragma once

#include <string>

namespace driftc::passes {

std::string render_pass_docs();

}  // namespace driftc::passes
