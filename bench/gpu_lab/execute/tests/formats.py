"""Numbers as registers hold them, rounded exactly by fractions: independent of the executor's arithmetic."""

import math
import struct
from fractions import Fraction


def to_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def half_to_float(bits):
    return struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]


def signed(bits, size=32):
    bits &= (1 << size) - 1
    return bits - (1 << size) if bits >> (size - 1) else bits


def rounded(value, exponent_bits, fraction_bits, toward_zero=False):
    """The bits of an exact value, or of a float that is no number, in a format; to nearest, ties to even."""
    sign_bit = 1 << (exponent_bits + fraction_bits)
    most = (1 << exponent_bits) - 1
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return most << fraction_bits | 1 << (fraction_bits - 1)
        return most << fraction_bits | (sign_bit if value < 0 else 0)
    if value == 0:
        return sign_bit if isinstance(value, float) and math.copysign(1, value) < 0 else 0
    exact = abs(Fraction(value))
    sign = sign_bit if value < 0 else 0
    exponent = max(exact.numerator.bit_length() - exact.denominator.bit_length(), 2 - (1 << (exponent_bits - 1)) - 1)
    least = 2 - (1 << (exponent_bits - 1))
    while Fraction(2) ** exponent > exact and exponent > least:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= exact:
        exponent += 1
    exponent = max(exponent, least)
    scaled = exact / Fraction(2) ** (exponent - fraction_bits)
    whole = int(scaled) if toward_zero else round(scaled)  # round() takes ties to even
    if whole >> (fraction_bits + 1):
        whole >>= 1
        exponent += 1
    if whole >> fraction_bits == 0:
        return sign | whole
    if exponent - least + 1 >= most:
        return sign | ((most - 1) << fraction_bits | (1 << fraction_bits) - 1 if toward_zero else most << fraction_bits)
    return sign | (exponent - least + 1) << fraction_bits | whole & ((1 << fraction_bits) - 1)


def f32(value):
    return rounded(value, 8, 23)


def f16(value, toward_zero=False):
    return rounded(value, 5, 10, toward_zero)


def is_nan32(bits):
    return bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF != 0


def is_nan16(bits):
    return bits & 0x7C00 == 0x7C00 and bits & 0x3FF != 0


def flushed(bits):
    """Without denormals, as RADV's mode has f32."""
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def product_sum(a, b, c):
    """a * b + c, exact; floats that are no numbers by IEEE's rules."""
    if all(math.isfinite(x) for x in (a, b, c)):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        return exact if exact != 0 else a * b + c
    return a * b + c
