#include "runtime/study/knob_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_set>

#include "ir/printer.h"
#include "ir/support/hash.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "runtime/study/tuning.h"

namespace driftc::runtime::study {
namespace {

// One run of a compiled arm.
struct ArmRun {
  ArmHashes hashes;
  std::vector<std::pair<std::string, std::uint64_t>>
      values;  // materialised source values: name, bits
  std::map<std::string, ir::Tensor> outputs;
};

// Equal for equal bits, all NaNs being one class.
std::uint64_t bits_hash(const ir::Tensor& tensor) {
  if (tensor.dtype() != ir::DType::kF32) return hash64(tensor.bytes());
  const std::span<const float> data = tensor.data<float>();
  if (std::none_of(data.begin(), data.end(), [](float x) { return std::isnan(x); }))
    return hash64(tensor.bytes());
  std::vector<float> same(data.begin(), data.end());
  for (float& x : same)
    if (std::isnan(x)) x = std::numeric_limits<float>::quiet_NaN();
  return hash64(std::as_bytes(std::span<const float>(same)));
}

class Audit {
 public:
  Audit(const ir::Graph& source, std::vector<NamedTensor> inputs, const PairSettings& settings,
        const Services& services)
      : source_(source), inputs_(std::move(inputs)), settings_(settings), services_(services) {
    // What flips make the tuner learn is for the audit alone, not for the user's file.
    if (settings_.selection.mode == passes::Mode::kMaxAutotune) {
      Tuning own;
      if (settings_.tuning) own = *settings_.tuning;
      own.device = settings_.device.name;
      own.added = {};
      own.finished = {};
      settings_.tuning = std::make_shared<Tuning>(std::move(own));
    }
    for (const ir::Node& node : source.nodes()) names_.insert(source.value(node.result).name);
  }

  Result<KnobAudit> run() {
    const std::vector<Flip> flips = all_flips();
    steps_ = flips.size() + 2;
    DRIFTC_TRY(as_set, run_arm("as set", settings_, nullptr));
    PairSettings other = settings_;
    ++other.schedule_seed;
    DRIFTC_TRY(again, run_arm("the same again", other, nullptr));
    KnobAudit audit;
    audit.hashes = as_set.hashes;
    audit.values = static_cast<std::int64_t>(as_set.values.size());
    for (std::size_t i = 0; i < as_set.values.size() && audit.first_change.empty(); ++i)
      if (as_set.values[i] != again.values[i]) audit.first_change = as_set.values[i].first;
    audit.repeatable = audit.first_change.empty() && as_set.hashes.ir == again.hashes.ir &&
                       as_set.hashes.source == again.hashes.source &&
                       as_set.hashes.ptx == again.hashes.ptx;
    if (!audit.repeatable) return audit;
    for (const Flip& flip : flips) {
      DRIFTC_TRY(row, turned_over(flip, as_set));
      audit.rows.push_back(std::move(row));
    }
    return audit;
  }

 private:
  struct Flip {
    std::string flag, from, to;
    PairSettings settings;
  };

  std::vector<Flip> all_flips() const {
    std::vector<Flip> flips;
    const passes::PassSelection& selection = settings_.selection;
    const std::span<const passes::PassInfo> table =
        settings_.pass_table.empty() ? passes::all_passes() : settings_.pass_table;
    for (const passes::PassInfo& pass : table) {
      const bool on = selection.has(pass.name);
      if (!on && !pass.on_in.all && !pass.on_in.strict) continue;  // it needs to be told more
      Flip flip{std::string(pass.name), on ? "on" : "off", on ? "off" : "on", settings_};
      std::vector<std::string>& enabled = flip.settings.selection.enabled;
      enabled.clear();
      for (const passes::PassInfo& other : table)
        if (selection.has(other.name) != (other.name == pass.name))
          enabled.emplace_back(other.name);
      flips.push_back(std::move(flip));
    }
    for (const auto& [key, value] : selection.options.values()) {
      const std::string standard = passes::Options().get(key);
      if (value == standard) continue;
      Flip flip{key, value, standard, settings_};
      flip.settings.selection.options.set(key, standard);
      flips.push_back(std::move(flip));
    }
    return flips;
  }

  // A run of the compiled arm. `unless`: not run where the compiled graph is that of this run.
  Result<ArmRun> run_arm(const std::string& what, const PairSettings& settings,
                         const ArmRun* unless) {
    const std::string label = fmt::format("audit {}/{} {}", ++step_, steps_, what);
    Services inner{services_.cache, services_.pool, {}};
    if (services_.progress) {
      services_.progress(label);
      inner.progress = [&](const std::string& step) { services_.progress(label + ": " + step); };
    }
    DRIFTC_TRY(compiled, compile(source_, settings, inner));
    ArmRun run;
    run.hashes.ir = hash64_hex(ir::print_outline(compiled.graph));
    if (unless != nullptr && unless->hashes.ir == run.hashes.ir) return *unless;
    DRIFTC_TRY(arm, CompiledArm::prepare(compiled.graph, settings, inner));
    FieldHasher text, ptx, bits;
    for (const KernelReport& kernel : arm->kernel_reports()) {
      text.add(kernel.source_hash);
      ptx.add(kernel.ptx_hash);
    }
    run.hashes.source = fmt::format("{:016x}", text.value64());
    run.hashes.ptx = fmt::format("{:016x}", ptx.value64());
    const ir::Graph& graph = compiled.graph;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      arm->set_input(graph.inputs()[i], inputs_[i].tensor);
    for (std::size_t i = 0; i < graph.node_count(); ++i) {
      const ir::NodeId id{static_cast<std::uint32_t>(i)};
      const ir::Node& node = graph.node(id);
      if (node.op == ir::Op::kConstant) continue;
      if (inner.progress) inner.progress(graph.name_of(id));
      DRIFTC_TRY(tensor, arm->run(id));
      const std::string& name = graph.value(node.result).name;
      if (names_.count(name) != 0) run.values.emplace_back(name, bits_hash(tensor));
      if (graph.is_output(node.result)) run.outputs.emplace(name, tensor);
    }
    for (const auto& [name, tensor] : run.outputs) bits.add(name).add(bits_hash(tensor));
    run.hashes.bits = fmt::format("{:016x}", bits.value64());
    return run;
  }

  Result<AuditRow> turned_over(const Flip& flip, const ArmRun& as_set) {
    AuditRow row;
    row.flag = flip.flag;
    row.from = flip.from;
    row.to = flip.to;
    Result<ArmRun> run = run_arm(fmt::format("{} {}", flip.flag, flip.to), flip.settings, &as_set);
    if (!run && run.error().kind == ErrorKind::kInput) {
      row.effect = AuditEffect::kRefused;
      row.refused = run.error().message;
      return row;
    }
    if (!run) {
      run.error().notes.push_back(fmt::format("in the audit, with {} {}", flip.flag, flip.to));
      return run.error();
    }
    row.hashes = run->hashes;
    const std::map<std::string, std::uint64_t> before(as_set.values.begin(), as_set.values.end());
    for (const auto& [name, bits] : run->values) {
      const auto found = before.find(name);
      if (found == before.end()) continue;
      ++row.values;
      if (found->second != bits) ++row.values_changed;
    }
    for (const auto& [name, tensor] : run->outputs) {
      const ir::Tensor& old = as_set.outputs.at(name);
      row.elements += tensor.elements();
      if (tensor.dtype() != ir::DType::kF32) {
        if (!ir::same_bits(old, tensor)) ++row.mismatched;
        continue;
      }
      const compare::Metrics m = compare::measure(old, tensor, nullptr, 0);
      row.mismatched += m.mismatched;
      row.max_ulp = std::max(row.max_ulp, m.max_ulp);
      row.max_abs = std::max(row.max_abs, m.max_abs);
      row.rel_l2 = std::max(row.rel_l2, m.rel_l2);
    }
    const ArmHashes &a = as_set.hashes, &b = row.hashes;
    row.effect = row.values_changed > 0 || row.mismatched > 0             ? AuditEffect::kBits
                 : a.ir != b.ir || a.source != b.source || a.ptx != b.ptx ? AuditEffect::kText
                                                                          : AuditEffect::kPlacebo;
    return row;
  }

  const ir::Graph& source_;
  const std::vector<NamedTensor> inputs_;
  PairSettings settings_;
  const Services& services_;
  std::unordered_set<std::string> names_;  // of source values
  std::size_t step_ = 0, steps_ = 0;
};

}  // namespace

std::string_view name_of(AuditEffect effect) {
  static constexpr std::array<std::string_view, 4> kNames = {"placebo", "text", "bits", "refused"};
  return kNames[static_cast<std::size_t>(effect)];
}

Result<KnobAudit> audit_knobs(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                              const PairSettings& settings, const Services& services) {
  DRIFTC_TRY(bound, bind_inputs(source, inputs));
  return Audit(source, std::move(bound), settings, services).run();
}

}  // namespace driftc::runtime::study
