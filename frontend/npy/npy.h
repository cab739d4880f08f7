// NumPy's .npy files: format 1.0, 2.0 and 3.0, both byte orders, C and Fortran order.
// Read: f2 -> f16 (bits kept; widen with Tensor::converted), f4 -> f32, f8 -> f64, i8 -> i64, i4 ->
// i64. Write: format 1.0, little-endian, C order, of f16, f32, f64 and i64; the file appears whole
// or not at all. A file must hold exactly the bytes its header promises; that is checked before
// memory is taken.
#pragma once

#include <string>
#include <string_view>

#include "ir/support/result.h"
#include "ir/tensor.h"

namespace driftc::frontend::npy {

struct Header {
  std::string descr;                  // as written, for example "<f4"
  ir::DType dtype = ir::DType::kF32;  // of the tensor that reading gives
  std::size_t item_bytes = 4;         // of one element in the file
  bool big_endian = false;
  bool fortran_order = false;
  ir::Shape shape;
  std::size_t data_offset = 0;  // bytes before the first element
};

Result<ir::Tensor> read_npy(const std::string& path);
// Type and shape only (an importer binds symbolic dimensions with them); the length is checked too.
Result<Header> read_npy_header(const std::string& path);
Result<void> write_npy(const std::string& path, const ir::Tensor& tensor);

// The same on memory. `file` names the data in messages.
Result<ir::Tensor> parse_npy(std::string_view bytes, std::string_view file);
std::string npy_bytes(const ir::Tensor& tensor);

}  // namespace driftc::frontend::npy
