// --eager cudnn: the eager arm's convolutions by cuDNN on a GPU, here a scripted cuDNN on a driver
// over the PTX executor (tests/fake_cudnn, tests/fake_cuda).
#include <doctest/doctest.h>

#include "frontend/report/json_text.h"
#include "tests/support/command_line.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using frontend::Json;
using tests::Outcome;

namespace {

// Two convolutions alike, one that is padded on one side, one depthwise.
const std::string kModel =
    "'" DRIFTC_SOURCE_DIR "/tests/filetests/cli/data/four_convolutions.gir' --executor ptx ";

// `how`: what the fake cuDNN does with its sums.
Outcome driftc_with(const std::string& how, const std::string& arguments,
                    const std::string& cudnn = "works") {
  return tests::run_command("export CUDA_VISIBLE_DEVICES=0 FAKE_CUDNN=" + how +
                                " DRIFTC_LIBRARY_PATH='" DRIFTC_FAKE_CUDA
                                "works:" DRIFTC_FAKE_CUDNN +
                                cudnn + "'\ndriftc " + arguments,
                            tests::TemporaryFolder());
}

Json compared(const std::string& how, const std::string& flags, int code = 0) {
  const Outcome outcome =
      driftc_with(how, "compare " + kModel + "--eager cudnn " + flags + " --json -");
  REQUIRE_MESSAGE(outcome.code == code, outcome.err);
  const Json json = Json::parse(outcome.out);
  const Json schema =
      Json::parse(tests::read_file(DRIFTC_SOURCE_DIR "/docs/schema/compare-1.json"));
  CHECK(tests::schema_faults(schema, json) == "");
  return json;
}

}  // namespace

TEST_CASE("cudnn arm: cuDNN's own bits, equal where its order is eager's") {
  const Json json = compared("", "--passes none");
  const Json& eager = json["arms"]["eager"];
  CHECK(eager["executor"] == "cudnn");
  CHECK(eager["device"] == "NVIDIA H200");
  REQUIRE(eager["convolutions"].size() == 4);
  CHECK(eager["convolutions"][0]["engine"] == 5);
  CHECK(eager["convolutions"][3]["engine"] == nullptr);  // depthwise: PyTorch's own kernel
  CHECK(json["verdict"] == "identical");
}

TEST_CASE("cudnn arm: another order is judged, not replayed") {
  const Json json = compared("reverse", "--passes none");
  CHECK(json["verdict"] == "order");
  CHECK((json["evidence"] == "bounded" || json["evidence"] == "statistical"));
  CHECK(json["causes"][0]["detail"] == "cuDNN's own order, which is not known");
  const Outcome text = driftc_with("reverse", "compare " + kModel + "--eager cudnn --passes none");
  CHECK(text.out.find("eager     cuDNN 9.99.0 on NVIDIA H200") != std::string::npos);
  CHECK(text.out.find("judged, not replayed") != std::string::npos);
  // The arm alone gives cuDNN's bits, too.
  const std::string alone =
      "run " + kModel + "--eager cudnn --arm eager --out $TMP/a && FAKE_CUDNN= driftc run " +
      kModel + "--eager cudnn --arm eager --out $TMP/b && cmp $TMP/a/d.npy $TMP/b/d.npy";
  const Outcome differ = driftc_with("reverse", alone), same = driftc_with("", alone);
  CHECK(differ.code == 1);
  CHECK(differ.out.find("differ") != std::string::npos);
  CHECK_MESSAGE(same.code == 0, same.err);
}

TEST_CASE("cudnn arm: a wrong result is unexplained, however the kernels replay") {
  const Json json = compared("wrong", "--passes none", 1);
  CHECK(json["verdict"] == "unexplained");
  const Outcome text = driftc_with("wrong", "compare " + kModel + "--eager cudnn --passes none");
  CHECK(text.out.find("is no correct result of its operands") != std::string::npos);
}

TEST_CASE("cudnn arm: what can be missing, fail or not go together") {
  const Outcome none = tests::run_command("export DRIFTC_LIBRARY_PATH=/nowhere\ndriftc compare " +
                                              kModel + "--eager cudnn --passes none",
                                          tests::TemporaryFolder());
  CHECK((none.code == 3 || none.code == 0));  // 0: this machine has a GPU
  if (none.code == 3) CHECK(none.err.find("--eager cudnn: ") != std::string::npos);
  const Outcome broken = driftc_with("", "compare " + kModel + "--eager cudnn", "fails");
  CHECK(broken.code == 3);
  CHECK(broken.err.find("CUDNN_STATUS_INTERNAL_ERROR") != std::string::npos);
  for (const char* flags : {"--mode strict", "--eager-order rsc.fma", "--reference exact"}) {
    CAPTURE(flags);
    CHECK(driftc_with("", "compare " + kModel + "--eager cudnn " + flags).code == 2);
  }
}
