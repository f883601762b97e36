"""scaled_dot_product_attention beside PyTorch's, in what it gives and what it refuses; tensors everywhere else."""
import math

import pytest

import vkattn
from tested_packages import known, needs

torch = known("torch")
functional = pytest.importorskip("torch.nn.functional")
compares = needs("torch", "2.5")  # the first whose scaled_dot_product_attention takes enable_gqa

BOUNDS = {torch.float32: 1e-10, torch.float16: 1e-6, torch.bfloat16: 5e-5}
VALUES = torch.Generator().manual_seed(5)


def random(shape, dtype=torch.float32):
    return torch.randn(shape, generator=VALUES).to(dtype)


def same(shapes, mask=None, dtype=torch.float32, **arguments):
    """Both of them give the same, or both of them refuse."""
    query, key, value = (random(shape, dtype) for shape in shapes)
    if mask is not None:
        arguments["attn_mask"] = mask
    try:
        exact = [each.double() for each in (query, key, value)]
        wide = {**arguments, "attn_mask": mask.double()} if mask is not None and mask.dtype.is_floating_point else arguments
        functional.scaled_dot_product_attention(query, key, value, **arguments)  # which may refuse types
        expected = functional.scaled_dot_product_attention(*exact, **wide)
    except (RuntimeError, IndexError):
        with pytest.raises((ValueError, TypeError)):
            vkattn.scaled_dot_product_attention(query, key, value, **arguments)
        return False
    for kind in (lambda tensor: tensor, vkattn.from_dlpack):
        given = {**arguments, "attn_mask": kind(mask)} if mask is not None else arguments
        output = vkattn.scaled_dot_product_attention(kind(query), kind(key), kind(value), **given)
        assert output.shape == tuple(expected.shape)
        output = output if isinstance(output, torch.Tensor) else output.torch()
        assert output.dtype == dtype
        error = ((output.double() - expected) ** 2).sum()
        assert error <= BOUNDS[dtype] * (expected ** 2).sum(), (shapes, error)
    return True


SHAPES = [
    ((3, 8), (5, 8), (5, 8)), ((4, 3, 8), (4, 5, 8), (4, 5, 6)), ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)),
    ((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 8)), ((2, 2, 1, 2, 3, 8), (2, 2, 1, 2, 5, 8), (2, 2, 1, 2, 5, 8)),
    ((2, 4, 3, 8), (5, 8), (5, 8)), ((2, 4, 3, 8), (4, 5, 8), (4, 5, 8)), ((3, 8), (2, 4, 5, 8), (2, 4, 5, 8)),
    ((4, 3, 8), (1, 5, 8), (4, 5, 8)), ((2, 4, 3, 8), (2, 1, 5, 8), (2, 1, 5, 8)), ((2, 4, 3, 8), (2, 4, 5, 8), (2, 1, 5, 8)),
    ((2, 1, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), ((1, 1, 3, 8), (1, 1, 5, 8), (2, 4, 5, 8)),
    ((2, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 8)),
    ((2, 1, 4, 3, 8), (1, 3, 4, 5, 8), (1, 3, 1, 5, 8)), ((1, 3, 8), (1, 1, 5, 8), (2, 1, 1, 5, 8))]
REFUSED_SHAPES = [
    ((8,), (5, 8), (5, 8)), ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)), ((2, 4, 3, 8), (2, 4, 5, 9), (2, 4, 5, 8)),
    ((2, 4, 3, 8), (3, 4, 5, 8), (3, 4, 5, 8))]


@compares
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_leading_dimensions_broadcast(shapes, is_causal):
    assert same(shapes, is_causal=is_causal)


@compares
@pytest.mark.parametrize("shapes", REFUSED_SHAPES)
def test_shapes_that_neither_takes(shapes):
    assert not same(shapes)


@compares
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scale", [None, 0.0, 0, -0.5, 2])
def test_types_and_scales(dtype, scale):
    assert same(((2, 4, 7, 32), (2, 4, 9, 32), (2, 4, 9, 32)), dtype=dtype, scale=scale)
    causal = torch.ones(7, 9, dtype=torch.bool).tril()  # is_causal with scales up to 0 is NaN in PyTorch 2.14
    assert same(((2, 4, 7, 32), (2, 2, 9, 32), (2, 2, 9, 32)), causal, dtype=dtype, scale=scale, enable_gqa=True)


MASKS = [(3, 5), (3, 1), (1, 5), (1, 1), (4, 3, 5), (1, 3, 5), (2, 1, 3, 5), (2, 4, 3, 5), (2, 4, 1, 5), (2, 4, 3, 1)]
REFUSED_MASKS = [(2, 3, 5), (1, 2, 4, 3, 5), (2, 2, 4, 3, 5), (3, 4), (2, 5), (3, 4, 5), (2, 3, 3, 5)]


@compares
@pytest.mark.parametrize("shape", MASKS + REFUSED_MASKS)
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks(shape, kind):
    mask = random(shape)
    mask = mask > -0.5 if kind is torch.bool else mask
    assert same(((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), mask) == (shape in MASKS)
    assert same(((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)), mask, enable_gqa=True) == (shape in MASKS)


@compares
@pytest.mark.parametrize("shapes, shape, fits", [
    (((3, 8), (5, 8), (5, 8)), (3, 5), True), (((3, 8), (5, 8), (5, 8)), (1, 3, 5), False),
    (((4, 3, 8), (4, 5, 8), (4, 5, 8)), (4, 3, 5), True), (((4, 3, 8), (4, 5, 8), (4, 5, 8)), (2, 4, 3, 5), False),
    (((1, 1, 3, 8), (1, 1, 5, 8), (2, 4, 5, 8)), (2, 4, 3, 5), False),
    (((1, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), (2, 4, 3, 5), True),
    (((1, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 8)), (2, 4, 3, 5), False),
    (((3, 8), (5, 8), (5, 8)), (5,), True), (((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 8)), (2, 1, 4, 3, 5), True),
    (((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 8)), (3, 1, 3, 5), True),
    (((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 8)), (1, 1, 1, 3, 5), True)])
def test_masks_fit_the_scores_and_do_not_enlarge_them(shapes, shape, fits):
    assert same(shapes, random(shape)) == fits
    assert same(shapes, random(shape) > -0.5) == fits


@compares
@pytest.mark.parametrize("mask_type", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.uint8])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_types_of_masks(mask_type, dtype):
    same(((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), (random((3, 5)) * 2).to(mask_type), dtype=dtype)


@compares
@pytest.mark.parametrize("heads", [(4, 2, 2), (4, 1, 1), (4, 4, 4), (4, 3, 3), (2, 4, 4), (8, 4, 2), (8, 2, 4), (6, 2, 3),
                                   (4, 2, 4)])
@pytest.mark.parametrize("grouped", [False, True])
def test_heads(heads, grouped):
    same([(2, heads[0], 3, 8), (2, heads[1], 5, 8), (2, heads[2], 5, 8)], enable_gqa=grouped)
    same([(heads[0], 3, 8), (heads[1], 5, 8), (heads[2], 5, 8)], enable_gqa=grouped)


@compares
def test_grouped_heads_of_other_dimensions():
    assert same(((2, 8, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)), enable_gqa=True)
    assert same(((2, 3, 8, 3, 8), (2, 3, 2, 5, 8), (2, 3, 2, 5, 8)), enable_gqa=True)
    assert same(((2, 8, 3, 8), (2, 5, 8), (2, 5, 8)), enable_gqa=True)
    assert not same(((3, 8), (5, 8), (5, 8)), enable_gqa=True)


@compares
def test_what_neither_takes():
    shapes = ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8))
    assert not same(shapes, torch.ones(3, 5, dtype=torch.bool), is_causal=True)
    assert not same(shapes, dropout_p=1.5)
    assert not same(shapes, dropout_p=-1.0)
    query = random((1, 2, 3, 8))
    with pytest.raises(ValueError, match="expected 3 rows as key has"):  # which PyTorch does not always see
        vkattn.scaled_dot_product_attention(query, query, random((1, 2, 4, 8)))
    with pytest.raises(TypeError, match="key: dtype float32, expected float16 as query has"):
        vkattn.scaled_dot_product_attention(query.half(), query, query)
    for dtype in (torch.int64, torch.complex64, torch.float64, torch.bool):
        with pytest.raises(TypeError, match="query: .*expected float32, float16"):
            vkattn.scaled_dot_product_attention(*[query.to(dtype)] * 3)


@compares
@pytest.mark.parametrize("shapes", [((2, 4, 0, 8), (2, 4, 5, 8), (2, 4, 5, 8)), ((2, 4, 3, 8), (2, 4, 0, 8), (2, 4, 0, 8)),
                                    ((0, 4, 3, 8), (0, 4, 5, 8), (0, 4, 5, 8)), ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 0)),
                                    ((1, 2, 3, 8), (4, 2, 0, 8), (4, 2, 0, 8)), ((1, 2, 0, 8), (4, 2, 3, 8), (4, 2, 3, 8)),
                                    ((1, 2, 3, 8), (4, 2, 5, 8), (4, 2, 5, 0)), ((1, 4, 3, 8), (0, 4, 5, 8), (0, 4, 5, 8)),
                                    ((1, 2, 3, 0), (1, 2, 4, 0), (1, 2, 4, 5)), ((2, 4, 3, 0), (2, 4, 5, 0), (2, 4, 5, 8)),
                                    ((2, 0, 3, 8), (2, 0, 5, 8), (2, 0, 5, 8)), ((3, 0), (5, 0), (5, 0)), ((0, 8), (5, 8), (5, 8))])
@pytest.mark.parametrize("masked", [None, "causal", "bool"])
def test_nothing_of_something(shapes, masked):
    query_len, key_len = shapes[0][-2], shapes[1][-2]
    mask = torch.arange(key_len) <= torch.arange(query_len)[:, None] if masked == "bool" else None
    assert same(shapes, mask, is_causal=masked == "causal")


@compares
def test_rows_that_see_no_key():
    shapes = ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8))
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    assert same(shapes, mask)
    assert same(shapes, torch.zeros(3, 5).masked_fill(~mask, -math.inf))


@compares
@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_least_finite_bias_hides_nothing_alone(dtype):
    query = random((1, 1, 2, 8), dtype)
    value = random((1, 1, 4, 8), dtype)
    mask = torch.full((2, 4), torch.finfo(dtype).min, dtype=dtype)
    mask[0, 2] = 0
    expected = functional.scaled_dot_product_attention(query.float(), query.float().repeat(1, 1, 2, 1), value.float(),
                                                       mask.float())
    output = vkattn.scaled_dot_product_attention(query, query.repeat(1, 1, 2, 1), value, mask)
    assert ((output.float() - expected) ** 2).sum() <= BOUNDS[dtype] * (expected ** 2).sum()


@compares
def test_strides():
    query, key = random((2, 3, 4, 8)), random((2, 5, 4, 8))
    expected = functional.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (query, key, key)))
    for each in (query, vkattn.from_dlpack(query)):
        other = key if each is query else vkattn.from_dlpack(key)
        swapped = [array.transpose(1, 2) if array is query or array is key else array.transpose(0, 2, 1, 3)
                   for array in (each, other, other)]
        output = vkattn.scaled_dot_product_attention(*swapped)
        assert torch.allclose(torch.from_dlpack(output), expected, atol=1e-6)
    flipped = random((2, 4, 6, 8))[..., ::2, :]
    expected = functional.scaled_dot_product_attention(flipped, flipped, flipped)
    assert torch.allclose(vkattn.scaled_dot_product_attention(flipped, flipped, flipped), expected, atol=1e-6)


def test_dropout_follows_the_generator():
    query, value = random((1, 2, 40, 8)), torch.ones(1, 2, 40, 8)
    torch.manual_seed(3)
    first = vkattn.scaled_dot_product_attention(query, query, value, dropout_p=0.5)
    second = vkattn.scaled_dot_product_attention(query, query, value, dropout_p=0.5)
    torch.manual_seed(3)
    assert (vkattn.scaled_dot_product_attention(query, query, value, dropout_p=0.5) == first).all()
    assert (first != second).any() and abs(first.mean() - 1) < 0.3
    assert (vkattn.scaled_dot_product_attention(query, query, value, dropout_p=1.0) == 0).all()


def test_tensors_everywhere():
    x, weight, bias = random((2, 5, 24)), random((40, 24)), random((40,))
    expected = functional.silu(functional.linear(x, weight, bias))
    output = vkattn.linear(x, weight, bias, activation="silu")
    assert isinstance(output, torch.Tensor) and torch.allclose(output, expected, atol=1e-5)
    expected = functional.layer_norm(x, (24,), weight[0], bias[:24])
    assert torch.allclose(vkattn.norm(x, weight[0], bias[:24], kind="layer"), expected, atol=1e-5)
    tokens = torch.tensor([[3, 0], [39, 7]])
    assert (vkattn.embedding(tokens, weight) == functional.embedding(tokens, weight)).all()
    half = vkattn.embedding(tokens, weight.bfloat16())
    assert half.dtype == torch.bfloat16 and (half == functional.embedding(tokens, weight.bfloat16())).all()
    output, sums = vkattn.attention(x[None], x[None], x[None], return_lse=True)
    joined = vkattn.merge(torch.stack([output]), [sums])
    assert isinstance(joined, torch.Tensor) and torch.allclose(joined, output)


def test_a_layer_of_pytorch():
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    q, k, v = module.in_proj_weight.detach().chunk(3)
    weights = {"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "out_proj.weight": module.out_proj.weight}
    with pytest.raises(ValueError, match="out_proj.weight: requires a gradient, expected a tensor that does not"):
        vkattn.Layer("mha", weights, embed_dim=32, num_heads=4)
    x = random((2, 6, 32))
    with torch.no_grad():
        layer = vkattn.Layer("mha", weights, embed_dim=32, num_heads=4)
        expected = module(x, x, x)[0]
        output = layer(x)
    assert isinstance(output, torch.Tensor) and torch.allclose(output, expected, atol=1e-5)
    with pytest.raises(ValueError, match="query: requires a gradient"):
        layer(x.requires_grad_())


@pytest.mark.parametrize("bias", [True, pytest.param(False, marks=compares)])  # PyTorch 1.13 fails on it
def test_the_state_dict_of_multihead_attention(bias):
    module = torch.nn.MultiheadAttention(32, 4, bias=bias, batch_first=True).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    layer = vkattn.Layer("mha", module.state_dict(), embed_dim=32, num_heads=4)
    x, y = random((2, 6, 32)), random((2, 9, 32))
    with torch.no_grad():
        padding = torch.arange(9) >= torch.tensor([[4], [9]])
        for given, more in (((x, x, x), {}), ((x, y, y), {"key_padding_mask": padding})):
            expected = module(*given, **more)[0]
            assert torch.allclose(layer(*given, **more), expected, atol=1e-5)
    separate = torch.nn.MultiheadAttention(32, 4, kdim=16, vdim=24, batch_first=True)
    with pytest.raises(vkattn.InvalidArgumentError, match="k_proj.weight"):  # whose sizes no layer has
        vkattn.Layer("mha", separate.state_dict(), embed_dim=32, num_heads=4)
    packed = module.state_dict()
    packed["in_proj_weight"] = packed["in_proj_weight"][:95]
    with pytest.raises(ValueError, match=r"in_proj_weight: shape \[95, 32\], expected the rows of Q, K and V"):
        vkattn.Layer("mha", packed, embed_dim=32, num_heads=4)
    both = {**module.state_dict(), "q_proj.weight": torch.zeros(32, 32)}
    with pytest.raises(ValueError, match="q_proj.weight: is q_proj.weight, which is given by another name too"):
        vkattn.Layer("mha", both, embed_dim=32, num_heads=4)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kind", ["encoder", "encoder_layer"])
def test_the_state_dict_of_an_encoder_layer(norm_first, activation, kind):
    module = torch.nn.TransformerEncoderLayer(32, 4, 48, activation=activation, norm_first=norm_first, batch_first=True).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model = torch.nn.TransformerEncoder(module, 2, enable_nested_tensor=False).eval()
    x = random((2, 6, 32))
    with torch.no_grad():
        expected = model(x)
    output = x
    for number in range(2):
        layer = vkattn.Layer(kind, model.state_dict(), prefix=f"layers.{number}.", embed_dim=32, num_heads=4, ffn_dim=48,
                             activation=activation, norm_first=norm_first)
        output = layer(output)
    assert torch.allclose(output, expected, atol=1e-4)
    with pytest.raises(ValueError, match="prefix: 'layers.2.', expected the beginning of a weight's name, of which layers.0.self"):
        vkattn.Layer(kind, model.state_dict(), prefix="layers.2.", embed_dim=32, num_heads=4, ffn_dim=48)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32,
                                   pytest.param(torch.bool, marks=compares)])  # PyTorch 1.13 takes no bool by DLPack
def test_tensors_and_back(dtype):
    tensor = (random((3, 4)) * 4).to(dtype)
    array = vkattn.from_dlpack(tensor)
    assert array.dtype == str(dtype).split(".")[1]
    for back in (array.torch(), torch.from_dlpack(array), array[:, 1:].transpose().torch().T):
        assert back.dtype == dtype and (back == tensor[:, -back.shape[1]:]).all()
    assert (vkattn.from_dlpack(tensor.T[1:]).torch() == tensor.T[1:]).all()


def test_tensors_that_are_refused():
    for tensor, message in ((torch.zeros(2, 2, device="meta"), "on meta, expected a dense one on the CPU"),
                            (torch.zeros(2, 2).to_sparse(), "torch.sparse_coo on cpu, expected a dense one"),
                            (torch.zeros(2, 2, dtype=torch.float64), "dtype float64, expected float32"),
                            (torch.zeros(2, 2, dtype=torch.complex64).conj(), "dtype complex64, expected float32"),
                            (torch.zeros(2, 2).to(getattr(torch, "float8_e4m3fn", torch.float64)), "query: .*"),
                            (torch.zeros(2, 2, dtype=torch.complex64), "dtype complex64, expected float32"),
                            (torch.zeros(2, 2, dtype=torch.int64), "dtype int64, expected float32")):
        with pytest.raises(TypeError, match=message):
            vkattn.attention(tensor, tensor, tensor)


@compares
def test_compiled_functions_call_it_between_their_graphs():
    cache = vkattn.default_context().kv_cache(2, 8, pages=4, page_size=8, key_dtype="float32")
    layer = vkattn.Layer("mha", {f"{name}.weight": torch.eye(16) for name in ("q_proj", "k_proj", "v_proj", "out_proj")},
                         embed_dim=16, num_heads=2)

    def every(query, weight):
        rows = vkattn.linear(vkattn.norm(query * 2, weight[0]), weight) + 1
        output, sums = vkattn.attention(rows, rows, rows, return_lse=True)
        output = vkattn.merge([output], [sums]) + vkattn.scaled_dot_product_attention(rows, rows, rows)
        sequence = cache.add()
        cache.append([sequence], output, output)
        output = output + cache.attend(rows, [sequence])
        cache.remove(sequence)
        output = output + (vkattn.from_dlpack(output) + 1).torch()
        return output + layer(output.reshape(1, 5, 16)).reshape(output.shape) - vkattn.embedding(torch.tensor([0]), weight)

    query, weight = random((1, 2, 5, 8)), random((8, 8))
    compiled = torch.compile(every, backend="eager")
    for _ in range(2):
        assert torch.allclose(compiled(query, weight), every(query, weight), atol=1e-5)
    with pytest.raises(Exception, match="compile without fullgraph=True"):
        torch.compile(lambda x: vkattn.norm(x, weight[0]) + 1, backend="eager", fullgraph=True)(query)


def clamped_neighbours(b, h, q_idx, kv_idx):
    def_x, kv_x = q_idx % 4, kv_idx % 4
    return (def_x.clamp(1, 2) - kv_x).abs() <= 1


def of_scores(slopes, cap):
    def score_mod(score, b, h, q_idx, kv_idx):
        score = score + torch.exp2(-((h + 1) * 8.0 / 4)) * (kv_idx - q_idx) * slopes[h]
        score = cap * torch.tanh(score / cap)
        return torch.where(q_idx + 3 >= kv_idx, score, -float("inf"))
    return score_mod


def test_functions_of_flex_attention_compile_as_they_are():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    try:
        vkattn.create_block_mask(flex.noop_mask, None, None, 2, 2)
    except vkattn.UnsupportedError as missing:
        pytest.skip(str(missing))
    ids = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    window, prefix = torch.tensor(3), 2
    masks = [flex.noop_mask, flex.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k <= window, clamped_neighbours),
             flex.or_masks(lambda b, h, q, k: k < prefix, lambda b, h, q, k: (ids[q] == ids[k]) & ~(q == k))]
    for mask in masks:
        expected = flex.create_mask(mask, 1, 1, 9, 9, device="cpu")
        got = vkattn.create_block_mask(mask, 1, 1, 9, 9, BLOCK_SIZE=1).blocks.numpy() == 2
        assert (got == expected.numpy()).all()
    q, k, v = (torch.randn(2, 4, 9, 16) for _ in range(3))
    score_mod = of_scores(torch.rand(4).bfloat16(), torch.tensor(2.0))
    expected = flex.flex_attention(q, k, v, score_mod=score_mod)
    torch.testing.assert_close(vkattn.flex_attention(q, k, v, score_mod=score_mod), expected, rtol=1e-3, atol=1e-3)
