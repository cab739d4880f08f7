// Text of one CUDA C++ kernel: an indenting writer, and a builder that collects the parameters of
// the entry together with the arguments of its launch, so that the two cannot disagree.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/lowered_kernel.h"

namespace driftc::codegen {

class CudaWriter {
 public:
  void line(std::string_view text);     // "" gives an empty line; text may hold several lines
  void comment(std::string_view text);  // one "// " per line of text
  void open(std::string_view head);     // "for (...)" -> "for (...) {", indents
  void close(std::string_view tail = "}");
  void otherwise();                                                     // "} else {"
  void loop(std::string_view head, const std::function<void()>& body);  // open, body, close
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

// A device function before the entry; one that nothing calls is left out of the source. Without a
// name (types) it always stays.
struct DeviceFunction {
  std::string name, text;
};

class KernelBuilder {
 public:
  // `wide`: element offsets need 64 bits. index_t is int or long long accordingly.
  KernelBuilder(std::string entry, bool wide) : entry_(std::move(entry)), wide_(wide) {}

  bool wide() const { return wide_; }
  const std::string& entry() const { return entry_; }

  // Each returns the name to use in the body. Asking twice for one pointer gives the same
  // parameter. An operand is called in<index> unless named.
  std::string operand(int index, std::string_view element = "float", std::string_view name = "");
  std::string prepared(int index, std::string_view name);
  std::string result(std::string_view element = "float");
  std::string workspace(int index, std::string_view name, std::string_view element, bool writes);
  std::string integer(std::string_view name, std::int64_t value);  // an index_t
  std::string real(std::string_view name, float value);

  void describe(std::string_view text) { about_ += text; }  // the comment above the entry
  // A function that is there already, by name, is not added again.
  void prelude(const std::vector<DeviceFunction>& functions);
  CudaWriter& body() { return body_; }

  // `at_most`: the bound on threads that the source names, for blocks of several sizes; 0: those of
  // `block`.
  Launch finish(std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                std::uint32_t at_most = 0) const;

 private:
  std::string pointer(Argument::Kind kind, int index, std::string name, const std::string& type);

  std::string entry_;
  bool wide_;
  std::string about_;
  std::vector<DeviceFunction> prelude_;
  CudaWriter body_;
  std::vector<Argument> arguments_;
  std::vector<std::string> parameters_;  // declarations, parallel to arguments_
};

}  // namespace driftc::codegen
