// What certify found, as text and as JSON, schema driftc.certify/1 (docs/schema/certify-1.json).
#pragma once

#include "frontend/report/json_text.h"
#include "frontend/report/table.h"
#include "runtime/study/certify.h"

namespace driftc::frontend {

std::string certify_text(const runtime::study::CertifyReport& report, int exit_code,
                         const TextStyle& style);
Json certify_json(const runtime::study::CertifyReport& report, int exit_code);

}  // namespace driftc::frontend
