"""Keys and values of sequences that come and go, in pages on the device."""
import collections
import ctypes
import itertools
import math

import numpy

from . import _abi
from .arrays import STORED, as_array, dtype_name, one_of
from .attention import Problem
from .calls import Call
from .compiled import outside_graphs
from .context import Context
from .device_array import Array
from .errors import NoRoomError, UnsupportedError
from .operators import kv_append


class PagedCache:
    """A pool of pages of keys and values, for continuous batching; made by context.kv_cache.

    A sequence is a number that add() gives. It takes pages as it grows, and shares those that it has in common with the
    sequence that it was forked from, until one of them writes to them. keys and values are the Arrays of the pool,
    [pages,heads,page_size,head_dim], to be given to attention with block_table() for what attend() has not.

    heads, head_dim         of the keys; v_head_dim: of the values, None for head_dim
    pages, page_size        pages of the pool, and tokens of each, a power of two from 8
    key_dtype, value_dtype  float32, float16, bfloat16 or quantised blocks (q8_0 ...); value_dtype None: key_dtype
    kv_rotation             "hadamard": keys and values are stored rotated, see vkattn.attention; or two names, of keys and of
                            values
    key_scales, value_scales  of f8_e4m3 and f8_e5m2: "row": appends make one of each token and head; or numbers, broadcast
                            from the right to [heads,1,1]. They are then the Arrays of the same names, else None
    May be used from several threads: its calls take turns, with those of its context.
    """

    def __init__(self, context, heads, head_dim, *, pages, page_size=16, v_head_dim=None, key_dtype="float16",
                 value_dtype=None, kv_rotation=None, key_scales=None, value_scales=None):
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        value_dtype = key_dtype if value_dtype is None else value_dtype
        for name, number in (("heads", heads), ("head_dim", head_dim), ("v_head_dim", v_head_dim), ("pages", pages),
                             ("page_size", page_size)):
            if _abi.whole(ctypes.c_uint32, name, number) == 0:
                raise ValueError(f"{name}: 0, expected at least 1")
        for name, dtype in (("key_dtype", key_dtype), ("value_dtype", value_dtype)):
            if dtype_name(dtype) not in STORED:
                raise TypeError(f"{name}: {dtype_name(dtype)}, expected {one_of(STORED)}")
        if page_size < 8 or page_size & (page_size - 1):
            raise ValueError(f"page_size: {page_size}, expected a power of two from 8")
        self._rotation = _abi.rotations("kv_rotation", kv_rotation)
        self.context, self.page_size = context, page_size
        self.keys = context.empty((pages, heads, page_size, head_dim), key_dtype)
        self.values = context.empty((pages, heads, page_size, v_head_dim), value_dtype)
        for name, pool in (("keys", self.keys), ("values", self.values)):
            _require_bindable(pool, name)
        self._makes = tuple(isinstance(given, str) and given == "row" for given in (key_scales, value_scales))
        self.key_scales, self.value_scales = (
            None if given is None else context.empty((pages, heads, page_size, 1), "float32") if makes else
            context.array(numpy.atleast_1d(numpy.asarray(given, "f4")))
            for given, makes in zip((key_scales, value_scales), self._makes))
        for pool in self._pools():  # whose rows are read before a token has reached them, under a mask
            context.zero(pool)
        self._free = list(range(pages - 1, -1, -1))
        self._users = [0] * pages
        self._pages, self._lengths = {}, {}
        self._numbers = itertools.count()

    @property
    def free_pages(self):
        """Pages that no sequence holds."""
        return len(self._free)

    @property
    def sequences(self):
        """The numbers of all sequences, in the order in which they were made."""
        return list(self._lengths)

    @property
    def nbytes(self):
        """Bytes of device memory."""
        return self.keys.nbytes + self.values.nbytes + sum(
            scales.nbytes for scales in (self.key_scales, self.value_scales) if scales is not None)

    def _pools(self):
        """What every page has its own of."""
        scales = [each for each, makes in zip((self.key_scales, self.value_scales), self._makes) if makes]
        return [self.keys, self.values, *scales]

    @outside_graphs
    def add(self):
        """A new sequence, empty."""
        with self.context.lock:
            sequence = next(self._numbers)
            self._pages[sequence], self._lengths[sequence] = [], 0
            return sequence

    @outside_graphs
    def fork(self, sequence):
        """A new sequence that holds what another holds; nothing is copied."""
        with self.context.lock:
            length, copy = self.length(sequence), self.add()
            self._pages[copy], self._lengths[copy] = list(self._pages[sequence]), length
            for page in self._pages[copy]:
                self._users[page] += 1
            return copy

    @outside_graphs
    def remove(self, sequence):
        """Forgets a sequence."""
        with self.context.lock:
            self.rewind(sequence, 0)
            del self._pages[sequence], self._lengths[sequence]

    def length(self, sequence):
        """The tokens that a sequence holds."""
        number = _abi.whole(ctypes.c_uint64, "sequence", sequence)
        if number not in self._lengths:
            raise ValueError(f"sequence {number}: not in the cache, expected one of {list(self._lengths)}")
        return self._lengths[number]

    @outside_graphs
    def rewind(self, sequence, length):
        """Forgets all tokens of a sequence but its first `length`."""
        with self.context.lock:
            held, length = self.length(sequence), _abi.whole(ctypes.c_int, "length", length)
            if not 0 <= length <= held:
                raise ValueError(f"length: {length}, expected 0 to {held}, what the sequence holds")
            self._lengths[sequence] = length
            while len(self._pages[sequence]) > self._pages_of(length):
                self._release(self._pages[sequence].pop())

    @outside_graphs
    def append(self, sequences, key, value, cu_seqlens=None):
        """Appends tokens to each of some sequences.

        sequences   their numbers, each once
        key, value  [B,heads,L,head_dim] and [B,heads,L,v_head_dim], L tokens of each: float32, float16 or bfloat16
        cu_seqlens  [B+1] int32: key and value are packed, [1,heads,total,...], cu_seqlens[b] to cu_seqlens[b+1] of sequence b
        Raises NoRoomError, and appends nothing, where the pool has too few free pages.
        """
        with self.context.lock:
            self.context.refuse_recording("PagedCache.append")
            sequences = _numbers_of(sequences)
            if len(set(sequences)) != len(sequences):
                raise ValueError(f"sequences: {sequences}, expected each once")
            past = [self.length(sequence) for sequence in sequences]
            counts, cu_seqlens = _counts(sequences, key, "key", cu_seqlens)
            if _shape(value)[:3] != _shape(key)[:3]:
                raise ValueError(f"value: shape {list(_shape(value))}, expected {list(_shape(key)[:3])} and v_head_dim, as key has")
            if max(counts) == 0:
                return
            try:
                self._make_room(sequences, past, counts)
                where = {"past_lengths": past, "block_table": self.block_table(sequences), "cu_seqlens": cu_seqlens,
                         "max_seqlen": max(counts) if cu_seqlens is not None else 0, "context": self.context}
                for rows, pool, rotation, scales, makes in zip((key, value), (self.keys, self.values), self._rotation,
                                                               (self.key_scales, self.value_scales), self._makes):
                    kv_append(rows, pool, rotation=rotation, scales=scales, makes_scales=makes, **where)
            except Exception:
                for sequence, length in zip(sequences, past):
                    self.rewind(sequence, length)
                raise
            for sequence, length, count in zip(sequences, past, counts):
                self._lengths[sequence] = length + count

    @outside_graphs
    def attend(self, query, sequences, cu_seqlens_q=None, *, is_causal=True, return_lse=False, out=None, **options):
        """Attention of queries over what some sequences hold; the last query of each stands at its last token.

        query         [B,Hq,L,head_dim], or with cu_seqlens_q packed, [1,Hq,total,head_dim]
        sequences     the numbers of B sequences
        cu_seqlens_q  [B+1] int32: where the queries of each begin
        options       those of attention
        Returns what attention does, in the kind that the query has.
        """
        with self.context.lock:
            self.context.refuse_recording("PagedCache.attend")
            sequences = _numbers_of(sequences)
            lengths = [self.length(sequence) for sequence in sequences]
            counts, cu_seqlens_q = _counts(sequences, query, "query", cu_seqlens_q)
            arguments = dict(query=query, key=self.keys, value=self.values, enable_gqa=True, is_causal=is_causal,
                             causal_alignment="bottom_right", key_lengths=lengths, block_table=self.block_table(sequences),
                             cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max(counts) if cu_seqlens_q is not None else 0,
                             return_lse=return_lse, out=out, kv_rotation=self._rotation, key_scales=self.key_scales,
                             value_scales=self.value_scales, **options)
            return Problem(arguments, Call(self.context, (("query", query), ("out", out)))).results()

    @outside_graphs
    def block_table(self, sequences):
        """The pages of some sequences [B,N] int32, for attention; -1 after their last. N is a power of two, so that calls
        of many lengths share a plan."""
        with self.context.lock:
            sequences = _numbers_of(sequences)
            for sequence in sequences:
                self.length(sequence)
            pages = [self._pages[sequence] for sequence in sequences]
            most = 1 << (max([1, *map(len, pages)]) - 1).bit_length()
            return numpy.array([each + [-1] * (most - len(each)) for each in pages], "i4")

    def _make_room(self, sequences, past, counts):
        """Takes the pages that an append needs, and copies those that others hold too."""
        new = [self._pages_of(length + count) - self._pages_of(length) for length, count in zip(past, counts)]
        written = collections.Counter(self._pages[sequence][-1] for sequence, length, count in zip(sequences, past, counts)
                                      if count > 0 and length % self.page_size)
        # the last of those that hold a page keeps it
        needed = sum(new) + sum(min(writers, self._users[page] - 1) for page, writers in written.items())
        if needed > len(self._free):
            raise NoRoomError(f"append: {needed} pages are needed, {len(self._free)} are free")
        for sequence, pages, length, count in zip(sequences, new, past, counts):
            if count > 0 and length % self.page_size and self._users[self._pages[sequence][-1]] > 1:
                self._own_last_page(sequence)
            self._pages[sequence] += [self._take() for _ in range(pages)]

    def _pages_of(self, length):
        return (length + self.page_size - 1) // self.page_size

    def _take(self):
        page = self._free.pop()
        self._users[page] = 1
        return page

    def _release(self, page):
        self._users[page] -= 1
        if self._users[page] == 0:
            self._free.append(page)

    def _own_last_page(self, sequence):
        shared, page = self._pages[sequence][-1], self._take()
        try:
            for pool in self._pools():
                self.context.convert(pool[shared], pool[page])
        except Exception:
            self._release(page)
            raise
        self._release(shared)
        self._pages[sequence][-1] = page


def _require_bindable(pool, name):
    """Raises UnsupportedError where kernels cannot reach a whole pool."""
    facts = pool.context.facts
    most = facts["max_storage_buffer_range"] - 256  # what an offset's alignment may take
    if pool.nbytes > most or math.prod(pool.shape) > 2**32:
        raise UnsupportedError(f"pages: {pool.shape[0]}, whose {name} take {pool.nbytes} bytes and {math.prod(pool.shape)} "
                               f"elements, expected at most {most} bytes (maxStorageBufferRange of {facts['name']}) and 2**32 elements")


def _numbers_of(sequences):
    """Sequences as a list of numbers, from a list or from an array."""
    if not hasattr(sequences, "__iter__"):
        raise TypeError(f"sequences: {sequences!r}, expected a list of numbers")
    numbers = [_abi.whole(ctypes.c_uint64, "sequences", sequence) for sequence in sequences]
    if not numbers:
        raise ValueError("sequences: none, expected at least 1")
    return numbers


def _shape(array):
    return tuple(array.shape) if hasattr(array, "shape") else numpy.shape(array)


def _counts(sequences, array, name, cu_seqlens):
    """The tokens of each sequence, and where they begin as int32."""
    shape = _shape(array)
    if len(shape) != 4:
        raise ValueError(f"{name}: {len(shape)} dimensions, expected [B,heads,L,size], or with cu_seqlens [1,heads,total,size]")
    if cu_seqlens is None:
        if shape[0] != len(sequences):
            raise ValueError(f"{name}: shape {list(shape)}, expected {len(sequences)} sequences")
        return [shape[2]] * len(sequences), None
    bounds = as_array(cu_seqlens, "cu_seqlens", ("int32",), "int32")
    host = bounds.download() if isinstance(bounds, Array) else bounds
    counts = numpy.diff(host).tolist()
    if host.shape != (len(sequences) + 1,) or host[0] != 0 or min(counts) < 0 or host[-1] != shape[2]:
        raise ValueError(f"cu_seqlens: {host.tolist()}, expected {len(sequences) + 1} numbers that rise from 0 to {shape[2]}")
    return counts, bounds


def _kv_cache(self, heads, head_dim, *, pages, page_size=16, v_head_dim=None, key_dtype="float16", value_dtype=None,
              kv_rotation=None, key_scales=None, value_scales=None):
    """A PagedCache of this context; see there for the arguments."""
    return PagedCache(self, heads, head_dim, pages=pages, page_size=page_size, v_head_dim=v_head_dim, key_dtype=key_dtype,
                      value_dtype=value_dtype, kv_rotation=kv_rotation, key_scales=key_scales, value_scales=value_scales)


Context.kv_cache = _kv_cache  # handed to contexts, which know nothing of what is made of them
