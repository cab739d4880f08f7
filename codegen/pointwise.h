// Pointwise nodes of a kernel's body as code that computes one output element in registers: the
// whole of an elementwise kernel, and the epilogue of every other one. Each node is one named
// rounding (ops.def, "evaluation"); under contract=on an add or sub of a product becomes one fma
// (ir::contraction_site).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/cuda_writer.h"
#include "ir/functions.h"
#include "ir/kernel.h"

namespace driftc::codegen {

// A body input as the output element sees it: axis i of the operand lies along axis `axes[i]` of
// the result. Numpy broadcasting aligns axes to the right; the vectors of batch_norm lie along
// axis 1.
struct Access {
  int operand = 0;
  std::vector<int> axes;
  friend bool operator==(const Access&, const Access&) = default;
};

// Elements the access moves per step along each axis of the result; 0 where it is broadcast. An
// operand of the result's own shape keeps its strides along axes of extent 1, so that batch 1 and
// batch 8 give the same code.
std::vector<std::int64_t> access_strides(const Access& access, const ir::TensorType& operand,
                                         const ir::Shape& result);

class Pointwise {
 public:
  // Plans the computation of the body's output. `root` (empty: none) is a body value that the
  // kernel computes by other means and that has the shape of the output. Errors (kInternal) name
  // what has no pointwise form.
  static Result<Pointwise> plan(const ir::Graph& body, const ir::NumericContract& contract,
                                std::optional<ir::ValueId> root);

  const std::vector<Access>& accesses() const { return accesses_; }
  std::size_t add_access(Access access);  // index; equal accesses are one
  // False: the output is the root itself.
  bool empty() const { return steps_.empty(); }
  // The type that the root's own value is rounded to.
  ir::Precision root_precision() const { return steps_.empty() ? store_ : inner_; }
  // Short text that names the structure ("add_relu"), for entry names.
  const std::string& label() const { return label_; }

  // Declares scalar parameters (clip bounds, epsilons, scalar constants) and device functions. Once
  // per kernel, before emit.
  void declare(KernelBuilder& builder);
  // Statements that compute the element; returns the expression of its value. `offset(i)` is the
  // element offset of access i, `root` the expression of the root value.
  using OffsetOf = std::function<std::string(std::size_t)>;
  std::string emit(KernelBuilder& builder, CudaWriter& w, const OffsetOf& offset,
                   const std::string& root) const;

 private:
  // A value used along certain axes of the result; one value may be used along several.
  struct Use {
    std::uint32_t value = 0;
    std::vector<int> axes;
    friend bool operator<(const Use& a, const Use& b) {
      return std::tie(a.value, a.axes) < std::tie(b.value, b.axes);
    }
  };
  struct Term {
    enum class Kind : std::uint8_t { kStep, kAccess, kScalar, kRoot } kind = Kind::kRoot;
    std::size_t index = 0;
  };
  struct Step {
    ir::Op op;
    std::vector<Term> terms;  // operands
    std::vector<std::size_t>
        scalars;  // attributes: clip {min, max}, batch_norm {epsilon}, those of functions
    std::optional<ir::Function> function;  // what the step calls; empty: it has code of its own
    // Contracted add or sub: terms are {a, b, c} of the product a * b and the addend c; a and c are
    // negated as told (exact).
    bool fused = false, negate_product = false, negate_addend = false;
  };

  class Planner;
  std::vector<Step> steps_;
  std::vector<Access> accesses_;
  std::vector<float> scalar_values_;
  std::vector<std::string> scalar_names_;
  bool contract_ = false;
  // Of values between the ops, and of the last one.
  ir::Precision inner_ = ir::Precision::kF32, store_ = ir::Precision::kF32;
  std::string label_;
};

}  // namespace driftc::codegen
