"""The numbers in ggml's super-blocks of 256."""
import numpy

ELEMENTS = 256


def dequantised(blocks, bits):
    """[n, 256] float32 of [n, bytes]; bits of a number: 4, 5 or 6, of q4_K, q5_K and q6_K."""
    return _six_bits(blocks) if bits == 6 else _four_or_five_bits(blocks, bits)


def _halves(blocks, at):
    return numpy.ascontiguousarray(blocks[:, at:at + 2]).view("f2").astype("f4")[:, :, None]


def _four_or_five_bits(blocks, bits):
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    low, high, both = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = numpy.concatenate([low & 63, both & 15 | low >> 6 << 4], axis=1)[:, :, None].astype("f4")
    minimums = numpy.concatenate([high & 63, both >> 4 | high >> 6 << 4], axis=1)[:, :, None].astype("f4")
    halves = blocks[:, -128:].reshape(-1, 4, 1, 32) >> numpy.array([0, 4], "u1").reshape(1, 1, 2, 1) & 15
    numbers = halves.reshape(-1, 8, 32)
    if bits == 5:
        numbers = numbers | (blocks[:, 16:48].reshape(-1, 1, 32) >> numpy.arange(8, dtype="u1").reshape(1, 8, 1) & 1) << 4
    values = _halves(blocks, 0) * scales * numbers.astype("f4") - _halves(blocks, 2) * minimums
    return values.reshape(-1, ELEMENTS)


def _six_bits(blocks):
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> numpy.array([0, 4], "u1").reshape(1, 1, 2, 1) & 15
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> numpy.array([0, 2, 4, 6], "u1").reshape(1, 1, 4, 1) & 3
    numbers = (low.reshape(-1, 16, 16) | high.reshape(-1, 16, 16) << 4).astype("f4") - 32
    scales = numpy.ascontiguousarray(blocks[:, 192:208]).view("i1").astype("f4")[:, :, None]
    return (_halves(blocks, 208) * scales * numbers).reshape(-1, ELEMENTS)
