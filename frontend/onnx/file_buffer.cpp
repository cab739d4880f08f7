#include "frontend/onnx/file_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace driftc::frontend::onnx {
namespace {

Diagnostic file_error(const std::string& path, std::string message) {
  Diagnostic d = input_error(std::move(message));
  d.place.file = path;
  return d;
}

// Reads exactly `size` bytes.
bool read_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, to, std::min<std::size_t>(size, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Result<FileBuffer> FileBuffer::read(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; regular files are not affected.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return file_error(path, fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return file_error(path, "not a regular file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return file_error(path, "the file is empty");
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    ::close(fd);
    return file_error(path, fmt::format("not enough memory for {} bytes", size));
  }
  FileBuffer buffer(static_cast<char*>(memory), size);
  const bool complete = read_all(fd, buffer.data_, size);
  ::close(fd);
  if (!complete) return file_error(path, "cannot read the whole file");
  return buffer;
}

FileBuffer::FileBuffer(FileBuffer&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}
FileBuffer::~FileBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void FileBuffer::release(std::string_view part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + part.size()) / page * page;
  if (last > first)
    ::madvise(data_ + (first - reinterpret_cast<std::uintptr_t>(data_)), last - first,
              MADV_DONTNEED);
}

}  // namespace driftc::frontend::onnx
