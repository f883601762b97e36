"""Sparse attention of published models, made of vkattn's operators: MoBA and NSA, each against float64.

Both are causal. query [B,Hq,Lq,D] stands at the last Lq positions of key [B,Hkv,Lk,D] and value [B,Hkv,Lk,Dv]: a prompt
and a decode step are the same call. DeepSeek's sparse attention (DSA) is a part of vkattn.Layer("mla", index_topk=...).
"""
import numpy
import vkattn


def moba(query, key, value, *, block_size, top_k):
    """Mixture of block attention (Lu et al., arXiv 2502.13189): each query of each head attends top_k blocks of keys, its own
    one up to where it stands, and those before whose mean key has the greatest product with it."""
    (batch, heads, queries, size), (_, kv_heads, keys, _) = query.shape, key.shape
    starts = numpy.arange(0, keys, block_size)
    means = numpy.add.reduceat(key, starts, axis=2) / numpy.diff(numpy.append(starts, keys))[:, None].astype("float32")
    # For the choice each query is a sequence of its own, of the blocks up to its own one; the blocks of a head are a page.
    page_len = max(8, 1 << (len(starts) - 1).bit_length())
    pages = numpy.pad(means, ((0, 0), (0, 0), (0, page_len - len(starts)), (0, 0))).reshape(-1, 1, page_len, size)
    page_of_query = numpy.repeat(numpy.arange(batch * kv_heads, dtype="int32"), queries)[:, None]
    blocks_of_query = numpy.arange(keys - queries, keys, dtype="int32") // block_size + 1
    output = numpy.empty((batch, heads, queries, value.shape[3]), "float32")
    group = heads // kv_heads
    for member in range(group):  # a list is of a KV head, and heads that share one choose apart
        rows = query[:, member::group]
        lists = vkattn.index(rows.reshape(-1, 1, 1, size), pages, top_k=top_k, activation="identity", forced_last=1,
                             block_table=page_of_query, key_lengths=numpy.tile(blocks_of_query, batch * kv_heads))
        output[:, member::group] = vkattn.attention(
            rows, key, value, is_causal=True, causal_alignment="bottom_right",
            key_indices=lists.reshape(batch, kv_heads, queries, top_k), key_block_len=block_size)
    return output


def nsa(query, key, value, compressed_key, compressed_value, gates, *, compress_len=32, compress_stride=16, select_len=64,
        select_count=16, forced_first=1, forced_last=2, window=512):
    """Native sparse attention (Yuan et al., arXiv 2502.11089): the gated sum of attention over compressed blocks, over the
    blocks that these find important, and over a window.

    compressed_key, compressed_value [B,Hkv,N,.]: what the model's network makes of the blocks of compress_len keys that begin
    at every compress_stride; gates [B,Hq,Lq,3]. A selected block is as important as the weights, in all heads that share
    its KV head, of the compressed blocks that have a key of it; the first ones and the query's last ones are always selected.
    """
    (batch, heads, queries, size), (_, kv_heads, keys, _), count = query.shape, key.shape, compressed_key.shape[2]
    positions = numpy.arange(keys - queries, keys)
    ended = numpy.arange(count) * compress_stride + compress_len <= positions[:, None] + 1
    compressed, log_sum_exp = vkattn.attention(query, compressed_key, compressed_value, ended, enable_gqa=True, return_lse=True)
    scores = query @ numpy.repeat(compressed_key, heads // kv_heads, 1).swapaxes(2, 3) / numpy.float32(size ** 0.5)
    weights = numpy.exp(numpy.where(ended, scores, -numpy.inf) - numpy.maximum(log_sum_exp, -1e30)[..., None])

    blocks, own = numpy.arange(-(-keys // select_len)), positions[:, None] // select_len
    begin, compressed_begin = blocks[:, None] * select_len, numpy.arange(count) * compress_stride
    overlaps = (compressed_begin < begin + select_len) & (compressed_begin + compress_len > begin)
    importance = weights.reshape(batch, kv_heads, -1, queries, count).sum(2) @ overlaps.T.astype("float32")
    importance[..., (blocks < forced_first) | (blocks > own - forced_last)] = numpy.inf
    importance[..., blocks > own] = -numpy.inf  # if they are listed all the same, the causal mask hides them
    lists = vkattn.top_k(importance, min(select_count, len(blocks)))[1]

    causal = dict(enable_gqa=True, is_causal=True, causal_alignment="bottom_right")
    selected = vkattn.attention(query, key, value, key_indices=lists, key_block_len=select_len, **causal)
    near = vkattn.attention(query, key, value, window=(window - 1, 0), **causal)
    return gates[..., :1] * compressed + gates[..., 1:2] * selected + gates[..., 2:] * near


def attended(query, keys, values):
    """One query's attention over some keys, in float64."""
    if len(keys) == 0:
        return numpy.zeros(values.shape[1])
    scores = keys @ query / len(query) ** 0.5
    weights = numpy.exp(scores - scores.max())
    return weights / weights.sum() @ values


def moba_of_one(query, key, value, position, block_size, top_k):
    """The definition, of one query of one head, in float64."""
    own = position // block_size
    scores = [key[block * block_size:(block + 1) * block_size].mean(0) @ query for block in range(own)]
    chosen = [own, *numpy.argsort(scores)[::-1][:top_k - 1]]
    seen = [j for j in range(position + 1) if j // block_size in chosen]
    return attended(query, key[seen], value[seen])


def nsa_of_group(query, key, value, compressed_key, compressed_value, gates, position, sizes):
    """The definition, of the queries [G,D] at one position that share a KV head, in float64."""
    stride, length, block_len = sizes["compress_stride"], sizes["compress_len"], sizes["select_len"]
    ended = [n for n in range(len(compressed_key)) if n * stride + length <= position + 1]
    importance, own = numpy.zeros(position // block_len + 1), position // block_len
    for row in query:
        scores = numpy.exp([compressed_key[n] @ row / len(row) ** 0.5 for n in ended])
        for n, weight in zip(ended, scores / scores.sum()):
            for block in range(n * stride // block_len, (n * stride + length - 1) // block_len + 1):
                importance[block] += weight
    importance[[block for block in range(own + 1) if block < sizes["forced_first"] or block > own - sizes["forced_last"]]] = numpy.inf
    chosen = numpy.argsort(importance, kind="stable")[::-1][:sizes["select_count"]]
    seen = [j for j in range(position + 1) if j // block_len in chosen]
    near = slice(max(position + 1 - sizes["window"], 0), position + 1)
    return [gate[0] * attended(row, compressed_key[ended], compressed_value[ended]) + gate[1] * attended(row, key[seen], value[seen])
            + gate[2] * attended(row, key[near], value[near]) for row, gate in zip(query, gates)]


def difference(actual, expected):
    """Of their squares, in parts of the expected ones'."""
    return float(((actual - expected) ** 2).sum() / (numpy.asarray(expected) ** 2).sum())


def main():
    random = numpy.random.default_rng(5)
    batch, heads, kv_heads, keys, size = 2, 6, 2, 150, 32
    group = heads // kv_heads

    def normal(*shape):
        return random.standard_normal(shape).astype("float32")

    key, value = normal(batch, kv_heads, keys, size), normal(batch, kv_heads, keys, size)
    sizes = dict(compress_len=16, compress_stride=8, select_len=16, select_count=5, forced_first=1, forced_last=2, window=20)
    count = (keys - sizes["compress_len"]) // sizes["compress_stride"] + 1
    blocks = numpy.lib.stride_tricks.sliding_window_view(key, sizes["compress_len"], 2)[:, :, ::sizes["compress_stride"]]
    compressed_key, compressed_value = numpy.ascontiguousarray(blocks.mean(-1) * 3), normal(batch, kv_heads, count, size)
    for queries in (keys, 3, 1):
        query, gates = normal(batch, heads, queries, size), random.random((batch, heads, queries, 3)).astype("float32")
        of_moba = moba(query, key, value, block_size=16, top_k=3)
        of_nsa = nsa(query, key, value, compressed_key, compressed_value, gates, **sizes)
        exact = [array.astype("float64") for array in (query, key, value, compressed_key, compressed_value, gates)]
        expected = numpy.zeros((2, *query.shape))
        for b, h, i in numpy.ndindex(batch, kv_heads, queries):
            q, k, v, ck, cv = exact[0][b, h * group:(h + 1) * group, i], *(array[b, h] for array in exact[1:5])
            position = keys - queries + i
            expected[0, b, h * group:(h + 1) * group, i] = [moba_of_one(row, k, v, position, 16, 3) for row in q]
            expected[1, b, h * group:(h + 1) * group, i] = nsa_of_group(q, k, v, ck, cv, exact[5][b, h * group:(h + 1) * group, i],
                                                                       position, sizes)
        for name, actual, wanted in (("MoBA", of_moba, expected[0]), ("NSA", of_nsa, expected[1])):
            error = difference(actual, wanted)
            assert error < 1e-10, f"{name} of {queries} queries differs from float64 by {error:.1e}"
    print("MoBA and NSA are what they are in float64")


if __name__ == "__main__":
    main()
