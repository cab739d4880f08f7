// oneDNN as the peer of our convolutions: f32, pinned to its direct convolution, reorders outside
// the timing. Run with OMP_NUM_THREADS=1 (./dev bench sets it) to compare single threads.
#pragma once

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <utility>
#include <vector>

namespace driftc::bench {

// NCHW input, OIHW weights, square kernel, no bias. Groups: 1, or as many as channels (depthwise).
struct PeerConv {
  std::int64_t n, c, h, w, k, kernel, stride, pad;
  std::int64_t groups = 1, dilation = 1;
  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
  std::int64_t out_h() const { return (h + 2 * pad - reach()) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * pad - reach()) / stride + 1; }
  double multiply_adds() const {
    return static_cast<double>(n * k * out_h() * out_w() * (c / groups) * kernel * kernel);
  }
};

// One layer, 3x3 64->64, from 1.3 M to 4 G multiply-adds.
inline constexpr std::pair<const char*, PeerConv> kGrowing[] = {
    {"1.3M", {1, 64, 6, 6, 64, 3, 1, 1}},     {"5.3M", {1, 64, 12, 12, 64, 3, 1, 1}},
    {"21M", {1, 64, 24, 24, 64, 3, 1, 1}},    {"116M", {1, 64, 56, 56, 64, 3, 1, 1}},
    {"462M", {1, 64, 112, 112, 64, 3, 1, 1}}, {"1.8G", {1, 64, 224, 224, 64, 3, 1, 1}},
    {"4.1G", {1, 64, 333, 333, 64, 3, 1, 1}},
};

// Ordinary values, so that no subnormals slow the peer down.
inline dnnl::memory filled(const dnnl::memory::desc& md, const dnnl::engine& engine) {
  dnnl::memory memory(md, engine);
  auto* values = static_cast<float*>(memory.get_data_handle());
  for (std::size_t i = 0; i < md.get_size() / sizeof(float); ++i)
    values[i] = static_cast<float>(i % 17) * 0.0625f - 0.5f;
  return memory;
}

class OnednnConv {
 public:
  explicit OnednnConv(const PeerConv& s) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using tag = dnnl::memory::format_tag;
    constexpr auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc src({s.n, s.c, s.h, s.w}, f32, tag::any);
    const dnnl::memory::desc weights =
        s.groups == 1
            ? dnnl::memory::desc({s.k, s.c, s.kernel, s.kernel}, f32, tag::any)
            : dnnl::memory::desc({s.groups, s.k / s.groups, s.c / s.groups, s.kernel, s.kernel},
                                 f32, tag::any);
    const dnnl::memory::desc dst({s.n, s.k, s.out_h(), s.out_w()}, f32, tag::any);
    const dnnl::convolution_forward::desc desc(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src, weights, dst,
        {s.stride, s.stride}, {s.dilation - 1, s.dilation - 1}, {s.pad, s.pad}, {s.pad, s.pad});
    const dnnl::convolution_forward::primitive_desc primitive_desc(desc, engine_);
    primitive_ = dnnl::convolution_forward(primitive_desc);
    for (const auto& [id, md] : {std::pair{DNNL_ARG_SRC, primitive_desc.src_desc()},
                                 std::pair{DNNL_ARG_WEIGHTS, primitive_desc.weights_desc()},
                                 std::pair{DNNL_ARG_DST, primitive_desc.dst_desc()}})
      arguments_.emplace(id, filled(md, engine_));
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

// Maximum over square windows.
struct PeerPool {
  std::int64_t n, c, h, w, kernel, stride, pad;
  std::int64_t out_h() const { return (h + 2 * pad - kernel) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * pad - kernel) / stride + 1; }
};

class OnednnPool {
 public:
  explicit OnednnPool(const PeerPool& s) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    constexpr auto f32 = dnnl::memory::data_type::f32;
    // Blocked by 16 channels, which its fastest code wants; pooling takes the layout it is given.
    constexpr auto blocked = dnnl::memory::format_tag::nChw16c;
    const dnnl::memory::desc src({s.n, s.c, s.h, s.w}, f32, blocked);
    const dnnl::memory::desc dst({s.n, s.c, s.out_h(), s.out_w()}, f32, blocked);
    const dnnl::pooling_forward::desc desc(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, src, dst,
        {s.stride, s.stride}, {s.kernel, s.kernel}, {s.pad, s.pad}, {s.pad, s.pad});
    primitive_ = dnnl::pooling_forward(dnnl::pooling_forward::primitive_desc(desc, engine_));
    arguments_.emplace(DNNL_ARG_SRC, filled(src, engine_));
    arguments_.emplace(DNNL_ARG_DST, filled(dst, engine_));
  }
  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::pooling_forward primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

class OnednnRelu {
 public:
  explicit OnednnRelu(const std::int64_t (&shape)[4])
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const dnnl::memory::desc md({shape[0], shape[1], shape[2], shape[3]},
                                dnnl::memory::data_type::f32, dnnl::memory::format_tag::nchw);
    const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_inference,
                                           dnnl::algorithm::eltwise_relu, md, 0.0f);
    primitive_ = dnnl::eltwise_forward(dnnl::eltwise_forward::primitive_desc(desc, engine_));
    arguments_.emplace(DNNL_ARG_SRC, filled(md, engine_));
    arguments_.emplace(DNNL_ARG_DST, filled(md, engine_));
  }
  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::eltwise_forward primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace driftc::bench
