// The bytes of a file in memory that can be handed back piece by piece.
// A model's weights are copied into tensors; giving their pages back at once keeps the peak near
// one file size instead of two. The file is read, not mapped: a file that shrinks meanwhile must
// not raise SIGBUS.
#pragma once

#include <string>
#include <string_view>

#include "ir/support/result.h"

namespace driftc::frontend::onnx {

class FileBuffer {
 public:
  static Result<FileBuffer> read(const std::string& path);
  FileBuffer(FileBuffer&& other) noexcept;
  FileBuffer& operator=(FileBuffer&&) = delete;
  FileBuffer(const FileBuffer&) = delete;
  FileBuffer& operator=(const FileBuffer&) = delete;
  ~FileBuffer();

  std::string_view bytes() const { return {data_, size_}; }
  // The caller does not read `part` again (it would read zeros). Whole pages only, so a small part
  // is kept.
  void release(std::string_view part);

 private:
  FileBuffer(char* data, std::size_t size) : data_(data), size_(size) {}
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace driftc::frontend::onnx
