// oneDNN as the peer of our convolutions: f32, pinned to its direct convolution, reorders outside
// the timing. Run with OMP_NUM_THREADS=1 (./dev bench sets it) to compare single threads.
#pragma once

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

namespace driftc::bench {

// NCHW input, OIHW weights, square kernel, one group, no bias.
struct PeerConv {
  std::int64_t n, c, h, w, k, kernel, stride, pad;
  std::int64_t out_h() const { return (h + 2 * pad - kernel) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * pad - kernel) / stride + 1; }
  double multiply_adds() const {
    return static_cast<double>(n * k * out_h() * out_w() * c * kernel * kernel);
  }
};

class OnednnConv {
 public:
  explicit OnednnConv(const PeerConv& s) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using tag = dnnl::memory::format_tag;
    constexpr auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc src({s.n, s.c, s.h, s.w}, f32, tag::any);
    const dnnl::memory::desc weights({s.k, s.c, s.kernel, s.kernel}, f32, tag::any);
    const dnnl::memory::desc dst({s.n, s.k, s.out_h(), s.out_w()}, f32, tag::any);
    const dnnl::convolution_forward::desc desc(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src, weights, dst,
        {s.stride, s.stride}, {s.pad, s.pad}, {s.pad, s.pad});
    const dnnl::convolution_forward::primitive_desc primitive_desc(desc, engine_);
    primitive_ = dnnl::convolution_forward(primitive_desc);
    for (const auto& [id, md] : {std::pair{DNNL_ARG_SRC, primitive_desc.src_desc()},
                                 std::pair{DNNL_ARG_WEIGHTS, primitive_desc.weights_desc()},
                                 std::pair{DNNL_ARG_DST, primitive_desc.dst_desc()}}) {
      dnnl::memory memory(md, engine_);
      // Ordinary values, so that no subnormals slow the peer down.
      auto* values = static_cast<float*>(memory.get_data_handle());
      for (std::size_t i = 0; i < md.get_size() / sizeof(float); ++i)
        values[i] = static_cast<float>(i % 17) * 0.0625f - 0.5f;
      arguments_.emplace(id, memory);
    }
  }
  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::convolution_forward primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace driftc::bench
