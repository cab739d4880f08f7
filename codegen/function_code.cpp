#include "codegen/function_code.h"

#include <fmt/format.h>

#include <bit>
#include <memory>

#include "ir/function_steps.h"

namespace driftc::codegen {
namespace {

using ir::Function;

template <class T>
constexpr bool kDouble = sizeof(T) == 8;

// NaN is the canonical one.
template <class T>
std::string literal(T value) {
  if constexpr (kDouble<T>) {
    const auto bits = value == value ? std::bit_cast<std::uint64_t>(value) : 0x7ff8000000000000u;
    return fmt::format("__longlong_as_double(0x{:016x}ll)", bits);
  } else {
    const auto bits = value == value ? std::bit_cast<std::uint32_t>(value) : kCanonicalNanBits;
    return fmt::format("__uint_as_float(0x{:08x}u)", bits);
  }
}

template <class T>
DeviceFunction exp_function() {
  const ir::ExpTable<T>& table = ir::exp_table<T>();
  const char* type = kDouble<T> ? "double" : "float";
  auto text = [](const ir::ExpArgument<T>& a) {
    const std::string sign = a.negated ? "-" : "";
    return sign + (a.reg == ir::ExpRegister::kConstant ? literal(a.constant)
                                                       : std::string(ir::name_of(a.reg)));
  };
  const std::string name = kDouble<T> ? "exp64_by_steps" : "exp_by_steps";
  CudaWriter w;
  w.comment("exp(x) by the step table of ir/exp_steps.h: the interpreter runs the same steps.");
  w.open(fmt::format("static __device__ __forceinline__ {0} {1}({0} x)", type, name));
  w.line(fmt::format("if (x != x) return {};", literal(std::numeric_limits<T>::quiet_NaN())));
  w.line(fmt::format("if (x > {}) return {};", literal(table.overflow_above),
                     literal(std::numeric_limits<T>::infinity())));
  w.line(fmt::format("if (x < {}) return {};", literal(table.underflow_below),
                     kDouble<T> ? "0.0" : "0.0f"));
  w.line(fmt::format("{} t, k, r, p;", type));
  for (const auto& step : table.steps)
    w.line(fmt::format("{} = {}({}, {}, {});", ir::name_of(step.to),
                       kDouble<T> ? "__fma_rn" : "__fmaf_rn", text(step.a), text(step.b),
                       text(step.c)));
  if constexpr (kDouble<T>) {
    w.line(fmt::format("const long long n = __double_as_longlong(t) - __double_as_longlong({});",
                       literal(table.magic)));
    w.line(
        "const long long h = n >> 1;  // 2^n in two steps, so that each factor is a normal number");
    auto power = [&](std::string_view e) {
      return fmt::format("__longlong_as_double((long long)({} + {}) << {})", e, table.exponent_bias,
                         table.fraction_bits);
    };
    w.line(fmt::format("return __dmul_rn(__dmul_rn(p, {}), {});", power("h"), power("n - h")));
  } else {
    w.line(fmt::format("const int n = (int)(__float_as_uint(t) - __float_as_uint({}));",
                       literal(table.magic)));
    w.line("const int h = n >> 1;  // 2^n in two steps, so that each factor is a normal number");
    auto power = [&](std::string_view e) {
      return fmt::format("__uint_as_float((unsigned)({} + {}) << {})", e, table.exponent_bias,
                         table.fraction_bits);
    };
    w.line(fmt::format("return __fmul_rn(__fmul_rn(p, {}), {});", power("h"), power("n - h")));
  }
  w.close();
  return {name, w.text()};
}

// The machine that prints (ir/function_steps.h): every step is a line, its result a name.
struct Lines {
  CudaWriter w;
  int names = 0;
};

template <class T>
struct RealText {
  std::string text;
};
template <class T>
struct IntText {
  std::string text;
};
struct BoolText {
  std::string text;
};

template <class T>
class TextSteps {
 public:
  using Real = RealText<T>;
  using Int = IntText<T>;
  using Bool = BoolText;
  static constexpr bool kDouble = codegen::kDouble<T>;

  explicit TextSteps(Lines& lines) : lines_(lines) {}

  Real real(double c) { return {literal(static_cast<T>(c))}; }
  Real add(const Real& a, const Real& b) { return call(kDouble ? "__dadd_rn" : "__fadd_rn", a, b); }
  Real sub(const Real& a, const Real& b) { return call(kDouble ? "__dsub_rn" : "__fsub_rn", a, b); }
  Real mul(const Real& a, const Real& b) { return call(kDouble ? "__dmul_rn" : "__fmul_rn", a, b); }
  Real div(const Real& a, const Real& b) { return call(kDouble ? "__ddiv_rn" : "__fdiv_rn", a, b); }
  Real fma(const Real& a, const Real& b, const Real& c) {
    return real_line("{}({}, {}, {})", kDouble ? "__fma_rn" : "__fmaf_rn", a.text, b.text, c.text);
  }
  Real sqrt(const Real& a) {
    return real_line("{}({})", kDouble ? "__dsqrt_rn" : "__fsqrt_rn", a.text);
  }
  Real exp(const Real& a) {
    return real_line("{}({})", kDouble ? "exp64_by_steps" : "exp_by_steps", a.text);
  }
  Real abs(const Real& a) { return from_bits(mask(bits(a), integer(magnitude_bits()))); }
  Real neg(const Real& a) { return real_line("-{}", a.text); }
  Real with_sign_of(const Real& a, const Real& sign) {
    const Int of = mask(bits(sign), integer(~magnitude_bits()));
    return from_bits(int_line("{} | {}", bits(abs(a)).text, of.text));
  }
  Bool less(const Real& a, const Real& b) { return bool_line("{} < {}", a.text, b.text); }
  Bool equal(const Real& a, const Real& b) { return bool_line("{} == {}", a.text, b.text); }
  Bool is_nan(const Real& a) { return bool_line("{0} != {0}", a.text); }
  Bool both(const Bool& a, const Bool& b) { return bool_line("{} && {}", a.text, b.text); }
  Bool either(const Bool& a, const Bool& b) { return bool_line("{} || {}", a.text, b.text); }
  Bool no(const Bool& a) { return bool_line("!{}", a.text); }
  Real select(const Bool& c, const Real& a, const Real& b) {
    return real_line("{} ? {} : {}", c.text, a.text, b.text);
  }
  Int bits(const Real& a) {
    return int_line("{}({})", kDouble ? "__double_as_longlong" : "__float_as_int", a.text);
  }
  Real from_bits(const Int& a) {
    return real_line("{}({})", kDouble ? "__longlong_as_double" : "__int_as_float", a.text);
  }
  Real from_int(const Int& a) {
    return real_line("{}({})", kDouble ? "__ll2double_rn" : "__int2float_rn", a.text);
  }
  Int integer(std::int64_t c) {
    return {kDouble ? fmt::format("0x{:016x}ll", static_cast<std::uint64_t>(c))
                    : fmt::format("(int)0x{:08x}u", static_cast<std::uint32_t>(c))};
  }
  Int plus(const Int& a, const Int& b) { return wrapping("+", a, b); }
  Int minus(const Int& a, const Int& b) { return wrapping("-", a, b); }
  Int mask(const Int& a, const Int& b) { return int_line("{} & {}", a.text, b.text); }
  Int shift_left(const Int& a, int by) {
    return int_line("({0})(({1}){2} << {3})", int_type(), unsigned_type(), a.text, by);
  }
  Int shift_right(const Int& a, int by) { return int_line("{} >> {}", a.text, by); }

  TextSteps<double> wide() { return TextSteps<double>(lines_); }
  RealText<double> widen(const Real& a) { return wide().real_line("(double){}", a.text); }
  Real narrow(const RealText<double>& a) { return real_line("__double2float_rn({})", a.text); }

  template <class... A>
  Real real_line(fmt::format_string<const A&...> form, const A&... args) {
    return {line(kDouble ? "double" : "float", fmt::format(form, args...))};
  }

 private:
  static constexpr const char* int_type() { return kDouble ? "long long" : "int"; }
  static constexpr const char* unsigned_type() {
    return kDouble ? "unsigned long long" : "unsigned";
  }
  static constexpr std::int64_t magnitude_bits() {
    return kDouble ? 0x7fffffffffffffffLL : 0x7fffffffLL;
  }
  std::string line(std::string_view type, const std::string& expression) {
    const std::string name = fmt::format("{}{}",
                                         type == "bool"                        ? "b"
                                         : type == "float" || type == "double" ? "r"
                                                                               : "n",
                                         lines_.names++);
    lines_.w.line(fmt::format("const {} {} = {};", type, name, expression));
    return name;
  }
  template <class... A>
  Int int_line(fmt::format_string<const A&...> form, const A&... args) {
    return {line(int_type(), fmt::format(form, args...))};
  }
  template <class... A>
  Bool bool_line(fmt::format_string<const A&...> form, const A&... args) {
    return {line("bool", fmt::format(form, args...))};
  }
  Real call(const char* name, const Real& a, const Real& b) {
    return real_line("{}({}, {})", name, a.text, b.text);
  }
  Int wrapping(const char* sign, const Int& a, const Int& b) {
    return int_line("({0})(({1}){2} {3} ({1}){4})", int_type(), unsigned_type(), a.text, sign,
                    b.text);
  }

  Lines& lines_;
};

using Text = TextSteps<float>;

// The result of the function whose arguments are called as given.
Text::Real steps_of(Function function, Lines& lines, const std::vector<std::string>& names) {
  ir::FunctionSteps<Text> f{Text(lines)};
  std::vector<Text::Real> a;
  for (const std::string& name : names) a.push_back({name});
  switch (function) {
    case Function::kSqrt:
      return f.sqrt(a[0]);
    case Function::kExp:
      return f.exp(a[0]);
    case Function::kLog:
      return f.log(a[0]);
    case Function::kErf:
      return f.erf(a[0]);
    case Function::kAbs:
      return f.abs(a[0]);
    case Function::kNeg:
      return f.neg(a[0]);
    case Function::kSigmoid:
      return f.sigmoid(a[0]);
    case Function::kTanh:
      return f.tanh(a[0]);
    case Function::kSoftplus:
      return f.softplus(a[0]);
    case Function::kGelu:
      return f.gelu(a[0]);
    case Function::kGeluTanh:
      return f.gelu_tanh(a[0]);
    case Function::kElu:
      return f.elu(a[0], a[1]);
    case Function::kLeakyRelu:
      return f.leaky_relu(a[0], a[1]);
    case Function::kHardSigmoid:
      return f.hard_sigmoid(a[0], a[1], a[2]);
    case Function::kHardSwish:
      return f.hard_swish(a[0]);
    case Function::kRoundF16:
      return f.round_f16(a[0]);
    case Function::kRoundBf16:
      return f.round_bf16(a[0]);
    case Function::kRoundF32:
      return f.round_f32(a[0]);
    case Function::kPrelu:
      return f.prelu(a[0], a[1]);
    case Function::kMax:
      return f.max(a[0], a[1]);
    case Function::kMin:
      return f.min(a[0], a[1]);
    case Function::kPow:
      return f.pow(a[0], a[1]);
  }
  return a[0];
}

}  // namespace

std::vector<DeviceFunction> exp_prelude() { return {exp_function<float>()}; }

std::string function_name(Function function) {
  return function == Function::kExp ? "exp_by_steps" : std::string(ir::info(function).name) + "_of";
}

std::vector<DeviceFunction> function_prelude(Function function) {
  if (function == Function::kExp) return exp_prelude();
  const ir::FunctionInfo& row = ir::info(function);
  static constexpr const char* kOperands[] = {"x", "y"};
  static constexpr const char* kScalars[] = {"alpha", "beta"};
  std::vector<std::string> names;
  for (int i = 0; i < row.operands; ++i) names.emplace_back(kOperands[i]);
  for (int i = 0; i < row.scalars; ++i) names.emplace_back(kScalars[i]);
  std::string parameters;
  for (const std::string& name : names)
    parameters += (parameters.empty() ? "float " : ", float ") + name;
  Lines lines;
  lines.w.comment(fmt::format(
      "{} by the steps of ir/function_steps.h: the interpreter runs the same ones.", row.name));
  lines.w.open(fmt::format("static __device__ __forceinline__ float {}({})",
                           function_name(function), parameters));
  const Text::Real result = steps_of(function, lines, names);
  lines.w.line(fmt::format("return {};", result.text));
  lines.w.close();
  std::vector<DeviceFunction> out;
  const std::string text = lines.w.text();
  if (text.find("exp64_by_steps(") != std::string::npos) out.push_back(exp_function<double>());
  if (text.find("exp_by_steps(") != std::string::npos) out.push_back(exp_function<float>());
  out.push_back({function_name(function), text});
  return out;
}

}  // namespace driftc::codegen
