#include "frontend/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "frontend/onnx/names.h"

namespace driftc::frontend::onnx {
namespace fs = std::filesystem;
namespace {

Result<std::uint64_t> number(const std::optional<std::string_view>& text, const char* key,
                             std::uint64_t fallback) {
  if (!text) return fallback;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size())
    return input_error(fmt::format("external data: '{}' is {}, not a number", key, quoted(*text)));
  return value;
}

}  // namespace

Result<ExternalData> locate_external(const TensorProto& tensor, const std::string& model_path,
                                     std::uint64_t wanted) {
  const auto refuse = [&](std::string_view why) {
    return input_error(fmt::format("external data {} is refused: {}", quoted(tensor.location), why),
                       "external data must be a file inside the model's folder");
  };
  if (tensor.location.empty()) return refuse("no location is given");
  if (tensor.location.size() > kMaxNameBytes ||
      tensor.location.find('\0') != std::string_view::npos)
    return refuse("not a file name");
  const fs::path location{std::string(tensor.location)};
  if (location.is_absolute()) return refuse("the path is absolute");
  if (std::find(location.begin(), location.end(), fs::path("..")) != location.end())
    return refuse("the path leaves the folder");

  fs::path folder = fs::path(model_path).parent_path();
  const fs::path file = folder / location;
  std::error_code error;
  const fs::path real_folder = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
  if (error) return refuse("the model's folder cannot be resolved");
  const fs::path real_file = fs::canonical(file, error);
  if (error)
    return input_error(fmt::format("external data {} cannot be opened: {}", quoted(tensor.location),
                                   error.message()));
  const auto mismatch =
      std::mismatch(real_folder.begin(), real_folder.end(), real_file.begin(), real_file.end());
  if (mismatch.first != real_folder.end()) return refuse("a link leads out of the folder");
  if (!fs::is_regular_file(real_file, error)) return refuse("not a regular file");

  DRIFTC_TRY(offset, number(tensor.offset, "offset", 0));
  DRIFTC_TRY(length, number(tensor.length, "length", wanted));
  const std::uint64_t size = fs::file_size(real_file, error);
  if (error) return refuse("its size cannot be read");
  if (length != wanted)
    return input_error(fmt::format("external data {} has length {}, the shape needs {}",
                                   quoted(tensor.location), length, wanted));
  if (offset > size || wanted > size - offset)
    return input_error(fmt::format("external data {}: {} bytes at offset {} exceed its {} bytes",
                                   quoted(tensor.location), wanted, offset, size));
  return ExternalData{file.string(), offset};
}

Result<void> read_external(const ExternalData& data, std::span<std::byte> to) {
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(data.path.c_str(), "rb"));
  if (!file || std::fseek(file.get(), static_cast<long>(data.offset), SEEK_SET) != 0 ||
      std::fread(to.data(), 1, to.size(), file.get()) != to.size())
    return input_error(fmt::format("external data '{}' cannot be read", data.path));
  return {};
}

}  // namespace driftc::frontend::onnx
