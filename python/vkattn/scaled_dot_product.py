"""torch.nn.functional.scaled_dot_product_attention, argument for argument."""
import math

import numpy

from . import _abi
from .arrays import FLOATS, MASKS, as_array, dtype_of, float32_of, is_contiguous, numpy_dtype, one_of, repeated
from .attention import Problem
from .calls import Call
from .compiled import outside_graphs
from .device_array import Array

_LEAST_BIAS = numpy.float32(-5e37)  # little less hides a key in the library, which no finite bias does in PyTorch


@outside_graphs
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                 enable_gqa=False):
    """PyTorch's function of this name: the same arguments, the same meaning, the same shapes accepted and refused.

    query [...,L,E], key [...,S,E], value [...,S,Ev], whose leading dimensions broadcast; attn_mask bool, True = attend, or
    added to the scores, broadcast to [...,L,S], not with is_causal, whose diagonal begins top left; enable_gqa: the heads, the
    third dimension from the right, of key and value are repeated as repeat_interleave does. NumPy arrays, PyTorch tensors and
    Arrays; results as those of attention.

    What differs: float64 is refused, as are scales that are not finite and head sizes above 576; masks of one dimension
    broadcast in every case; finite biases below -6e37 in an Array hide their keys; the weights that dropout zeroes are others,
    chosen by a number that is drawn from PyTorch's generator for tensors, and from numpy.random else. A query that sees no key
    gives 0, as in PyTorch since 2.5. vkattn.torch has the same with gradients.
    """
    call = Call(None, (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)))
    query, key, value = as_array(query, "query", FLOATS), as_array(key, "key", FLOATS), as_array(value, "value", FLOATS)
    grouped, is_causal = _abi.flag("enable_gqa", enable_gqa), _abi.flag("is_causal", is_causal)
    dropout_p = _abi.real("dropout_p", dropout_p)
    _check(query, key, value, grouped)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p: {dropout_p}, expected 0 to 1")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask: given with is_causal, expected one of them")
    if grouped and key.shape[-3] != value.shape[-3]:
        key, value = _as_many_heads(query, key, value)
    leading = [array.shape[:-3] + query.shape[-3:-2] if grouped else array.shape[:-2] for array in (query, key, value)]
    scored = _broadcast("query and key", *leading[:2])
    batch = _broadcast("query, key and value", scored, leading[2])
    if attn_mask is not None:
        attn_mask = _mask(attn_mask, query, (*scored, query.shape[-2], key.shape[-2]), batch)
    shape = (*batch, query.shape[-2], value.shape[-1])
    if 0 in (*query.shape[:-1], *key.shape[:-1], *value.shape):  # whose result has the query's leading dimensions in PyTorch
        return _zeros(call, (*query.shape[:-1], value.shape[-1]), query)
    if dropout_p == 1:
        return _zeros(call, shape, query)
    if query.shape[-1] == 0:  # every score is 0
        query, key, scale = _zero_rows(query), _zero_rows(key), 0.0
    one_head = key.shape[-3:-2] == value.shape[-3:-2] == (1,)
    kv_batch = (*batch[:-1], key.shape[-3]) if grouped or one_head else batch
    query, key, value = _folded(query, batch), _folded(key, kv_batch), _folded(value, kv_batch)
    Problem({"query": query, "key": key, "value": value, "attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal,
             "scale": scale, "enable_gqa": True, "dropout_seed": drawn_seed(call.torch) if dropout_p > 0 else 0}, call).run()
    return call.given_back("output", shape)


def _check(query, key, value, grouped):
    for array, name in ((query, "query"), (key, "key"), (value, "value")):
        if array.ndim < (3 if grouped else 2):
            raise ValueError(f"{name}: {array.ndim} dimensions, expected at least {'3 with enable_gqa' if grouped else '2'}")
        if dtype_of(array) != dtype_of(query):
            raise TypeError(f"{name}: dtype {dtype_of(array)}, expected {dtype_of(query)} as query has")
        if grouped and (array.shape[-3] == 0 or query.shape[-3] % array.shape[-3]):
            raise ValueError(f"{name}: {array.shape[-3]} heads, expected a number that divides the {query.shape[-3]} of query")
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(f"key: shape {list(key.shape)}, expected rows of {query.shape[-1]} as query has")
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(f"value: shape {list(value.shape)}, expected {key.shape[-2]} rows as key has")


def _broadcast(names, *shapes):
    try:
        return numpy.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{names}: leading dimensions {' and '.join(str(list(shape)) for shape in shapes)}, "
                         "expected some that broadcast") from None


def _as_many_heads(query, key, value):
    """Keys and values of unequal numbers of heads, repeated until there are as many of both."""
    heads = max(key.shape[-3], value.shape[-3])
    if heads % key.shape[-3] or heads % value.shape[-3]:
        heads = query.shape[-3]
    return [array if array.shape[-3] == heads else _repeated_heads(array, heads // array.shape[-3]) for array in (key, value)]


def _repeated_heads(array, times):
    *leading, heads, rows, size = array.shape
    return repeated(array.reshape((*leading, heads, 1, rows, size)), -3, times).reshape((*leading, heads * times, rows, size))


def _folded(array, batch):
    """An array broadcast to the leading dimensions, in four."""
    rows = array.shape[-2:]
    shape = (*batch, *rows)
    if isinstance(array, Array):
        array = array.broadcast_to(shape)
        if len(batch) > 2 and not is_contiguous(array):
            array = array.contiguous()
    else:
        array = numpy.broadcast_to(array, shape)
    return array.reshape((math.prod(batch[:-1]), *(batch[-1:] or (1,)), *rows))


def _mask(mask, query, scores, batch):
    """The mask in at most four dimensions."""
    mask = as_array(mask, "attn_mask", MASKS)
    types = ("bool", "float32", dtype_of(query))[:2 if dtype_of(query) == "float32" else 3]
    if dtype_of(mask) not in types:
        raise TypeError(f"attn_mask: dtype {dtype_of(mask)}, expected {one_of(types)}")
    if len(mask.shape) > len(scores) or any(size not in (1, full) for size, full in zip(mask.shape[::-1], scores[::-1])):
        raise ValueError(f"attn_mask: shape {list(mask.shape)}, expected one that broadcasts to {list(scores)}")
    if not isinstance(mask, Array) and dtype_of(mask) in ("float32", "bfloat16"):
        mask = _finite_biases_kept(float32_of(mask) if dtype_of(mask) == "bfloat16" else mask)
    leading = mask.shape[:-3]
    if any(size != 1 for size in leading) and len(batch) > 2:
        shape = (*batch[:-1], *mask.shape[-3:])
        mask = mask.broadcast_to(shape).contiguous() if isinstance(mask, Array) else numpy.broadcast_to(mask, shape)
        return mask.reshape((math.prod(batch[:-1]), *shape[-3:]))
    return mask.reshape((math.prod(leading), *mask.shape[-3:])) if len(leading) > 1 else mask


def _finite_biases_kept(mask):
    low = (mask < _LEAST_BIAS) & (mask != -numpy.inf)
    return numpy.where(low, _LEAST_BIAS, mask) if low.any() else mask


def _zero_rows(array):
    """Rows of zeros, stored once, in place of those that have no elements."""
    return numpy.broadcast_to(numpy.zeros(1, numpy_dtype(dtype_of(array))), (*array.shape[:-1], 1))


def _zeros(call, shape, query):
    zeros = numpy.zeros(shape, numpy_dtype(dtype_of(query)))
    output = call.result("output", shape, query)
    if isinstance(output, Array):
        output.assign(zeros)
    else:
        call.outputs["output"] = zeros
    return call.given_back("output")


def drawn_seed(torch):
    """A number for the weights that are dropped, from the generator whose seed the caller may have set."""
    return int(torch.randint(2**63 - 1, ())) if torch else int(numpy.random.randint(2**63 - 1, dtype="i8"))
