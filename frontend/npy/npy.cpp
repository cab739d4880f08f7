#include "frontend/npy/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "frontend/npy/npy_header.h"

namespace driftc::frontend::npy {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Diagnostic file_error(std::string_view file, std::string message, std::string hint = {}) {
  Diagnostic d = input_error(std::move(message), std::move(hint));
  d.place.file = std::string(file);
  return d;
}

// Reads until `size` bytes came or the file ended; the number of bytes read, or -1.
std::int64_t read_fully(int fd, void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, static_cast<char*>(to) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<std::int64_t>(done);
}

struct OpenFile {
  int fd;
  std::uint64_t size;
  Header header;
};

// Opens the file's header: everything but the elements. The descriptor stays behind them.
Result<OpenFile> open_npy(const FileDescriptor& fd, const std::string& path) {
  if (fd.get() < 0) return file_error(path, fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return file_error(path, "not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(size, kPreambleBytes)), '\0');
  if (read_fully(fd.get(), head.data(), head.size()) != static_cast<std::int64_t>(head.size()))
    return file_error(path, "cannot read");
  DRIFTC_TRY(header_bytes, header_size(head, size, path));
  head.resize(header_bytes);
  const std::size_t have = std::min<std::size_t>(kPreambleBytes, header_bytes);
  if (read_fully(fd.get(), head.data() + have, header_bytes - have) !=
      static_cast<std::int64_t>(header_bytes - have))
    return file_error(path, "cannot read");
  DRIFTC_TRY(header, parse_header(head, size, path));
  // A header may be shorter than the preamble that was read; elements start at its end.
  if (::lseek(fd.get(), static_cast<off_t>(header.data_offset), SEEK_SET) < 0)
    return file_error(path, "cannot seek");
  return OpenFile{fd.get(), size, std::move(header)};
}

void reverse_items(std::byte* data, std::size_t count, std::size_t item_bytes) {
  for (std::size_t i = 0; i < count; ++i)
    std::reverse(data + i * item_bytes, data + (i + 1) * item_bytes);
}

// Row-major copy of elements that lie column-major.
void fortran_to_c(const std::byte* from, std::byte* to, const ir::Shape& shape,
                  std::size_t item_bytes) {
  const std::size_t rank = shape.rank();
  std::vector<std::int64_t> index(rank, 0), stride(rank);
  std::int64_t run = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    stride[i] = run;
    run *= shape[i];
  }
  std::int64_t source = 0;
  for (std::int64_t n = 0; n < run; ++n) {
    std::memcpy(to + static_cast<std::size_t>(n) * item_bytes,
                from + static_cast<std::size_t>(source) * item_bytes, item_bytes);
    for (std::size_t axis = rank; axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// Elements as they lie in the file -> tensor. `raw` is changed (byte order).
ir::Tensor decode(const Header& header, std::vector<std::byte> raw) {
  const auto count = static_cast<std::size_t>(header.shape.elements());
  if (header.big_endian) reverse_items(raw.data(), count, header.item_bytes);
  if (header.fortran_order && header.shape.rank() > 1) {
    std::vector<std::byte> ordered(raw.size());
    fortran_to_c(raw.data(), ordered.data(), header.shape, header.item_bytes);
    raw = std::move(ordered);
  }
  ir::Tensor tensor(header.dtype, header.shape);
  if (header.dtype == ir::DType::kI64 && header.item_bytes == 4) {
    auto to = tensor.data_mut<std::int64_t>();
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t v = 0;
      std::memcpy(&v, raw.data() + 4 * i, 4);
      to[i] = v;
    }
  } else if (!raw.empty()) {
    std::memcpy(tensor.bytes_mut().data(), raw.data(), raw.size());
  }
  return tensor;
}

bool lies_as_tensor(const Header& header) {
  return !header.big_endian && (!header.fortran_order || header.shape.rank() < 2) &&
         header.item_bytes == ir::byte_size(header.dtype);
}

}  // namespace

Result<Header> read_npy_header(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  DRIFTC_TRY(file, open_npy(fd, path));
  return std::move(file.header);
}

Result<ir::Tensor> read_npy(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; regular files are not affected.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  DRIFTC_TRY(file, open_npy(fd, path));
  const std::size_t bytes = static_cast<std::size_t>(file.size) - file.header.data_offset;
  if (lies_as_tensor(file.header)) {
    ir::Tensor tensor(file.header.dtype, file.header.shape);
    if (read_fully(file.fd, tensor.bytes_mut().data(), bytes) != static_cast<std::int64_t>(bytes))
      return file_error(path, "cannot read all elements");
    return tensor;
  }
  std::vector<std::byte> raw(bytes);
  if (read_fully(file.fd, raw.data(), bytes) != static_cast<std::int64_t>(bytes))
    return file_error(path, "cannot read all elements");
  return decode(file.header, std::move(raw));
}

Result<ir::Tensor> parse_npy(std::string_view bytes, std::string_view file) {
  DRIFTC_TRY(header_bytes, header_size(bytes, bytes.size(), file));
  DRIFTC_TRY(header, parse_header(bytes.substr(0, header_bytes), bytes.size(), file));
  std::vector<std::byte> raw(bytes.size() - header.data_offset);
  if (!raw.empty()) std::memcpy(raw.data(), bytes.data() + header.data_offset, raw.size());
  return decode(header, std::move(raw));
}

std::string npy_bytes(const ir::Tensor& tensor) {
  const char* descr = nullptr;
  switch (tensor.dtype()) {
    case ir::DType::kF16:
      descr = "<f2";
      break;
    case ir::DType::kF32:
      descr = "<f4";
      break;
    case ir::DType::kF64:
      descr = "<f8";
      break;
    case ir::DType::kI64:
      descr = "<i8";
      break;
    case ir::DType::kBF16:
      break;
  }
  DRIFTC_ASSERT(descr != nullptr, "numpy has no bf16: widen before writing");
  std::string shape;
  for (std::int64_t d : tensor.shape().dims()) shape += fmt::format("{}, ", d);
  // (5,) keeps its comma, (5, 6) does not: numpy's own spelling.
  if (tensor.shape().rank() == 1) shape.pop_back();
  if (tensor.shape().rank() > 1) shape.resize(shape.size() - 2);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // Elements start at a multiple of 64 so that a file can be mapped.
  const std::size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  DRIFTC_ASSERT(text.size() <= 0xFFFF, "the shape has too many axes for format 1.0");
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(text.size() & 0xFF);
  out += static_cast<char>(text.size() >> 8);
  out += text;
  const auto bytes = tensor.bytes();
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out;
}

Result<void> write_npy(const std::string& path, const ir::Tensor& tensor) {
  const std::string bytes = npy_bytes(tensor);
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr)
    return file_error(path, fmt::format("cannot write: {}", std::strerror(errno)));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    return file_error(path, fmt::format("cannot write: {}", why));
  }
  return {};
}

}  // namespace driftc::frontend::npy
