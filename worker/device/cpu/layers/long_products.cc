// Sums are computed for 8 inputs and 32 units (or rows) at once, which stay in registers: numbers
// of x (or of the kernel), one by one, are multiplied with 32 numbers of dy, a band, that stand
// together. So dx comes out transposed, and is turned in registers before it is written. The places
// that come next are fetched meanwhile, since they are further apart than what the processor
// fetches by itself.
#include "worker/device/cpu/layers/long_products.h"

#include "glog/logging.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/openmp.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::worker {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kBand = 2 * kLanes;
constexpr size_t kSumsAtOnce = 8;
constexpr size_t kInputs = LongProducts::kInputsAtOnce;

// A band has to stay in the first cache, and with more units oneDNN divides sums into parts.
constexpr size_t kLeastUnits = 64;
constexpr size_t kMostUnits = 512;
constexpr size_t kMostRows = 128;
constexpr size_t kLeastInputs = 1024;

#if defined(__x86_64__)

#define MILLRACE_AVX512 __attribute__((target("avx512f")))

bool HasAvx512() {
  const unsigned has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const unsigned wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (has & wanted) == wanted;
}

// Where the number of input i for the product with row k of a band stands: at i * input + k * band.
struct Strides {
  size_t input = 0;
  size_t band = 0;
};

// sums[i * stride + j] = the sum over all k of number (i, k) times number j of row k of the band.
// Meanwhile fetches as many numbers from `next` on, if that is not null.
MILLRACE_AVX512 inline void SumProducts(const float* numbers, Strides strides, const float* band,
                                        size_t band_rows, const float* next, float* sums,
                                        size_t stride) {
  __m512 low[kSumsAtOnce];
  __m512 high[kSumsAtOnce];
#pragma GCC unroll 8
  for (size_t i = 0; i < kSumsAtOnce; ++i) low[i] = high[i] = _mm512_setzero_ps();
  for (size_t k = 0; k < band_rows; ++k, band += kBand) {
    const __m512 first = _mm512_loadu_ps(band);
    const __m512 second = _mm512_loadu_ps(band + kLanes);
    if (next != nullptr && k % 2 == 0) __builtin_prefetch(next + k * kSumsAtOnce);
#pragma GCC unroll 8
    for (size_t i = 0; i < kSumsAtOnce; ++i) {
      const __m512 number = _mm512_set1_ps(numbers[i * strides.input + k * strides.band]);
      low[i] = _mm512_fmadd_ps(number, first, low[i]);
      high[i] = _mm512_fmadd_ps(number, second, high[i]);
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < kSumsAtOnce; ++i) {
    _mm512_storeu_ps(sums + i * stride, low[i]);
    _mm512_storeu_ps(sums + i * stride + kLanes, high[i]);
  }
}

// For shuffles with a mask: without one, gcc 12 warns of its own header.
constexpr __mmask16 kAllNumbers = 0xffff;
constexpr __mmask8 kAllPairs = 0xff;

// Of `a` and `b`, in turn: the first or the second half of each quarter, by numbers or by pairs.
MILLRACE_AVX512 inline __m512 First(__m512 a, __m512 b) {
  return _mm512_maskz_unpacklo_ps(kAllNumbers, a, b);
}
MILLRACE_AVX512 inline __m512 Second(__m512 a, __m512 b) {
  return _mm512_maskz_unpackhi_ps(kAllNumbers, a, b);
}
MILLRACE_AVX512 inline __m512 FirstPairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(
      _mm512_maskz_unpacklo_pd(kAllPairs, _mm512_castps_pd(a), _mm512_castps_pd(b)));
}
MILLRACE_AVX512 inline __m512 SecondPairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(
      _mm512_maskz_unpackhi_pd(kAllPairs, _mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// Of the quarters of `a`, then of `b`: those at even places, or at odd ones.
MILLRACE_AVX512 inline __m512 Even(__m512 a, __m512 b) {
  return _mm512_maskz_shuffle_f32x4(kAllNumbers, a, b, 0x88);
}
MILLRACE_AVX512 inline __m512 Odd(__m512 a, __m512 b) {
  return _mm512_maskz_shuffle_f32x4(kAllNumbers, a, b, 0xdd);
}

// Writes 16 rows that start kBand apart as 16 columns of a matrix whose rows start `stride` apart.
MILLRACE_AVX512 inline void WriteTransposed(const float* rows, size_t stride, float* matrix) {
  __m512 r[kLanes];
  __m512 t[kLanes];
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i) r[i] = _mm512_loadu_ps(rows + i * kBand);
#pragma GCC unroll 8
  for (size_t i = 0; i < kLanes; i += 2) {
    t[i] = First(r[i], r[i + 1]);
    t[i + 1] = Second(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < kLanes; i += 4) {  // Then r[i + k] has column k of each 4 x 4 numbers.
    r[i] = FirstPairs(t[i], t[i + 2]);
    r[i + 1] = SecondPairs(t[i], t[i + 2]);
    r[i + 2] = FirstPairs(t[i + 1], t[i + 3]);
    r[i + 3] = SecondPairs(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) {
    const __m512 even_top = Even(r[k], r[k + 4]);
    const __m512 odd_top = Odd(r[k], r[k + 4]);
    const __m512 even_bottom = Even(r[k + 8], r[k + 12]);
    const __m512 odd_bottom = Odd(r[k + 8], r[k + 12]);
    _mm512_storeu_ps(matrix + k * stride, Even(even_top, even_bottom));
    _mm512_storeu_ps(matrix + (k + 4) * stride, Even(odd_top, odd_bottom));
    _mm512_storeu_ps(matrix + (k + 8) * stride, Odd(even_top, even_bottom));
    _mm512_storeu_ps(matrix + (k + 12) * stride, Odd(odd_top, odd_bottom));
  }
}

// Of 16 inputs, whose values of each row stand at `x`.
MILLRACE_AVX512 void MultiplyValues(const float* x, size_t inputs, const float* by_units,
                                    size_t rows, size_t units, float* gradient) {
  alignas(64) float values[kMostRows * kInputs];
  for (size_t row = 0; row < rows; ++row) {
    _mm512_store_ps(values + row * kInputs, _mm512_loadu_ps(x + row * inputs));
    __builtin_prefetch(x + row * inputs + 2 * kInputs);
  }
  for (size_t i = 0; i < kInputs; i += kSumsAtOnce) {
    for (size_t unit = 0; unit < units; unit += kBand) {
      SumProducts(values + i, {1, kInputs}, by_units + unit * rows, rows,
                  /*next=*/nullptr, gradient + i * units + unit, units);
    }
  }
}

// Of 16 inputs, whose rows of the kernel are given, and 32 rows of dx, which start at `dx`.
MILLRACE_AVX512 void MultiplyKernel(const float* kernel, const float* band, size_t units,
                                    size_t inputs, float* dx) {
  for (size_t row = 0; row < kBand; ++row) {
    __builtin_prefetch(dx + row * inputs + kInputs, /*rw=*/1);
  }
  alignas(64) float sums[kInputs * kBand];
  for (size_t i = 0; i < kInputs; i += kSumsAtOnce) {
    const float* const rows = kernel + i * units;
    SumProducts(rows, {units, 1}, band, units, rows + kInputs * units, sums + i * kBand, kBand);
  }
  WriteTransposed(sums, inputs, dx);
  WriteTransposed(sums + kLanes, inputs, dx + kLanes * inputs);
}

#else

bool HasAvx512() { return false; }
void MultiplyValues(const float*, size_t, const float*, size_t, size_t, float*) {}
void MultiplyKernel(const float*, const float*, size_t, size_t, float*) {}

#endif

}  // namespace

bool LongProducts::IsFor(size_t rows, size_t inputs, size_t units) {
  return HasAvx512() && omp_get_max_threads() == 1 && rows % kBand == 0 && rows <= kMostRows &&
         units % kBand == 0 && units >= kLeastUnits && units <= kMostUnits &&
         inputs % kInputs == 0 && inputs >= kLeastInputs;
}

LongProducts::LongProducts(size_t rows, size_t inputs, size_t units)
    : rows_(rows), inputs_(inputs), units_(units), by_units_(rows * units), by_rows_(rows * units) {
  CHECK(IsFor(rows, inputs, units));
}

void LongProducts::SetOutputGradient(const float* dy) {
  for (size_t row = 0; row < rows_; ++row) {
    float* const unit_bands = by_units_.data() + row * kBand;
    float* const row_band = by_rows_.data() + row / kBand * kBand * units_ + row % kBand;
    for (size_t unit = 0; unit < units_; ++unit) {
      const float gradient = dy[row * units_ + unit];
      unit_bands[unit / kBand * kBand * rows_ + unit % kBand] = gradient;
      row_band[unit * kBand] = gradient;
    }
  }
}

void LongProducts::KernelGradient(const float* x, size_t begin, size_t end, float* gradient) const {
  for (size_t input = begin; input < end; input += kInputs) {
    MultiplyValues(x + input, inputs_, by_units_.data(), rows_, units_,
                   gradient + (input - begin) * units_);
  }
}

void LongProducts::InputGradient(const float* kernel, float* dx) const {
  for (size_t input = 0; input < inputs_; input += kInputs) {
    for (size_t row = 0; row < rows_; row += kBand) {
      MultiplyKernel(kernel + input * units_, by_rows_.data() + row * units_, units_, inputs_,
                     dx + row * inputs_ + input);
    }
  }
}

}  // namespace millrace::worker
