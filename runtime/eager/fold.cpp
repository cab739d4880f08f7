#include "runtime/eager/fold.h"

#include "ir/support/assert.h"
#include "ir/support/round.h"

namespace driftc::runtime {
namespace {

// T: the type every step is computed in; S: the tensors' type.
template <class T, class S>
FoldedConv fold(const ir::Tensor& weight, const ir::Tensor& bias, const ir::Tensor& scale,
                const ir::Tensor& shift, const ir::Tensor& mean, const ir::Tensor& variance,
                double epsilon) {
  FoldedConv out{ir::Tensor(weight.dtype(), weight.shape()),
                 ir::Tensor(weight.dtype(), scale.shape())};
  const auto w = weight.data<S>(), g = scale.data<S>(), h = shift.data<S>(), m = mean.data<S>(),
             v = variance.data<S>();
  auto w_out = out.weight.data_mut<S>(), b_out = out.bias.data_mut<S>();
  const std::size_t per_channel = g.empty() ? 0 : w.size() / g.size();
  const T eps = static_cast<T>(epsilon);
  for (std::size_t k = 0; k < g.size(); ++k) {
    const T inverse = div_rn(T{1}, sqrt_rn(add_rn(static_cast<T>(v[k]), eps)));
    const T s = mul_rn(static_cast<T>(g[k]), inverse);
    for (std::size_t i = k * per_channel; i < (k + 1) * per_channel; ++i)
      w_out[i] = static_cast<S>(mul_rn(static_cast<T>(w[i]), s));
    const T b = bias.defined() ? static_cast<T>(bias.data<S>()[k]) : T{0};
    b_out[k] =
        static_cast<S>(add_rn(mul_rn(sub_rn(b, static_cast<T>(m[k])), s), static_cast<T>(h[k])));
  }
  return out;
}

}  // namespace

FoldedConv fold_batch_norm(ir::Fold how, const ir::Tensor& weight, const ir::Tensor& bias,
                           const ir::Tensor& scale, const ir::Tensor& shift, const ir::Tensor& mean,
                           const ir::Tensor& variance, double epsilon) {
  DRIFTC_ASSERT(how != ir::Fold::kNone, "nothing to fold");
  if (weight.dtype() == ir::DType::kF64)
    return fold<double, double>(weight, bias, scale, shift, mean, variance, epsilon);
  return how == ir::Fold::kF64
             ? fold<double, float>(weight, bias, scale, shift, mean, variance, epsilon)
             : fold<float, float>(weight, bias, scale, shift, mean, variance, epsilon);
}

}  // namespace driftc::runtime
