#include "runtime/ptx/module.h"

#include <array>

namespace driftc::runtime::ptx {
namespace {

struct TypeInfo {
  const char* name;
  unsigned bytes;
};
// In the order of enum Type.
constexpr std::array<TypeInfo, 22> kTypes = {
    {{"none", 0},   {"pred", 0}, {"b8", 1},  {"b16", 2}, {"b32", 4},   {"b64", 8},
     {"b128", 16},  {"u8", 1},   {"u16", 2}, {"u32", 4}, {"u64", 8},   {"s8", 1},
     {"s16", 2},    {"s32", 4},  {"s64", 8}, {"f16", 2}, {"f16x2", 4}, {"bf16", 2},
     {"bf16x2", 4}, {"tf32", 4}, {"f32", 4}, {"f64", 8}}};
static_assert(static_cast<std::size_t>(Type::kF64) + 1 == kTypes.size());

}  // namespace

unsigned bytes_of(Type type) { return kTypes[static_cast<std::size_t>(type)].bytes; }
const char* name_of(Type type) { return kTypes[static_cast<std::size_t>(type)].name; }
Type type_of(std::string_view name) {
  for (std::size_t i = 1; i < kTypes.size(); ++i)
    if (name == kTypes[i].name) return static_cast<Type>(i);
  return Type::kNone;
}

}  // namespace driftc::runtime::ptx
