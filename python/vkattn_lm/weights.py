"""Where weights come from: a file's rows, onto the device, a few at a time."""
import dataclasses
import itertools
import math

import numpy

from .errors import ModelError

_AT_ONCE = 1 << 20  # numbers that are on the host at a time
_ALIGNMENT = 16     # of a layer's weights in a buffer, in bytes


def held_dtype(stored, offset=0.0, in_blocks=True):
    """What load_weight holds it in."""
    if in_blocks and stored.block_dtype is not None and len(stored.shape) == 2 and not offset:
        return stored.block_dtype
    return "float32" if offset else stored.dtype


def load_weight(context, stored, offset=0.0, in_blocks=True, array=None):
    """A weight of a file as an Array on the device, of its shape; offset is added to each number. array: where it shall lie, of
    held_dtype.

    The one place where weights are loaded: matrices in blocks that linear takes stay so (in_blocks), and others become float16, row by row.
    """
    if not 1 <= len(stored.shape) <= 2 or 0 in stored.shape:
        raise ModelError(f"{stored.where}: shape {list(stored.shape)}, expected a vector or a matrix")
    dtype = held_dtype(stored, offset, in_blocks)
    if array is None:
        array = context.empty(stored.shape, dtype)
    if dtype == stored.block_dtype:
        return _load_blocks(array, stored)
    matrix = array.reshape(1, -1) if array.ndim == 1 else array
    step = max(_AT_ONCE // matrix.shape[1], 1)
    for first in range(0, len(matrix), step):
        rows = stored.rows(first, min(first + step, len(matrix)))
        if rows.shape != (min(step, len(matrix) - first), matrix.shape[1]):
            raise ModelError(f"{stored.where}: rows of shape {list(rows.shape)}, expected {matrix.shape[1]} numbers each")
        matrix[first:first + len(rows)].assign(_as_held(rows, array.dtype, offset, stored.where))
    return array


def _load_blocks(array, stored):
    step = max(_AT_ONCE // array.shape[1], 1)
    for first in range(0, len(array), step):
        end = min(first + step, len(array))
        array[first:end].assign(stored.blocks(first, end))
    return array


def _as_held(rows, dtype, offset, where):
    if offset:
        rows = rows.astype("f4") + numpy.float32(offset)
    if dtype == "bfloat16" and rows.dtype == numpy.float32:  # which has all its numbers
        return (rows.view("u4") >> 16).astype("u2").view([("bfloat16", "=u2")])
    if dtype == "float16" and rows.dtype != numpy.float16:
        with numpy.errstate(over="ignore", invalid="ignore"):
            held = rows.astype("f2")
        if not numpy.isfinite(held).all():
            raise ModelError(f"{where}: holds numbers beyond float16's 65504, expected smaller ones")
        return held
    return rows


class Weights:
    """The weights of a model by GGUF's names, each loaded once; at the end none may be left over."""

    def __init__(self, context, source, config, progress):
        self.context, self.source, self.config, self.progress = context, source, config, progress
        self._names = source.names()
        self._left = set(self._names)
        self.nbytes = 0

    def take(self, name, *shape, offset=0.0, in_blocks=True):
        """A weight that there must be, of this shape; None for a size that may be any."""
        array = load_weight(self.context, self._stored(name, *shape), offset, in_blocks)
        self._loaded(array, name)
        return array

    def take_together(self, *rows_of, ins=()):
        """Weights (name, rows), each of this shape: rows and ins. Neighbours that are held in one type lie behind each other in one
        buffer: layers then make one product of them."""
        return self._take_together(rows_of, ins)[0]

    def take_pair(self, first, second, *shape):
        """Two weights of this shape as one [2, *shape], or as a list of both, where they are held in two types."""
        arrays, memory = self._take_together([(first, shape[0]), (second, shape[0])], shape[1:])
        return arrays if memory is None else memory.reshape(2, *shape)

    def take_rows(self, *parts, ins):
        """Parts (name, rows, runs) of matrices: of those rows the runs (first, end), behind each other; None: all. Returns them, and
        the memory that they fill; None: they lie apart."""
        stored = [self._stored(name, rows, *ins) for name, rows, _ in parts]
        picked = [each if runs is None else _picked(each, runs) for each, (_, _, runs) in zip(stored, parts)]
        return self._load_together([(name, each) for (name, _, _), each in zip(parts, picked)], ins)

    def taps(self, name, channels, kernel):
        """Those of a convolution [channels, kernel], which files may hold with dimensions of 1 among them."""
        return self.context.array(self.numbers(name, channels * kernel).reshape(channels, kernel))

    def numbers(self, name, count):
        """A weight of so many numbers on the host, float32, in whatever dimensions a file has it."""
        if name not in self._names:
            raise ModelError(f"{self.source.where}: {name} is missing, expected {count} numbers")
        stored = self.source.stored(name)
        if math.prod(stored.shape) != count:
            raise ModelError(f"{stored.where}: shape {list(stored.shape)}, expected {count} numbers")
        rows = stored.rows(0, count // stored.shape[-1])
        self._left.discard(name)
        self.nbytes += 4 * count
        self.progress.update(1)
        return numpy.ascontiguousarray(rows, "f4").reshape(-1)

    def _take_together(self, rows_of, ins):
        """The weights, and the memory that they fill; None: they lie apart."""
        return self._load_together([(name, self._stored(name, rows, *ins)) for name, rows in rows_of], ins)

    def _load_together(self, given, ins):
        """given: (name, what is loaded of it)."""
        stored, memory, places = [each for _, each in given], None, []
        for dtype, run in itertools.groupby(stored, held_dtype):
            rows = [each.shape[0] for each in run]
            memory = self.context.empty((sum(rows), *ins), dtype)
            ends = list(itertools.accumulate(rows))
            places += [memory[end - count:end] for end, count in zip(ends, rows)]
        if any(place.bound_byte % _ALIGNMENT for place in places):
            memory, places = None, [None] * len(stored)
        if len({held_dtype(each) for each in stored}) > 1:
            memory = None
        arrays = [load_weight(self.context, each, array=place) for each, place in zip(stored, places)]
        for array, (name, _) in zip(arrays, given):
            self._loaded(array, name)
        return arrays, memory

    def _stored(self, name, *shape):
        if name not in self._names:
            raise ModelError(f"{self.source.where}: {name} is missing, expected a weight of {_sizes(shape)}")
        stored = self.source.stored(name)
        if len(stored.shape) != len(shape) or any(want not in (None, size) for want, size in zip(shape, stored.shape)):
            raise ModelError(f"{stored.where}: shape {list(stored.shape)}, expected {_sizes(shape)}")
        if math.prod(stored.shape) >= 2**31:
            raise ModelError(f"{stored.where}: shape {list(stored.shape)}, expected fewer than 2**31 numbers")
        return stored

    def _loaded(self, array, *names):
        first = self._left.intersection(names)  # parts of a matrix come one by one
        self._left.difference_update(names)
        self.nbytes += array.nbytes
        self.progress.update(len(first))

    def maybe(self, name, *shape):
        return self.take(name, *shape) if self.has(name) else None

    def take_heads(self, keys, values, heads, key_size, value_size, width):
        """A matrix [heads * (key_size + value_size), width] of the two that newer GGUF files hold in its place: of each head
        [width, key_size], the keys' rows as columns, and [value_size, width]."""
        parts = self._stored(keys, heads, width, key_size), self._stored(values, heads, value_size, width)
        size, dtypes = key_size + value_size, {part.dtype for part in parts}
        array = self.context.empty((heads * size, width), "float16" if dtypes == {"float16"} else "float32")
        for head in range(heads):
            of_keys, of_values = (part.rows(head * part.shape[1], (head + 1) * part.shape[1]) for part in parts)
            rows = numpy.concatenate([of_keys.T, of_values]).astype("f4")
            array[head * size:(head + 1) * size].assign(_as_held(rows, array.dtype, 0.0, parts[0].where))
        self._loaded(array, keys, values)
        return array

    def has(self, name):
        return name in self._names

    def norm(self, name, size):
        return self.take(name, size, offset=self.config.norm_offset)

    def check_none_left(self):
        if self._left:
            first = min(self._left)
            raise ModelError(f"{self.source.where}: {first[:80]} is not computed{_more(len(self._left) - 1)}, expected a model "
                             f"of {self.config.name} without it")


def _picked(stored, runs):
    """These runs of a weight's rows, behind each other."""
    ends = list(itertools.accumulate(end - first for first, end in runs))

    def of(read):
        def picked(first, end):
            found = []
            for (start, stop), last in zip(runs, ends):
                begin = last - (stop - start)
                if begin < end and first < last:
                    found.append(read(start + max(first - begin, 0), start + min(end, last) - begin))
            return numpy.concatenate(found)
        return picked
    return dataclasses.replace(stored, shape=(ends[-1], *stored.shape[1:]), rows=of(stored.rows),
                               blocks=stored.blocks and of(stored.blocks))


def _sizes(shape):
    return "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"


def _more(count):
    return f", nor are {count} more" if count else ""
