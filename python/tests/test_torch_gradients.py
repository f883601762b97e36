"""vkattn.torch: gradients beside PyTorch's own, in float64, and modules that train."""
import numpy
import pytest

import vkattn
from tested_packages import known

torch = known("torch")
functional = pytest.importorskip("torch.nn.functional")
gradients = pytest.importorskip("vkattn.torch")

BOUNDS = {torch.float32: 1e-9, torch.float16: 1e-5, torch.bfloat16: 5e-4}


def random(shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def compare(shapes, mask=None, dtype=torch.float32, **arguments):
    """Outputs and gradients beside those of PyTorch in float64."""
    given = [random(shape, seed, dtype).requires_grad_() for seed, shape in enumerate(shapes)]
    exact = [each.detach().double().requires_grad_() for each in given]
    masks = [None, None]
    if mask is not None:
        masks = [mask.clone(), mask.double() if mask.dtype.is_floating_point else mask]
        if mask.dtype.is_floating_point:
            masks = [each.detach().requires_grad_() for each in masks]
            given, exact = given + masks[:1], exact + masks[1:]
    output = gradients.scaled_dot_product_attention(*given[:3], masks[0], **arguments)
    expected = functional.scaled_dot_product_attention(*exact[:3], masks[1], **arguments)
    assert output.shape == expected.shape and output.dtype == dtype
    d_output = random(expected.shape, 9, dtype)
    made = torch.autograd.grad(output, given, d_output)
    wanted = torch.autograd.grad(expected, exact, d_output.double())
    for number, (actual, right) in enumerate(zip(made, wanted)):
        assert actual.shape == right.shape and actual.dtype == given[number].dtype
        assert ((actual.double() - right) ** 2).sum() <= BOUNDS[dtype] * (right**2).sum(), number


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_types(dtype, is_causal):
    compare(((2, 3, 17, 24), (2, 3, 29, 24), (2, 3, 29, 40)), dtype=dtype, is_causal=is_causal)


@pytest.mark.parametrize("shapes", [
    ((9, 8), (11, 8), (11, 6)), ((4, 9, 8), (4, 11, 8), (4, 11, 8)), ((2, 4, 9, 8), (11, 8), (11, 8)),
    ((2, 3, 4, 9, 8), (2, 3, 4, 11, 8), (2, 3, 4, 11, 8)), ((2, 1, 9, 8), (2, 4, 11, 8), (1, 4, 11, 8))])
def test_what_was_broadcast_is_summed(shapes):
    compare(shapes)


def test_groups_and_scales():
    compare(((2, 6, 9, 16), (2, 2, 11, 16), (2, 2, 11, 16)), enable_gqa=True, scale=0.5)


@pytest.mark.parametrize("shape", [(9, 11), (1, 9, 11), (2, 1, 9, 11), (2, 4, 9, 11), (2, 4, 1, 11)])
def test_masks(shape):
    compare(((2, 4, 9, 8), (2, 4, 11, 8), (2, 4, 11, 8)), random(shape, 5))
    compare(((2, 4, 9, 8), (2, 4, 11, 8), (2, 4, 11, 8)), random(shape, 5) > -0.5)


def test_gradcheck():
    given = [random((1, 2, 5, 8), seed).requires_grad_() for seed in range(3)]
    assert torch.autograd.gradcheck(lambda *each: gradients.scaled_dot_product_attention(*each, is_causal=True), given, eps=1e-2,
                                    atol=2e-3, rtol=2e-2, nondet_tol=0.0)


def test_dropped_weights_are_the_same_in_both_passes():
    query, key, value = (random((1, 2, 24, 16), seed).requires_grad_() for seed in range(3))
    torch.manual_seed(3)
    output = gradients.scaled_dot_product_attention(query, key, value, dropout_p=0.4)
    d_value, = torch.autograd.grad(output, value, torch.ones_like(output))
    # the output is linear in the values: its sum is that of values times their gradients
    assert torch.isclose((d_value * value).sum(), output.sum(), rtol=1e-4)


def test_a_module_trains():
    class Attention(torch.nn.Module):
        def __init__(self, attend):
            super().__init__()
            torch.manual_seed(1)
            self.project, self.attend = torch.nn.Linear(16, 48), attend

        def forward(self, x):
            rows = self.project(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            return self.attend(*rows, is_causal=True).transpose(1, 2).flatten(2)

    x, wanted = random((2, 12, 16), 5), random((2, 12, 16), 6)
    losses = []
    for attend in (gradients.scaled_dot_product_attention, functional.scaled_dot_product_attention):
        module = Attention(attend)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
        losses.append([])
        for _ in range(8):
            loss = functional.mse_loss(module(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-3) and losses[0][-1] < 0.8 * losses[0][0]


def test_without_gradients_it_is_the_function_of_arrays():
    query = random((1, 2, 5, 8), 1)
    output = gradients.scaled_dot_product_attention(query, query, query)
    assert not output.requires_grad and torch.equal(output, vkattn.scaled_dot_product_attention(query, query, query))
    with torch.no_grad():
        assert not gradients.scaled_dot_product_attention(query.clone().requires_grad_(), query, query).requires_grad


def test_what_is_refused():
    query = random((1, 2, 5, 8), 1).requires_grad_()
    with pytest.raises(TypeError, match="expected tensors"):
        gradients.scaled_dot_product_attention(query.detach().numpy(), query, query)
    with pytest.raises(ValueError):
        gradients.scaled_dot_product_attention(query, query[..., :4], query)
    with pytest.raises(ValueError, match="attn_mask: given with is_causal"):
        gradients.scaled_dot_product_attention(query, query, query, torch.zeros(5, 5), is_causal=True)
    with pytest.raises(TypeError, match="key: dtype"):
        gradients.scaled_dot_product_attention(query, query.half(), query)


BIAS = random((4, 9), 11)
DOCUMENT = torch.arange(40) // 11


@pytest.fixture
def flex():
    return pytest.importorskip("torch.nn.attention.flex_attention")


def capped_distances(score, b, h, q, k):
    return 2 * torch.tanh(score / 2) - BIAS[h, 0] * (q - k).abs()


def relative_positions(score, b, h, q, k):
    return score * (1 + 0.25 * BIAS[h, torch.clamp(k - q, -4, 4) + 4])


def bent(score, b, h, q, k):
    return torch.where(score > 0, score + 0.125 * score * score, torch.exp(score) - 1) + torch.clamp(score, -0.5, 0.75)


def sliding_window(b, h, q, k):
    return (k <= q + 2) & (q - k < 7)


def documents(b, h, q, k):
    return (DOCUMENT[q] == DOCUMENT[k]) | (k == 0)


@pytest.mark.parametrize("score_mod, mask_mod, blocks", [
    (capped_distances, None, None), (relative_positions, sliding_window, "torch"), (bent, documents, "vkattn"), (None, documents, "torch"),
    (None, sliding_window, None), (None, None, None)])
def test_flex_attention(monkeypatch, flex, score_mod, mask_mod, blocks):
    monkeypatch.setattr(flex, "_validate_device", lambda *tensors: None)  # which refuses gradients on CPUs
    given = [random(shape, seed).requires_grad_() for seed, shape in enumerate(((2, 4, 33, 24), (2, 2, 37, 24), (2, 2, 37, 40)))]
    exact = [each.detach().double().requires_grad_() for each in given]
    made_by_torch = mask_mod and flex.create_block_mask(mask_mod, None, None, 33, 37, device="cpu", BLOCK_SIZE=8)
    block_mask = {"torch": made_by_torch, None: None,
                  "vkattn": mask_mod and vkattn.create_block_mask(mask_mod, None, None, 33, 37, BLOCK_SIZE=8)}[blocks]
    output, log_sum_exp = gradients.flex_attention(*given, score_mod, block_mask, enable_gqa=True, return_lse=True,
                                                   mask_mod=None if blocks else mask_mod)
    expected, sums = flex.flex_attention(*exact, score_mod, made_by_torch, enable_gqa=True, return_lse=True)
    assert output.dtype == torch.float32 and output.shape == expected.shape
    assert ((output.double() - expected) ** 2).sum() <= 1e-9 * (expected**2).sum()
    assert ((log_sum_exp.double() - sums) ** 2).sum() <= 1e-9 * (sums**2).sum()
    d_output = random(expected.shape, 9)
    made = torch.autograd.grad(output, given, d_output)
    wanted = torch.autograd.grad(expected, exact, d_output.double())
    for number, (actual, right) in enumerate(zip(made, wanted)):
        assert actual.shape == right.shape and ((actual.double() - right) ** 2).sum() <= 1e-9 * (right**2).sum(), number


def test_flex_attention_without_gradients_and_what_is_refused(flex):
    rows = [random((1, 2, 5, 8), seed) for seed in range(3)]
    output = gradients.flex_attention(*rows, capped_distances)
    assert not output.requires_grad
    assert torch.allclose(output, flex.flex_attention(*rows, capped_distances), atol=1e-5)
    asking = [each.requires_grad_() for each in rows]
    slope = torch.tensor([0.5, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match="score_mod: .*a captured tensor that requires a gradient"):
        vkattn.flex_attention(*(each.detach() for each in rows), lambda score, b, h, q, k: score * slope[h])
    with pytest.raises(ValueError, match="query has 2 heads and key 1"):
        gradients.flex_attention(asking[0], asking[1][:, :1], asking[2][:, :1], capped_distances)
    with pytest.raises(TypeError, match="block_mask: Tensor, expected a BlockMask"):
        gradients.flex_attention(*asking, block_mask=torch.ones(1))
    with pytest.raises(ValueError, match="query: 3 dimensions, expected 4"):
        gradients.flex_attention(asking[0][0], *asking[1:])


class Positions(torch.nn.Module):
    """T5's table of positions by buckets and heads, and a factor."""

    def __init__(self, table, factor):
        super().__init__()
        self.table, self.factor = table, factor

    def score_mod(self, score, b, h, q, k):
        distance = torch.clamp(q - k, 0, 12)
        bucket = torch.where(distance < 4, distance, 4 + (distance - 4) // 3)
        return score * self.factor + self.table[bucket, h]


def _slopes(slopes):
    return lambda score, b, h, q, k: score - slopes[h] * (q - k).abs()


def _distances(table):
    return lambda score, b, h, q, k: score + table[h, q - k + 36]


def _temperatures(temperature, last):
    def score_mod(score, b, h, q, k):
        capped = torch.tanh(score / (1 + temperature[h] * temperature[h]))
        return torch.where(q > 9, 2 * capped, capped * temperature[3 - h]) + last[b, 0, -1] * k / 8
    return score_mod


def _rows_and_columns(bias):
    return lambda score, b, h, q, k: score + bias[b, q] * bias[b, k + 1]


def _buckets(table, factor):
    positions = Positions(table, factor)
    return lambda score, b, h, q, k: positions.score_mod(score, b, h, q, k)


PARAMETERS = {"slopes": (_slopes, (4,)), "distances": (_distances, (4, 73)), "temperatures": (_temperatures, (4,), (2, 3, 5)),
              "buckets and a factor": (_buckets, (7, 4), ()), "products": (_rows_and_columns, (2, 38))}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("dtype, mask_mod", [(torch.float32, None), (torch.bfloat16, sliding_window)])
def test_captured_tensors_have_gradients(monkeypatch, flex, name, dtype, mask_mod):
    monkeypatch.setattr(flex, "_validate_device", lambda *tensors: None)
    make, *shapes = PARAMETERS[name]
    rows = [random(shape, seed) for seed, shape in enumerate(((2, 4, 33, 24), (2, 2, 37, 24), (2, 2, 37, 40)))]
    given = [torch.nn.Parameter(random(shape, 20 + seed, dtype)) for seed, shape in enumerate(shapes)]
    exact = [torch.nn.Parameter(each.detach().double()) for each in given]
    block_mask = mask_mod and flex.create_block_mask(mask_mod, None, None, 33, 37, device="cpu", BLOCK_SIZE=8)
    query = [rows[0].requires_grad_(), rows[0].detach().double().requires_grad_()]
    output = gradients.flex_attention(query[0], *rows[1:], make(*given), block_mask, enable_gqa=True)
    expected = flex.flex_attention(query[1], *(each.double() for each in rows[1:]), make(*exact), block_mask, enable_gqa=True)
    d_output = random(expected.shape, 9)
    made = torch.autograd.grad(output, [query[0], *given], d_output)
    wanted = torch.autograd.grad(expected, [query[1], *exact], d_output.double())
    for number, (actual, right, of) in enumerate(zip(made, wanted, [query[0], *given])):
        assert actual.shape == right.shape and actual.dtype == of.dtype
        bound = 1e-8 if actual.dtype == torch.float32 else 1e-4
        assert ((actual.double() - right) ** 2).sum() <= bound * (right**2).sum(), number
    again = gradients.flex_attention(rows[0].detach(), *rows[1:], make(*given), block_mask, enable_gqa=True)
    assert all(torch.equal(one, other) for one, other in zip(torch.autograd.grad(again, given, d_output), made[1:]))


def test_a_table_of_positions_is_learned():
    random_numbers = torch.Generator().manual_seed(3)
    rows = [torch.randn((1, 2, 24, 16), generator=random_numbers) for _ in range(3)]
    right = torch.randn((2, 9), generator=random_numbers)

    def attend(table):
        return gradients.flex_attention(*rows, lambda score, b, h, q, k: score + table[h, torch.clamp(k - q, -4, 4) + 4])

    wanted = attend(right)
    table = torch.nn.Parameter(torch.zeros(2, 9))
    optimizer = torch.optim.Adam([table], lr=0.1)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((attend(table) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 1e-3 * losses[0]


def test_what_only_a_mask_captures_has_no_gradient():
    rows = [random((1, 2, 9, 8), seed).requires_grad_() for seed in range(3)]
    limit = torch.tensor([0.5, 4.5], requires_grad=True)
    output = gradients.flex_attention(*rows, lambda score, b, h, q, k: torch.where(score > limit[0], score, 2 * score),
                                      mask_mod=lambda b, h, q, k: k <= q + limit[h])
    output.sum().backward()
    assert limit.grad is None and all(each.grad is not None for each in rows)
    frozen = [row.detach() for row in rows]
    alone = gradients.flex_attention(*frozen, lambda score, b, h, q, k: torch.where(score > limit[0], score, 2 * score),
                                     mask_mod=lambda b, h, q, k: k <= q + limit[h])
    assert torch.equal(alone, output) and not alone.requires_grad
    gradients.flex_attention(*rows, block_mask=None, mask_mod=lambda b, h, q, k: k <= q + limit[h]).sum().backward()


def test_a_block_mask_of_other_lengths_is_refused(flex):
    rows = [random((1, 2, length, 8), 1).requires_grad_() for length in (33, 37, 37)]
    for queries, keys in ((40, 37), (33, 40), (33, 36)):
        for made in (flex.create_block_mask(sliding_window, None, None, queries, keys, device="cpu", BLOCK_SIZE=8),
                     vkattn.create_block_mask(sliding_window, None, None, queries, keys, BLOCK_SIZE=8)):
            with pytest.raises(ValueError, match=f"block_mask: of {queries} queries and {keys} keys, expected 33 and 37"):
                gradients.flex_attention(*rows, block_mask=made)


@pytest.mark.parametrize("kind", ["tensor", "numpy", "device"])
def test_the_backward_pass_reads_what_was_captured_as_it_was(kind):
    given, made = numpy.array([[0.5, 2.0]] * 2, "f4"), []
    for changes in (False, True):
        held = given.copy()
        slope = {"tensor": torch.from_numpy, "numpy": numpy.asarray, "device": vkattn.default_context().array}[kind](held)
        rows = [random((1, 2, 9, 8), seed).requires_grad_() for seed in range(3)]
        output = gradients.flex_attention(*rows, lambda score, b, h, q, k: score * slope[h, 1] + slope[1, 0] * k)
        if changes:
            held[:] = 9
            if kind == "device":
                slope.assign(held)
        made.append(torch.autograd.grad(output.sum(), rows[:2]))
    assert all(torch.equal(one, other) and one.any() for one, other in zip(*made))


def test_the_backward_pass_reads_what_a_block_mask_captured_as_it_was():
    made = []
    for changes in (False, True):
        lengths, numbers = numpy.array([4, 7], "i4"), [2.0]
        text = "bool mask_mod(uint b, uint head, uint q, uint key) { return float(key) < float(captured_i32(0, head)) - captured_number(0); }"
        block_mask = vkattn.create_block_mask(text, None, 2, 9, 9, captured=[lengths], captured_numbers=numbers)
        rows = [random((1, 2, 9, 8), seed).requires_grad_() for seed in range(3)]
        output = gradients.flex_attention(*rows, block_mask=block_mask)
        if changes:
            lengths[:], numbers[0] = 9, 0.0
        made.append(torch.autograd.grad(output.sum(), rows[2]))
    assert torch.equal(made[0][0], made[1][0]) and made[0][0].any()


def test_flex_attention_without_queries_or_keys():
    for queries, keys in ((0, 5), (5, 0)):
        rows = [random((1, 2, length, 8), 3).requires_grad_() for length in (queries, keys, keys)]
        output = gradients.flex_attention(*rows, capped_distances)
        assert output.shape == (1, 2, queries, 8) and not output.any()
        assert all(not each.any() for each in torch.autograd.grad(output.sum(), rows))


def test_flex_attention_trains():
    rows = [random((1, 2, 19, 16), seed).requires_grad_() for seed in range(3)]
    target = random((1, 2, 19, 16), 8)
    losses = []
    for _ in range(12):
        loss = ((gradients.flex_attention(*rows, relative_positions, mask_mod=sliding_window) - target) ** 2).mean()
        for each, gradient in zip(rows, torch.autograd.grad(loss, rows)):
            with torch.no_grad():
                each -= 8 * gradient
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
