#include "frontend/npy/npy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

using namespace driftc;
using namespace driftc::frontend::npy;

namespace {

// A file as numpy writes it: version `major`.0, header text, elements.
std::string npy_file(int major, std::string dict, std::string_view elements) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(major);
  out += '\0';
  dict += '\n';
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  for (std::size_t i = 0; i < length_bytes; ++i)
    out += static_cast<char>((dict.size() >> (8 * i)) & 0xFF);
  return out + dict + std::string(elements);
}

template <class T>
std::string bytes_of(std::initializer_list<T> values, bool big_endian = false) {
  std::string out;
  for (T v : values) {
    char raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof(T));
    if (big_endian) std::reverse(raw, raw + sizeof(T));
    out.append(raw, sizeof(T));
  }
  return out;
}

std::string error_of(const std::string& bytes) {
  auto tensor = parse_npy(bytes, "a.npy");
  return tensor.ok() ? "(accepted)" : tensor.error().render();
}

}  // namespace

TEST_CASE("npy: versions, byte orders and element types") {
  for (int major : {1, 2, 3}) {
    auto t =
        parse_npy(npy_file(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                           bytes_of<float>({1, 2, 3, 4, 5, -0.0f})),
                  "a.npy");
    REQUIRE(t.ok());
    CHECK(t->shape() == ir::Shape{2, 3});
    CHECK(t->data<float>()[4] == 5);
    CHECK(std::signbit(t->data<float>()[5]));
  }
  auto big = parse_npy(npy_file(1, "{'shape': (2,), 'fortran_order': False, 'descr': '>f8'}",
                                bytes_of<double>({0.1, -3}, true)),
                       "a.npy");
  REQUIRE(big.ok());
  CHECK(big->data<double>()[0] == 0.1);
  auto ints = parse_npy(npy_file(1, "{\"descr\": '>i4', 'fortran_order': True, 'shape': (2L,)}",
                                 bytes_of<std::int32_t>({-7, 1 << 30}, true)),
                        "a.npy");
  REQUIRE(ints.ok());
  CHECK(ints->data<std::int64_t>()[0] == -7);
  CHECK(ints->data<std::int64_t>()[1] == 1 << 30);
  auto half = parse_npy(npy_file(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }",
                                 bytes_of<std::uint16_t>({0x3C00})),
                        "a.npy");
  REQUIRE(half.ok());
  CHECK(half->dtype() == ir::DType::kF16);
  CHECK(half->converted(ir::DType::kF32).data<float>()[0] == 1);
  auto scalar = parse_npy(npy_file(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }",
                                   bytes_of<std::int64_t>({42})),
                          "a.npy");
  REQUIRE(scalar.ok());
  CHECK(scalar->shape().rank() == 0);
  CHECK(scalar->data<std::int64_t>()[0] == 42);
}

TEST_CASE("npy: Fortran order is put into C order") {
  // a[i,j,k] = 100 i + 10 j + k of shape (2,3,2), written with the first index fastest.
  std::string data;
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i)
        data += bytes_of<float>({static_cast<float>(100 * i + 10 * j + k)});
  auto t = parse_npy(
      npy_file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 2), }", data), "a.npy");
  REQUIRE(t.ok());
  std::size_t n = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 2; ++k)
        CHECK(t->data<float>()[n++] == static_cast<float>(100 * i + 10 * j + k));
}

TEST_CASE("npy: what is written is numpy's own spelling, and reads back") {
  const float values[] = {1.5f, -2, 3, 4, 5, 6};
  const auto tensor = ir::Tensor::of<float>(ir::Shape{2, 3}, values);
  const std::string bytes = npy_bytes(tensor);
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(bytes.substr(10, 59) == "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  CHECK(bytes.size() == 128 + 24);
  const auto path = std::filesystem::temp_directory_path() / "driftc_npy_test.npy";
  for (const ir::Tensor& t :
       {tensor, tensor.converted(ir::DType::kF64), tensor.converted(ir::DType::kI64),
        tensor.converted(ir::DType::kF16), ir::Tensor(ir::DType::kF32, ir::Shape{}),
        ir::Tensor(ir::DType::kF64, ir::Shape{7}), ir::Tensor(ir::DType::kF32, ir::Shape{0, 3})}) {
    REQUIRE(write_npy(path.string(), t).ok());
    auto back = read_npy(path.string());
    REQUIRE(back.ok());
    CHECK(back->dtype() == t.dtype());
    CHECK(back->shape() == t.shape());
    CHECK(std::equal(back->bytes().begin(), back->bytes().end(), t.bytes().begin()));
    auto header = read_npy_header(path.string());
    REQUIRE(header.ok());
    CHECK(header->shape == t.shape());
  }
  std::filesystem::remove(path);
}

TEST_CASE("npy: errors name the file and what would be accepted") {
  const std::string ok_dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  CHECK(error_of("hello, this is no array") ==
        "a.npy: error: not a .npy file\n  hint: the first six bytes must be \\x93NUMPY\n");
  CHECK(error_of(npy_file(1, ok_dict, "1234567")) ==
        "a.npy: error: shape [2] of dtype '<f4' needs 8 bytes, the file holds 7\n");
  CHECK(error_of(npy_file(1, ok_dict, "123456789")).find("the file holds 9") != std::string::npos);
  CHECK(error_of(npy_file(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "")) ==
        "a.npy: error: dtype '<c8' is not supported\n  hint: accepted dtypes: f2, f4, f8, i4, i8; "
        "for example np.save(file, array.astype(np.float32))\n");
  CHECK(error_of(
            npy_file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", ""))
            .find("structured dtypes are not supported") != std::string::npos);
  CHECK(error_of(npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", ""))
            .find("negative extent -2") != std::string::npos);
  CHECK(error_of(npy_file(1,
                          "{'descr': '<f8', 'fortran_order': False, 'shape': "
                          "(4294967296, 4294967296, 4294967296), }",
                          ""))
            .find("more than 2^40 elements") != std::string::npos);
  CHECK(error_of(npy_file(1, "{'descr': '<f4', 'shape': (1,), }", "1234")).find("lacks") !=
        std::string::npos);
  CHECK(error_of(npy_file(1, "{'descr': '<f4', 'shape': (1, }", "1234")).find("expected") !=
        std::string::npos);
  CHECK(error_of(npy_file(9, ok_dict, "")).find("unknown .npy format version 9.0") !=
        std::string::npos);
  CHECK(error_of(npy_file(1, ok_dict, "").substr(0, 30)).find("truncated") != std::string::npos);
  auto missing = read_npy("/nonexistent/x.npy");
  REQUIRE(!missing.ok());
  CHECK(missing.error().render() ==
        "/nonexistent/x.npy: error: cannot open: No such file or directory\n");
  auto directory = read_npy("/tmp");
  REQUIRE(!directory.ok());
  CHECK(directory.error().render() == "/tmp: error: not a regular file\n");
}

TEST_CASE("npy: the shipped images") {
  auto images = read_npy(DRIFTC_SOURCE_DIR "/tests/models/digits.images.npy");
  REQUIRE(images.ok());
  CHECK(images->shape() == ir::Shape{32, 1, 8, 8});
  auto labels = read_npy(DRIFTC_SOURCE_DIR "/tests/models/digits.labels.npy");
  REQUIRE(labels.ok());
  CHECK(labels->dtype() == ir::DType::kI64);
}
