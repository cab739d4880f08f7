#include "frontend/cli/options.h"

#include <array>

namespace driftc::frontend {
namespace {

constexpr std::array kInputRows = {
    OptionRow{"--input", "NAME=WHAT",
              "a graph input: FILE.npy, or generated: random:SEED, uniform:SEED, relu:SEED, "
              "integers:SEED, ones. A model with one input needs no NAME=. Default: random:0",
              true},
    OptionRow{"--batch", "N", "batch size of generated inputs, where the model leaves it open"},
    OptionRow{"--reseed-weights", "SEED",
              "give weights that are filled with one constant seeded values (conv, gemm and matmul "
              "weights, biases, batch normalisation)"}};

constexpr std::array kCompileRows = {
    OptionRow{"--mode", "MODE",
              "eager, strict, default, reduce-overhead or max-autotune; `driftc passes` shows what "
              "each runs"},
    OptionRow{"--tuning", "FILE",
              "with --mode max-autotune: its choices, read where the file exists; kernels that it "
              "lacks are tuned and added"},
    OptionRow{"--passes", "LIST",
              "changes to the mode's passes: +NAME,-NAME,...; starts with none or all instead: "
              "none,+NAME"},
    OptionRow{"--set", "PASS.OPTION=VALUE", "an option of a pass; `driftc passes` lists them",
              true},
    OptionRow{"--inductor", "KEY=VALUE",
              "a setting of PyTorch Inductor as what it is here, or why it changes no convolution; "
              "`driftc passes` lists them",
              true},
    OptionRow{"--precision", "P",
              "of both arms: f32, tf32[:rna|:trunc], f16 or bf16 (autocast), f64, pytorch "
              "(conv=tf32,matmul=f32), or conv=P,matmul=P,NODE=P; NODE=P is the compiled arm's"},
    OptionRow{"--fallback", "NODE,...", "nodes that stay in the interpreter (a graph break)"},
    OptionRow{"--executor", "WHERE",
              "where kernels run: ptx (the PTX executor on this CPU), cuda (a GPU), or auto, the "
              "default: the GPU where there is one that takes the profile's kernels"},
    OptionRow{"--device", "NAME",
              "device profile, `driftc devices` lists them; default h200, with --executor cuda the "
              "GPU's own"}};

constexpr std::array kCheckRows = {OptionRow{
    "--check", "",
    "kernels run in checked mode: races, memory and registers nothing wrote, divergent barriers, "
    "mixed atomics are errors with their place"}};

constexpr std::array kScheduleRows = {
    OptionRow{"--schedules", "N",
              "run the compiled arm under N orders of blocks, warps and atomics (seeds 0 to N - 1) "
              "and say which values can change"},
    OptionRow{"--deterministic", "",
              "refuse kernels whose result can change from run to run (atomics)"}};

constexpr std::array kEagerRows = {
    OptionRow{
        "--eager", "WHAT",
        "interpreter (default); cudnn: convolutions by cuDNN on this machine's GPU; or "
        "cudnn:DEVICE: per convolution the precision and algorithm that cuDNN would choose on "
        "that GPU, modelled in the interpreter"},
    OptionRow{"--eager-precision", "P", "precision of the eager arm alone, as --precision"},
    OptionRow{"--eager-order", "ORDER",
              "summation order of the eager arm where it fits, for example rsc.fma; `declared`: "
              "replay what the kernels declare, which must be identical"}};

constexpr std::array kCompareRows = {
    OptionRow{"--reference", "f64|exact",
              "f64 (default): both arms against a run in f64; exact: also each value against the "
              "exact one on the arm's own inputs, with the bound on the difference"},
    OptionRow{"--sweep", "WHAT",
              "one row per setting: passes, pairs, orders=ORDER,ORDER,... or tiles"},
    OptionRow{"--audit", "",
              "turn each pass and each option that is set over, one at a time, and say what that "
              "changes: IR, source, PTX, bits; a flag that changes nothing is a placebo"},
    OptionRow{"--csv", "FILE", "with --sweep: the rows as CSV"},
    OptionRow{
        "--allow", "LIST",
        "verdicts that exit with 0; default identical,order,precision,algorithm; any allows all"},
    OptionRow{
        "--require-compiled", "HOW",
        "exit 1 unless compiled: conv (every convolution), all (every node), or a percentage of "
        "the multiply-adds"},
    OptionRow{"--fail-on-label-change", "", "exit 1 when a predicted class changes"}};

constexpr std::array kReportRows = {
    OptionRow{"--json", "FILE",
              "the report as JSON (docs/schema/compare-1.json); - is stdout, the table "
              "then goes to stderr"},
    OptionRow{"--save-dir", "DIR",
              "every compared value as eager/NAME.npy, compiled/NAME.npy and "
              "reference/NAME.npy"},
    OptionRow{"--timings", "",
              "wall times in the report (it is then no longer the same every time)"},
    OptionRow{"--print-after", "PASS",
              "the graph after a pass (a name, all, or changed) on stderr"}};

constexpr std::array kJsonRows = {OptionRow{"--json", "FILE", "the same as JSON; - is stdout"}};

constexpr std::array kThreadRows = {OptionRow{
    "--threads", "N", "worker threads; default one per processor; never changes a result"}};

}  // namespace

const OptionGroup kInputOptions{"input", kInputRows};
const OptionGroup kCompileOptions{"compiled arm", kCompileRows};
const OptionGroup kCheckOptions{"sanitizer", kCheckRows};
const OptionGroup kScheduleOptions{"nondeterminism", kScheduleRows};
const OptionGroup kEagerOptions{"eager arm", kEagerRows};
const OptionGroup kCompareOptions{"comparison and exit code", kCompareRows};
const OptionGroup kReportOptions{"output", kReportRows};
const OptionGroup kJsonOption{"output", kJsonRows};
const OptionGroup kThreadOptions{"work", kThreadRows};

}  // namespace driftc::frontend
