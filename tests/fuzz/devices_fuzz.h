// What a fuzzed list of devices (--device) must satisfy: an error, or profiles that are complete,
// each once, which their own names find again, and whose JSON for cuDNN reads as JSON.
#pragma once

#include <set>
#include <string_view>

#include "frontend/report/json_text.h"
#include "ir/support/assert.h"
#include "runtime/cuda/cudnn_heuristics.h"
#include "runtime/devices/profile.h"

namespace driftc::fuzz {

inline void device_names(std::string_view text) {
  if (text.size() > 4096) return;
  const auto list = runtime::device_list(text);
  if (!list.ok()) {
    const Diagnostic& error = list.error();
    DRIFTC_ASSERT(error.kind == ErrorKind::kInput && !error.message.empty(),
                  "not the user's error");
    DRIFTC_ASSERT(error.render().size() < 20'000, "a useless message");
    return;
  }
  DRIFTC_ASSERT(!list->empty(), "an empty list");
  std::set<std::string> names;
  for (const runtime::DeviceProfile& device : *list) {
    DRIFTC_ASSERT(names.insert(device.name).second, "a profile twice");
    const auto again = runtime::device_profile(device.name);
    DRIFTC_ASSERT(again.ok() && again->title == device.title, "a name finds something else");
    DRIFTC_ASSERT(device.sm_count > 0 && device.shared_block_kib > 0 && !device.ptx_target.empty(),
                  "an incomplete profile");
    const auto json =
        frontend::Json::parse(runtime::cuda::device_json(device), nullptr, /*exceptions=*/false);
    DRIFTC_ASSERT(json.is_object() && json["deviceName"] == device.title, "no JSON for cuDNN");
  }
}

}  // namespace driftc::fuzz
