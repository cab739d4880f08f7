#include <doctest/doctest.h>

#include "ir/support/diagnostic.h"
#include "ir/support/round.h"

using namespace driftc;

TEST_CASE("fma_rn rounds once") {
  // An unfused pair and a fused operation through double both give 1 (architecture.md, PTX
  // executor).
  volatile float a = 0x1.b11b1p-20f, b = 0x1.2ea2p-5f, c = 1.0f;
  CHECK(fma_rn(float{a}, float{b}, float{c}) == 0x1.000002p+0f);
  CHECK(add_rn(mul_rn(float{a}, float{b}), float{c}) == 1.0f);
  // The compiler must not contract this, whatever the target.
  CHECK(a * b + c == 1.0f);
}

TEST_CASE("a diagnostic renders place, caret and hint") {
  Diagnostic d = input_error("unknown op 'convv2d'", name_hint("convv2d", {"conv2d", "add"}));
  d.place = {"net.gir", 3, 8};
  d.source_line = "  %c = convv2d %x";
  d.caret_length = 7;
  CHECK(d.render() ==
        "net.gir:3:8: error: unknown op 'convv2d'\n"
        "    3 |   %c = convv2d %x\n"
        "      |        ^~~~~~~\n"
        "  hint: did you mean 'conv2d'?\n");
}
