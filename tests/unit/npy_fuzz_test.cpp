#include "tests/fuzz/npy_fuzz.h"

#include <doctest/doctest.h>

#include "tests/fuzz/mutate.h"

using namespace driftc;

TEST_CASE("npy: 20,000 mutated files are read or refused") {
  const float f[] = {1, 2, 3, 4, 5, 6};
  const double d[] = {1, 2};
  const std::string seeds[] = {
      frontend::npy::npy_bytes(ir::Tensor::of<float>(ir::Shape{1, 2, 3}, f)),
      frontend::npy::npy_bytes(ir::Tensor::of<double>(ir::Shape{2}, d)),
      std::string("\x93NUMPY\x02\x00\x40\x00\x00\x00", 12) +
          "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 2), }     \n0123456789abcdef"};
  for (std::uint64_t i = 0; i < 20'000; ++i) fuzz::npy_file(fuzz::mutated(seeds[i % 3], 1, i));
}
