#pragma once

// Purpose:    exp, log, pow, sin and cos in binary64 that give the same bits on every machine: they
//             use +, -, *, /, std::fma and integer conversions only, never libm's functions. For
//             rotary frequencies and for the sampler.
// Threading:  pure functions; any thread, in round-to-nearest mode.
// Invariants: errors against the exact value, as the tests bound them: Exp and Log 1 ulp, Pow 2 ulp
//             (of a normal result), Sin and Cos 1e-15 absolute for |x| <= 2^20.

namespace octavo::base {

// e^x. NaN gives NaN; above 709.78 infinity; below -745.13 +0. Subnormal results are rounded once
// more.
double Exp(double x);

// The natural logarithm. Log(+-0) = -infinity; a negative x or a NaN gives NaN; Log(infinity) =
// infinity.
double Log(double x);

// base^exponent. REQUIRES: base is finite and > 0; exponent is finite (anything else gives NaN).
double Pow(double base, double exponent);

// REQUIRES: |x| <= 2^20, in radians. Beyond that the error grows; beyond 2^30, and for a NaN, the
// result is NaN.
struct SinCosValue {
  double sin;
  double cos;
};
SinCosValue SinCos(double x);
inline double Sin(double x) { return SinCos(x).sin; }
inline double Cos(double x) { return SinCos(x).cos; }

}  // namespace octavo::base
