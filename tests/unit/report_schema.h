// A JSON Schema checker for what docs/schema uses: type, required, properties,
// additionalProperties, items, minItems, maxItems, minimum, enum, const, anyOf, and $ref into
// $defs.
#pragma once

#include <string>

#include "frontend/report/json_text.h"

namespace driftc::tests {

// One line per fault, "" when `value` follows `schema`. An unknown keyword is a fault too.
std::string schema_faults(const frontend::Json& schema, const frontend::Json& value);

}  // namespace driftc::tests
