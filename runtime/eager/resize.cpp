// resize: where each output row and column reads is computed once per axis, in f64.
#include "ir/resize.h"

#include <algorithm>

#include "runtime/eager/ops.h"

namespace driftc::runtime {
namespace {

double coordinate(const std::string& rule, std::int64_t out, double scale, std::int64_t in_extent,
                  std::int64_t out_extent) {
  const auto o = static_cast<double>(out);
  if (rule == "asymmetric") return div_rn(o, scale);
  if (rule == "align_corners")
    return out_extent == 1 ? 0.0
                           : div_rn(mul_rn(o, static_cast<double>(in_extent - 1)),
                                    sub_rn(ir::aligned_extent(scale, in_extent, out_extent), 1.0));
  if (rule == "tf_half_pixel_for_nn") return div_rn(add_rn(o, 0.5), scale);
  if (rule == "pytorch_half_pixel" && out_extent == 1) return 0.0;
  return sub_rn(div_rn(add_rn(o, 0.5), scale), 0.5);
}

double rounded(const std::string& rule, double c) {
  if (rule == "floor") return std::floor(c);
  if (rule == "ceil") return std::ceil(c);
  return rule == "round_prefer_floor" ? std::ceil(sub_rn(c, 0.5)) : std::floor(add_rn(c, 0.5));
}

// One axis: nearest reads `first` alone; linear weighs first by v and second by w.
template <class S>
struct Reads {
  std::vector<std::int64_t> first, second;
  std::vector<S> v, w;
};

template <class S>
Reads<S> reads(const OpCall& call, std::size_t axis, const char* scale_name) {
  const std::int64_t in = call.operand(0).shape()[axis], out = call.result_shape()[axis];
  const double last = static_cast<double>(in - 1);
  const bool nearest = call.node.word("mode") == "nearest";
  Reads<S> r;
  for (std::int64_t o = 0; o < out; ++o) {
    double c = coordinate(call.node.word("coordinates"), o, call.node.number(scale_name), in, out);
    if (nearest) {
      c = rounded(call.node.word("rounding"), c);
      r.first.push_back(static_cast<std::int64_t>(std::min(std::max(c, 0.0), last)));
      continue;
    }
    c = std::min(std::max(c, 0.0), last);
    const double floor = std::floor(c), ratio = sub_rn(c, floor);
    r.first.push_back(static_cast<std::int64_t>(floor));
    r.second.push_back(std::min(static_cast<std::int64_t>(floor) + 1, in - 1));
    r.v.push_back(static_cast<S>(sub_rn(1.0, ratio)));
    r.w.push_back(static_cast<S>(ratio));
  }
  return r;
}

template <class S, bool kFlush>
ir::Tensor resize(const OpCall& call) {
  const ir::Shape &x = call.operand(0).shape(), &y = call.result_shape();
  const Reads<S> rows = reads<S>(call, 2, "scale_h"), columns = reads<S>(call, 3, "scale_w");
  const auto in = call.operand(0).data<S>();
  ir::Tensor result(call.operand(0).dtype(), y);
  const auto out = result.data_mut<S>();
  const auto mix = [](S v, S a, S w, S b) {
    const S left = flushed<kFlush>(mul_rn(v, flushed<kFlush>(a)));
    const S right = flushed<kFlush>(mul_rn(w, flushed<kFlush>(b)));
    return canonical(flushed<kFlush>(add_rn(left, right)));
  };
  for_each(call.context.pool, y[0] * y[1], result.elements() * 4, [&](std::size_t plane, int) {
    const S* from = in.data() + static_cast<std::int64_t>(plane) * x[2] * x[3];
    S* to = out.data() + static_cast<std::int64_t>(plane) * y[2] * y[3];
    for (std::size_t oy = 0; oy < rows.first.size(); ++oy) {
      const S* first = from + rows.first[oy] * x[3];
      for (std::size_t ox = 0; ox < columns.first.size(); ++ox, ++to) {
        if (rows.v.empty()) {
          *to = first[columns.first[ox]];
          continue;
        }
        const S* second = from + rows.second[oy] * x[3];
        const auto across = [&](const S* line) {
          return mix(columns.v[ox], line[columns.first[ox]], columns.w[ox],
                     line[columns.second[ox]]);
        };
        *to = mix(rows.v[oy], across(first), rows.w[oy], across(second));
      }
    }
  });
  return result;
}

}  // namespace

ir::Tensor evaluate_resize(const OpCall& call) {
  if (call.operand(0).dtype() == ir::DType::kF64) return resize<double, false>(call);
  return call.contract.ftz ? resize<float, true>(call) : resize<float, false>(call);
}

}  // namespace driftc::runtime
