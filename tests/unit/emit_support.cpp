#include "tests/unit/emit_support.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "codegen/cache.h"
#include "codegen/ptx_facts.h"
#include "ir/support/round.h"
#include "runtime/eager/region.h"
#include "runtime/kernel_runner.h"
#include "tests/unit/emit_reference.h"

namespace driftc::test {
namespace {

struct Compiler {
  codegen::KernelCache cache;
  bool available;
  std::set<std::string> keys;
};

Compiler& compiler() {
  static Compiler instance = [] {
    const Settings settings = Settings::from_env();
    auto nvrtc = codegen::Nvrtc::load(settings);
    codegen::CacheOptions options;
    options.folder = settings.cache_dir;
    std::optional<codegen::Nvrtc> found;
    if (nvrtc) found = std::move(nvrtc.value());
    const bool there = found.has_value();
    return Compiler{codegen::KernelCache(std::move(options), std::move(found)), there, {}};
  }();
  return instance;
}

runtime::ThreadPool& pool() {
  static runtime::ThreadPool instance(2);
  return instance;
}

}  // namespace

KernelCase::KernelCase(ir::Algorithm algorithm, std::string_view order, ir::Schedule schedule) {
  kernel.algorithm = algorithm;
  kernel.schedule = schedule;
  kernel.body = ir::Graph("body");
  if (!order.empty()) kernel.contract.order = ir::parse_order(order).value();
}

ir::ValueId KernelCase::input(ir::Shape shape, ir::Layout layout) {
  layouts.push_back(layout);
  return kernel.body.add_input(fmt::format("in{}", layouts.size() - 1),
                               {ir::DType::kF32, std::move(shape), layout});
}

ir::ValueId KernelCase::constant(float value) {
  return kernel.body.add_constant(kernel.body.fresh_name("scalar"),
                                  ir::Literal::splat({ir::DType::kF32, ir::Shape{}, {}}, value));
}

ir::ValueId KernelCase::add(ir::Op op, std::vector<ir::ValueId> operands,
                            const ir::AttributeList& attributes) {
  ir::Builder builder(kernel.body);
  last_ = builder.add(op, std::move(operands), attributes, "v").value();
  return last_;
}

KernelCase& KernelCase::finish(ir::Layout layout) {
  result_layout = layout;
  kernel.body.set_outputs({last_});
  kernel.body.set_layout(last_, layout);
  return *this;
}

std::vector<ir::Tensor> KernelCase::operands(std::uint64_t seed, Distribution distribution,
                                             bool specials) const {
  std::vector<ir::Tensor> out;
  const CounterRng rng(seed, "specials");
  const float values[] = {-0.0f,
                          0x1p-149f,
                          -0x1p-130f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          canonical_nan()};
  for (ir::ValueId v : kernel.body.inputs()) {
    ir::Tensor t(ir::DType::kF32, kernel.body.value(v).type.shape);
    const auto data = t.data_mut<float>();
    fill(distribution, seed, kernel.body.value(v).name, data);
    if (specials)
      for (std::size_t i = 0; i < data.size(); ++i) {
        const std::uint64_t bits = rng.bits(i * 31 + v.index);
        if (bits % 64 == 0) data[i] = values[bits / 64 % 6];
      }
    out.push_back(std::move(t));
  }
  return out;
}

Result<codegen::LoweredKernel> KernelCase::lower() const {
  ir::Graph graph("test");
  ir::Node node;
  node.op = ir::Op::kKernel;
  for (ir::ValueId v : kernel.body.inputs())
    node.operands.push_back(graph.add_input(kernel.body.value(v).name, kernel.body.value(v).type));
  const ir::Value& output = kernel.body.value(kernel.body.outputs()[0]);
  node.kernel = std::make_shared<const ir::Kernel>(kernel);
  const ir::NodeId id = graph.add_node(std::move(node), output.name, output.type);
  return codegen::lower(graph, id, options);
}

namespace {

using Oracle = std::function<ir::Tensor(const std::vector<ir::Tensor>&)>;

std::optional<std::string> run_and_compare(const KernelCase& test, std::uint64_t seed,
                                           Distribution distribution, bool specials,
                                           const runtime::RunOptions& how,
                                           const std::string& target, const Oracle& oracle) {
  auto lowered = test.lower();
  if (!lowered) return "lower: " + lowered.error().render();
  for (const auto& request : runtime::compile_requests(*lowered, target))
    compiler().keys.insert(codegen::request_key(request));
  auto compiled = runtime::compile(*lowered, compiler().cache, target);
  if (!compiled) {
    if (compiled.error().kind == ErrorKind::kUnavailable) return std::nullopt;
    return "compile: " + compiled.error().render();
  }
  for (const auto& ptx : compiled->ptx)
    if (!ptx.log.empty()) return "NVRTC says: " + ptx.log;

  const std::vector<ir::Tensor> operands = test.operands(seed, distribution, specials);
  std::vector<runtime::DeviceTensor> device;
  for (std::size_t i = 0; i < operands.size(); ++i)
    device.push_back(runtime::upload(operands[i], test.layouts[i]));
  const ir::TensorType type = test.kernel.body.value(test.kernel.body.outputs()[0]).type;
  // What the kernel does not write stays recognisable.
  ir::Tensor poison(type.dtype, type.shape);
  for (float& v : poison.data_mut<float>()) v = 0x1.badbadp+99f;
  runtime::DeviceTensor result = runtime::upload(poison, test.result_layout);
  auto ran = runtime::run(*compiled, device, {}, result, pool(), how);
  if (!ran) return "run: " + ran.error().render();

  const ir::Tensor got = runtime::download(result);
  const ir::Tensor want = oracle(operands);
  if (ir::same_bits(got, want)) return "";
  const auto a = got.data<float>(), b = want.data<float>();
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = a.size(); i-- > 0;)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
        !(std::isnan(a[i]) && std::isnan(b[i]))) {
      ++wrong;
      first = i;
    }
  return fmt::format("{} of {} differ in {}; first at {}: kernel {:a}, reference {:a}", wrong,
                     a.size(), lowered->launches[0].entry, first, a[first], b[first]);
}

}  // namespace

std::optional<std::string> check_case(const KernelCase& test, std::uint64_t seed,
                                      Distribution distribution, bool specials,
                                      std::uint64_t schedule_seed) {
  const runtime::RunOptions checked{.schedule_seed = schedule_seed, .check = true};
  return run_and_compare(test, seed, distribution, specials, checked, "compute_90",
                         [&](const std::vector<ir::Tensor>& operands) {
                           return reference(test.kernel, operands, schedule_seed);
                         });
}

std::optional<std::string> check_replay(const KernelCase& test, std::uint64_t seed,
                                        Distribution distribution, bool specials,
                                        const std::string& target, std::uint64_t schedule_seed,
                                        bool checked) {
  ir::Node node;
  node.op = ir::Op::kKernel;
  node.kernel = std::make_shared<const ir::Kernel>(test.kernel);
  const runtime::RunOptions how{.schedule_seed = schedule_seed, .check = checked};
  return run_and_compare(test, seed, distribution, specials, how, target,
                         [&](const std::vector<ir::Tensor>& operands) {
                           return runtime::evaluate_kernel(node, operands, {pool(), schedule_seed});
                         });
}

std::vector<std::string> distinct_targets(const KernelCase& test,
                                          std::span<const char* const> targets) {
  static std::map<std::string, std::vector<std::string>> known;  // by source
  auto lowered = test.lower();
  if (!lowered) return {};
  std::string source;
  for (const codegen::Launch& launch : lowered->launches) source += launch.source;
  if (const auto found = known.find(source); found != known.end()) return found->second;
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const char* target : targets) {
    const auto requests = runtime::compile_requests(*lowered, target);
    for (const auto& request : requests) compiler().keys.insert(codegen::request_key(request));
    auto ptx = compiler().cache.compile_all(requests, 2);
    if (!ptx) continue;
    std::string text;
    for (const auto& one : *ptx) {
      // What follows the line that names the target.
      const std::size_t at = one.ptx.find(".target ");
      text += one.ptx.substr(at == std::string::npos ? 0 : one.ptx.find('\n', at));
    }
    if (seen.insert(text).second) out.emplace_back(target);
  }
  return known[source] = out;
}

bool kernels_available(const char* test_case) {
  if (compiler().available) return true;
  fmt::print("[skip] {}: no NVRTC\n", test_case);
  return false;
}

std::pair<std::size_t, std::size_t> kernel_counts() {
  return {compiler().keys.size(), compiler().cache.counters().compiled};
}

}  // namespace driftc::test
