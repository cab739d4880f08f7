#include "codegen/pointwise.h"

#include <fmt/format.h>

#include <numeric>
#include <set>

#include "codegen/function_code.h"
#include "codegen/round_code.h"

namespace driftc::codegen {

using ir::Op;

std::vector<std::int64_t> access_strides(const Access& access, const ir::TensorType& operand,
                                         const ir::Shape& result) {
  const auto own = ir::storage_strides(operand.shape, operand.layout);
  std::vector<std::int64_t> out(result.rank(), 0);
  const bool whole = operand.shape == result;
  for (std::size_t i = 0; i < access.axes.size(); ++i)
    if (whole || operand.shape[i] != 1) out[static_cast<std::size_t>(access.axes[i])] += own[i];
  return out;
}

std::size_t Pointwise::add_access(Access access) {
  for (std::size_t i = 0; i < accesses_.size(); ++i)
    if (accesses_[i] == access) return i;
  accesses_.push_back(std::move(access));
  return accesses_.size() - 1;
}

class Pointwise::Planner {
 public:
  Planner(Pointwise& out, const ir::Graph& body, std::optional<ir::ValueId> root)
      : out_(out), body_(body), root_(root), uses_(body.use_counts()) {}

  Result<void> run() {
    if (body_.outputs().size() != 1) return internal_error("a kernel body has exactly one output");
    const ir::ValueId output = body_.outputs()[0];
    shape_ = body_.value(output).type.shape;
    std::vector<int> identity(shape_.rank());
    std::iota(identity.begin(), identity.end(), 0);
    DRIFTC_TRY(term, visit(output, identity));
    if (term.kind == Term::Kind::kRoot) return {};
    if (term.kind != Term::Kind::kStep) {  // a kernel that copies its input or a scalar
      out_.steps_.push_back({Op::kIdentity, {term}, {}, std::nullopt, false, false, false});
      out_.label_ = "copy";
    }
    return {};
  }

 private:
  Result<Term> visit(ir::ValueId value, const std::vector<int>& axes) {
    const Use use{value.index, axes};
    if (auto found = done_.find(use); found != done_.end()) return found->second;
    DRIFTC_TRY(term, make(value, axes));
    done_.emplace(use, term);
    return term;
  }

  Result<Term> make(ir::ValueId value, const std::vector<int>& axes) {
    const ir::TensorType& type = body_.value(value).type;
    if (root_ && value == *root_) {
      if (type.shape != shape_)
        return internal_error("the epilogue broadcasts the value it is fused to");
      return Term{Term::Kind::kRoot, 0};
    }
    if (type.dtype != ir::DType::kF32)
      return internal_error(fmt::format("no pointwise code for type {}", ir::name_of(type.dtype)));
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (type.shape[i] != 1 && type.shape[i] != shape_[static_cast<std::size_t>(axes[i])])
        return internal_error("a value of the body does not broadcast to its result");
    const ir::Node* node = body_.producer(value);
    if (node == nullptr) {
      int operand = 0;
      while (!(body_.inputs()[static_cast<std::size_t>(operand)] == value)) ++operand;
      Access access{operand, axes};
      return Term{Term::Kind::kAccess, out_.add_access(std::move(access))};
    }
    if (node->op == Op::kConstant) {
      if (type.shape.elements() != 1)
        return internal_error("constants inside a kernel body are scalars; others are operands");
      return scalar(node->literal->tensor().data<float>()[0]);
    }
    return step(*node, *body_.value(value).producer, axes);
  }

  Result<Term> step(const ir::Node& node, ir::NodeId id, const std::vector<int>& axes) {
    Step s;
    s.op = node.op;
    switch (node.op) {
      case Op::kIdentity:
        return visit(node.operands[0], axes);
      case Op::kAdd:
      case Op::kSub:
        if (out_.contract_) {
          const auto site = ir::contraction_site(body_, id, uses_, [](ir::NodeId) { return true; });
          if (site) return fused(node, *site, axes);
        }
        [[fallthrough]];
      case Op::kMul:
      case Op::kDiv:
      case Op::kRelu:
      case Op::kClip:
        for (ir::ValueId v : node.operands) {
          DRIFTC_TRY(term, visit(v, aligned(v, axes)));
          s.terms.push_back(term);
        }
        if (node.op == Op::kClip) {
          s.scalars.push_back(scalar(static_cast<float>(node.number("min"))).index);
          s.scalars.push_back(scalar(static_cast<float>(node.number("max"))).index);
        }
        break;
      case Op::kBatchNorm: {
        DRIFTC_TRY(x, visit(node.operands[0], axes));
        s.terms.push_back(x);
        for (std::size_t i = 1; i < 5; ++i) {
          DRIFTC_TRY(term, visit(node.operands[i], {axes[1]}));
          s.terms.push_back(term);
        }
        s.scalars.push_back(scalar(static_cast<float>(node.number("epsilon"))).index);
        break;
      }
      default: {
        const auto call = ir::function_call(node);
        if (!call)
          return internal_error(fmt::format("'{}' has no pointwise form: it cannot be fused here",
                                            ir::info(node.op).name));
        for (ir::ValueId v : node.operands) {
          DRIFTC_TRY(term, visit(v, aligned(v, axes)));
          s.terms.push_back(term);
        }
        for (double value : call->scalars)
          s.scalars.push_back(scalar(static_cast<float>(value)).index);
        s.function = call->function;
        break;
      }
    }
    return push(std::move(s), node.op);
  }

  // add(a * b, c) and its mirror images.
  Result<Term> fused(const ir::Node& node, int site, const std::vector<int>& axes) {
    ir::ValueId product = node.operands[static_cast<std::size_t>(site)];
    std::vector<int> at = aligned(product, axes);
    const ir::Node* mul = body_.producer(product);
    while (mul->op == Op::kIdentity) mul = body_.producer(mul->operands[0]);
    Step s;
    s.op = node.op;
    s.fused = true;
    for (ir::ValueId v : mul->operands) {
      DRIFTC_TRY(term, visit(v, aligned(v, at)));
      s.terms.push_back(term);
    }
    const ir::ValueId other = node.operands[static_cast<std::size_t>(1 - site)];
    DRIFTC_TRY(addend, visit(other, aligned(other, axes)));
    s.terms.push_back(addend);
    s.negate_addend = node.op == Op::kSub && site == 0;
    s.negate_product = node.op == Op::kSub && site == 1;
    return push(std::move(s), node.op);
  }

  Result<Term> push(Step s, Op op) {
    out_.label_ +=
        (out_.label_.empty() ? "" : "_") + std::string(s.fused ? "fma" : ir::info(op).name);
    out_.steps_.push_back(std::move(s));
    return Term{Term::Kind::kStep, out_.steps_.size() - 1};
  }
  Term scalar(float value) {
    out_.scalar_values_.push_back(value);
    return {Term::Kind::kScalar, out_.scalar_values_.size() - 1};
  }
  // Axes of an operand of a node whose result lies along `axes`: aligned to the right.
  std::vector<int> aligned(ir::ValueId value, const std::vector<int>& axes) const {
    const std::size_t rank = body_.value(value).type.shape.rank();
    return {axes.end() - static_cast<std::ptrdiff_t>(rank), axes.end()};
  }

  Pointwise& out_;
  const ir::Graph& body_;
  std::optional<ir::ValueId> root_;
  std::vector<int> uses_;
  ir::Shape shape_;
  std::map<Use, Term> done_;
};

Result<Pointwise> Pointwise::plan(const ir::Graph& body, const ir::NumericContract& contract,
                                  std::optional<ir::ValueId> root) {
  const auto known = [](ir::Precision p) {
    return p == ir::Precision::kF32 || p == ir::Precision::kF16 || p == ir::Precision::kBF16;
  };
  if (!known(contract.inner) || !known(contract.store) || contract.ftz)
    return internal_error(
        "values of a kernel are f32, f16 or bf16, and subnormals are never flushed");
  Pointwise out;
  out.contract_ = contract.contract;
  out.inner_ = contract.inner;
  out.store_ = contract.store;
  DRIFTC_CHECK(Planner(out, body, root).run());
  if (out.inner_ != ir::Precision::kF32)
    out.label_ += (out.label_.empty() ? "" : "_") + std::string("inner_") +
                  std::string(ir::name_of(out.inner_));
  if (out.store_ != ir::Precision::kF32)
    out.label_ += (out.label_.empty() ? "" : "_") + std::string(ir::name_of(out.store_));
  return out;
}

void Pointwise::declare(KernelBuilder& builder) {
  scalar_names_.clear();
  for (std::size_t i = 0; i < scalar_values_.size(); ++i)
    scalar_names_.push_back(builder.real(fmt::format("f{}", i), scalar_values_[i]));
  declare_rounding(builder, store_);
  if (inner_ != store_) declare_rounding(builder, inner_);
  std::set<std::string> known;
  for (const Step& s : steps_) {
    if (!s.function) continue;
    for (const DeviceFunction& f : function_prelude(*s.function))
      if (known.insert(f.name).second) builder.prelude({f});
  }
}

std::string Pointwise::emit(KernelBuilder& builder, CudaWriter& w, const OffsetOf& offset,
                            const std::string& root) const {
  std::vector<std::string> loaded(accesses_.size()), names(steps_.size());
  std::string stored_root = root;
  if (!root.empty() && root_precision() != ir::Precision::kF32) {
    stored_root = "stored";
    w.line(fmt::format("const float stored = {};", rounded_to(root_precision(), root)));
  }
  // Values between the ops as eager would store them, and the last one as the kernel does.
  const auto precision_of = [&](std::size_t step) {
    return step + 1 == steps_.size() ? store_ : inner_;
  };
  auto text = [&](const Term& t) -> std::string {
    switch (t.kind) {
      case Term::Kind::kRoot:
        return stored_root;
      case Term::Kind::kScalar:
        return scalar_names_[t.index];
      case Term::Kind::kStep:
        return names[t.index];
      case Term::Kind::kAccess:
        break;
    }
    if (loaded[t.index].empty()) {
      loaded[t.index] = fmt::format("v{}", t.index);
      w.line(fmt::format("const float {} = {}[{}];", loaded[t.index],
                         builder.operand(accesses_[t.index].operand), offset(t.index)));
    }
    return loaded[t.index];
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    std::vector<std::string> a;
    for (const Term& t : s.terms) a.push_back(text(t));
    const std::string name = fmt::format("t{}", i);
    auto set = [&](const std::string& expression, std::string_view note = "") {
      w.line(fmt::format("const float {} = {};{}", name, expression,
                         note.empty() ? "" : "  // " + std::string(note)));
    };
    names[i] = rounded_to(precision_of(i), name);
    if (s.fused) {
      set(fmt::format("__fmaf_rn({}{}, {}, {}{})", s.negate_product ? "-" : "", a[0], a[1],
                      s.negate_addend ? "-" : "", a[2]),
          "contracted: one rounding for the product and the sum");
      continue;
    }
    if (s.function) {
      for (std::size_t scalar : s.scalars) a.push_back(scalar_names_[scalar]);
      set(fmt::format("{}({})", function_name(*s.function), fmt::join(a, ", ")));
      continue;
    }
    switch (s.op) {
      case Op::kAdd:
        set(fmt::format("__fadd_rn({}, {})", a[0], a[1]));
        break;
      case Op::kSub:
        set(fmt::format("__fsub_rn({}, {})", a[0], a[1]));
        break;
      case Op::kMul:
        set(fmt::format("__fmul_rn({}, {})", a[0], a[1]));
        break;
      case Op::kDiv:
        set(fmt::format("__fdiv_rn({}, {})", a[0], a[1]));
        break;
      case Op::kRelu:
        set(fmt::format("{0} < 0.0f ? 0.0f : {0}", a[0]), "relu: keeps NaN and -0");
        break;
      case Op::kClip: {
        const std::string &lo = scalar_names_[s.scalars[0]], &hi = scalar_names_[s.scalars[1]];
        w.line(fmt::format("const float {0}_low = {1} < {2} ? {2} : {1};", name, a[0], lo));
        set(fmt::format("{0}_low > {1} ? {1} : {0}_low", name, hi), "clip: keeps NaN");
        break;
      }
      case Op::kBatchNorm:
        w.comment("batch_norm: (x - mean) / sqrt(var + epsilon) * scale + shift");
        w.line(fmt::format("const float {}_d = __fsub_rn({}, {});", name, a[0], a[3]));
        w.line(fmt::format("const float {}_i = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn({}, {})));",
                           name, a[4], scalar_names_[s.scalars[0]]));
        w.line(fmt::format("const float {0}_n = __fmul_rn({0}_d, {0}_i);", name));
        if (contract_) {
          set(fmt::format("__fmaf_rn({}_n, {}, {})", name, a[1], a[2]), "contracted");
        } else {
          set(fmt::format("__fadd_rn(__fmul_rn({}_n, {}), {})", name, a[1], a[2]));
        }
        break;
      default:
        set(a[0]);
        break;
    }
  }
  return steps_.empty() ? stored_root : names.back();
}

}  // namespace driftc::codegen
