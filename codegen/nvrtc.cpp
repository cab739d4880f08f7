#include "codegen/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>

#include "codegen/nvrtc_api.h"
#include "ir/support/hash.h"

namespace driftc::codegen {

struct Nvrtc::Api : NvrtcApi {};

namespace {

const LibrarySpec& nvrtc_spec() {
  static const LibrarySpec spec{
      "NVRTC",
      {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
      {"libnvrtc-builtins.so.*"},
      "`./dev demo` installs it (the CUDA toolkit's, or the PyPI wheel nvidia-cuda-nvrtc); "
      "DRIFTC_LIBRARY_PATH names a folder that has libnvrtc.so"};
  return spec;
}

// Owns a program between create and destroy.
class ProgramHandle {
 public:
  explicit ProgramHandle(const Nvrtc::Api& api) : api_(api) {}
  ~ProgramHandle() {
    if (program) api_.destroy(&program);
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;
  NvrtcProgram* program = nullptr;

 private:
  const Nvrtc::Api& api_;
};

// Options whose only effect is on numbers: the contract of every kernel is that they keep their
// defaults.
bool changes_numerics(std::string option) {
  std::replace(option.begin(), option.end(), '_', '-');
  std::size_t dashes = option.find_first_not_of('-');
  std::string_view bare =
      dashes == std::string::npos ? std::string_view() : std::string_view(option).substr(dashes);
  for (std::string_view word :
       {"use-fast-math", "fast-math", "fmad", "ftz", "prec-div", "prec-sqrt", "Ofast"})
    if (bare.starts_with(word)) return true;
  return bare.find("-fmad") != std::string_view::npos;
}

std::string line_of(const std::string& text, int number) {
  std::size_t begin = 0;
  for (int line = 1; line < number; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return {};
    ++begin;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

// NVRTC's log says "name.cu(12): error: ..."; the first such place becomes the diagnostic's.
Diagnostic compile_error(const CompileRequest& request, const std::string& file,
                         const std::string& status, const std::string& log) {
  Diagnostic d =
      internal_error(fmt::format("NVRTC rejects kernel '{}' ({})", request.name, status));
  std::size_t begin = 0;
  while (begin < log.size()) {
    std::size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = std::string_view(log).substr(begin, end - begin);
    std::size_t open = line.find(file + "(");
    if (open != std::string_view::npos && d.place.line == 0 &&
        line.find("error") != std::string_view::npos) {
      std::size_t digit = open + file.size() + 1;
      int number = 0;
      while (digit < line.size() && std::isdigit(static_cast<unsigned char>(line[digit])) &&
             number < 100000000)
        number = number * 10 + (line[digit++] - '0');
      d.place = {file, number, 0};
      d.source_line = line_of(request.source, number);
    }
    if (!line.empty() && d.notes.size() < 20) d.notes.emplace_back(line);
    begin = end + 1;
  }
  return d;
}

}  // namespace

std::string normalised_target(const std::string& target, bool machine_code) {
  std::size_t digits = target.find_first_of("0123456789");
  return (machine_code ? "sm_" : "compute_") +
         (digits == std::string::npos ? target : target.substr(digits));
}

std::string request_key(const CompileRequest& request) {
  FieldHasher hasher;
  hasher.add("driftc-ptx-1")
      .add(request.source)
      .add(normalised_target(request.target, request.machine_code));
  for (const std::string& option : request.options) hasher.add(option);
  return hasher.hex128();
}

Result<Nvrtc> Nvrtc::load(const Settings& settings, LibraryReport* report) {
  DRIFTC_TRY(library, open_library(nvrtc_spec(), settings, report));
  auto api = std::make_shared<Api>();
  api->library = library;
  auto bind = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(library.symbol(name));
    return pointer != nullptr;
  };
  std::string missing;
#define NVRTC_FUNCTION(field, symbol, result, parameters) \
  if (!bind(api->field, #symbol) && missing.empty()) missing = #symbol;
#include "codegen/nvrtc_functions.def"
  if (!missing.empty())
    return unavailable(fmt::format("{} is no usable NVRTC: it has no {}", library.path(), missing),
                       nvrtc_spec().hint);
  int major = 0, minor = 0;
  if (api->version_numbers(&major, &minor) != 0)
    return unavailable(
        fmt::format("{} is no usable NVRTC: it does not tell its version", library.path()),
        nvrtc_spec().hint);
  api->version = fmt::format("{}.{}", major, minor);
  return Nvrtc(std::move(api));
}

const std::string& Nvrtc::version() const { return api_->version; }
const std::string& Nvrtc::path() const { return api_->library.path(); }

Result<CompiledPtx> Nvrtc::compile(const CompileRequest& request) const {
  for (const std::string& option : request.options)
    if (changes_numerics(option))
      return internal_error(
          fmt::format("kernel '{}': NVRTC option {} changes results and is never passed",
                      request.name, option));
  std::vector<std::string> options = {
      "--gpu-architecture=" + normalised_target(request.target, request.machine_code),
      "--fmad=false", "--std=c++17", "-default-device"};
  if (request.machine_code) options.emplace_back("--ptxas-options=-v");
  options.insert(options.end(), request.options.begin(), request.options.end());
  std::vector<const char*> raw;
  for (const std::string& option : options) raw.push_back(option.c_str());

  std::string file = request.name + ".cu";
  ProgramHandle handle(*api_);
  int status =
      api_->create(&handle.program, request.source.c_str(), file.c_str(), 0, nullptr, nullptr);
  if (status != 0)
    return internal_error(fmt::format("nvrtcCreateProgram fails for kernel '{}': {}", request.name,
                                      api_->error_text(status)));
  status = api_->compile(handle.program, static_cast<int>(raw.size()), raw.data());
  CompiledPtx out;
  std::size_t size = 0;
  if (api_->log_size(handle.program, &size) == 0 && size > 1) {
    out.log.resize(size);
    api_->log(handle.program, out.log.data());
    out.log.resize(std::char_traits<char>::length(out.log.c_str()));
  }
  if (status != 0) return compile_error(request, file, api_->error_text(status), out.log);
  if ((status = api_->ptx_size(handle.program, &size)) == 0) {
    out.ptx.resize(size);
    status = api_->ptx(handle.program, out.ptx.data());
  }
  if (status != 0)
    return internal_error(fmt::format("NVRTC gives no PTX for kernel '{}': {}", request.name,
                                      api_->error_text(status)));
  while (!out.ptx.empty() && out.ptx.back() == '\0')
    out.ptx.pop_back();  // the size counts the final NUL
  out.name = request.name;
  out.compiler = "nvrtc " + api_->version;
  out.key = request_key(request);
  return out;
}

}  // namespace driftc::codegen
