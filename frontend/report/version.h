// The version that `driftc --version` and every JSON report carry; a test holds it equal to
// CMakeLists.txt.
#pragma once

#include <string_view>

namespace driftc::frontend {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace driftc::frontend
