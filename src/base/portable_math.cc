#include "base/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace octavo::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ln 2 in two parts; the first has 32 significant bits, so that its product with an exponent is
// exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
// Adding and subtracting this rounds |x| < 2^51 to the nearest integer, ties to even.
constexpr double kRoundMagic = 0x1.8p52;

// An unevaluated sum: |low| is at most half an ulp of high.
struct DoubleDouble {
  double high;
  double low;
};

double RoundToInteger(double x) { return (x + kRoundMagic) - kRoundMagic; }

// 2^n for -1022 <= n <= 1023.
double PowerOfTwo(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// Horner's rule; coefficients from the highest degree down.
template <int kCount>
double Polynomial(const double (&coefficients)[kCount], double x) {
  double value = coefficients[0];
  for (int i = 1; i < kCount; ++i) value = value * x + coefficients[i];
  return value;
}

// e^(x + correction) for a tiny correction. Taylor's series to degree 13: for |r| <= ln(2) / 2 the
// rest is below 2^-57.
double ExpOfSum(double x, double correction) {
  static constexpr double kInverseFactorials[] = {
      1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
      1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
      1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5};
  if (std::isnan(x)) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0.0;

  const double n = RoundToInteger(x * 1.4426950408889634);
  const double r = (x - n * kLn2High) - (n * kLn2Low - correction);
  const double y = 1.0 + (r + r * r * Polynomial(kInverseFactorials, r));
  const int exponent = static_cast<int>(n);
  if (exponent > 1023) return y * PowerOfTwo(1023) * 2.0;
  if (exponent < -1021) return y * PowerOfTwo(exponent + 200) * PowerOfTwo(-200);
  return y * PowerOfTwo(exponent);
}

// ln x of a positive, finite x, to about 2^-62 of the result.
DoubleDouble LogOfPositive(double x) {
  // 2 / 23, 2 / 21, .. 2 / 3: atanh's series in s^2, where s^2 <= (3 - 2 sqrt 2)^2 = 0.0295.
  static constexpr double kSeries[] = {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                       2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3};
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  constexpr uint64_t kMantissaMask = (uint64_t{1} << 52) - 1;
  double m = std::bit_cast<double>((bits & kMantissaMask) | (uint64_t{1023} << 52));
  exponent += static_cast<int>(bits >> 52) - 1023;
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }

  // ln m = 2 atanh(s), s = f / (m + 1), carried as s + s_low.
  const double f = m - 1.0;  // exact
  const double denominator = m + 1.0;
  const double denominator_low = m - (denominator - 1.0);
  const double s = f / denominator;
  const double remainder = std::fma(-s, denominator, f);
  const double s_low = (remainder - s * denominator_low) / denominator;
  const double z = s * s;
  const double tail = s * z * Polynomial(kSeries, z) + 2.0 * s_low;

  // n ln2 + 2 s + tail. Where n is not 0 its product is the largest term, so two fast two-sums keep
  // every bit.
  const double n = exponent;
  const double product = n * kLn2High;  // exact
  const double sum = product + 2.0 * s;
  const double sum_low = exponent == 0 ? 0.0 : 2.0 * s - (sum - product);
  const double rest = sum_low + (n * kLn2Low + tail);
  const double high = sum + rest;
  return {high, rest - (high - sum)};
}

}  // namespace

double Exp(double x) { return ExpOfSum(x, 0.0); }

double Log(double x) {
  if (std::isnan(x) || x < 0.0) return kNaN;
  if (x == 0.0) return -kInfinity;
  if (x == kInfinity) return x;
  return LogOfPositive(x).high;
}

double Pow(double base, double exponent) {
  if (!(base > 0.0) || !std::isfinite(base) || !std::isfinite(exponent)) return kNaN;
  const DoubleDouble log = LogOfPositive(base);
  const double product = exponent * log.high;
  if (!(std::fabs(product) < 1e4)) return product > 0.0 ? kInfinity : 0.0;
  const double product_low = std::fma(exponent, log.high, -product) + exponent * log.low;
  return ExpOfSum(product, product_low);
}

SinCosValue SinCos(double x) {
  // Taylor's series; for |r| <= pi / 4 the rest is below 2^-63.
  static constexpr double kSine[] = {
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  static constexpr double kCosine[] = {-1.0 / 6402373705728000.0,
                                       1.0 / 20922789888000.0,
                                       -1.0 / 87178291200.0,
                                       1.0 / 479001600.0,
                                       -1.0 / 3628800.0,
                                       1.0 / 40320.0,
                                       -1.0 / 720.0,
                                       1.0 / 24.0,
                                       -0.5};
  if (!(std::fabs(x) <= 0x1p30)) return {kNaN, kNaN};

  const double n = RoundToInteger(x * 0.6366197723675814);
  // pi / 2 in two parts of 53 bits; the first product and difference are rounded once.
  const double r = std::fma(-n, 0x1.1a62633145c07p-54, std::fma(-n, 0x1.921fb54442d18p0, x));
  const double z = r * r;
  const double sine = r + r * z * Polynomial(kSine, z);
  const double cosine = 1.0 + z * Polynomial(kCosine, z);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace octavo::base
