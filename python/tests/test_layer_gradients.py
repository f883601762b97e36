"""Layer.backward: against differences of the layer in float64, its arguments, and where its arrays lie."""
import numpy
import pytest

import vkattn

WIDTH, HEADS, KV_HEADS, SIZE, TOKENS = 8, 2, 1, 4, 5


def layer_of(weights, x, norm):
    """Causal grouped-query attention [L,width] behind a norm, in float64."""
    x = x / numpy.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * norm
    q, k, v = ((x @ weights[f"{name}_proj.weight"].T + weights[f"{name}_proj.bias"]).reshape(TOKENS, -1, SIZE).swapaxes(0, 1)
               for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) * SIZE**-0.5
    scores[:, ~numpy.tri(TOKENS, dtype=bool)] = -numpy.inf
    p = numpy.exp(scores - scores.max(-1, keepdims=True))
    attended = (p / p.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(TOKENS, -1)
    return attended @ weights["out_proj.weight"].T + weights["out_proj.bias"]


@pytest.fixture(scope="module")
def problem():
    """Weights, hidden states, norm and d_output, and the gradient of each by differences."""
    random = numpy.random.default_rng(3)
    shapes = {"q_proj": (HEADS * SIZE, WIDTH), "k_proj": (KV_HEADS * SIZE, WIDTH), "v_proj": (KV_HEADS * SIZE, WIDTH),
              "out_proj": (WIDTH, HEADS * SIZE)}
    weights = {}
    for name, shape in shapes.items():
        weights[name + ".weight"] = random.normal(0, 0.5, shape).astype("float32")
        weights[name + ".bias"] = random.normal(0, 0.5, shape[0]).astype("float32")
    x, d_output = (random.standard_normal((1, TOKENS, WIDTH)).astype("float32") for _ in range(2))
    norm = random.standard_normal(WIDTH).astype("float32")
    exact = {name: array.astype("float64") for name, array in {**weights, "query": x[0], "norm": norm}.items()}

    def loss():
        return (layer_of(exact, exact["query"], exact["norm"]) * d_output[0]).sum()

    expected = {}
    for name, array in exact.items():
        expected[name] = numpy.empty(array.shape)
        for place in numpy.ndindex(array.shape):
            held = array[place]
            array[place] = held + 1e-5
            above = loss()
            array[place] = held - 1e-5
            expected[name][place] = (above - loss()) / 2e-5
            array[place] = held
    return weights, x, norm, d_output, expected


def made_layer(weights):
    return vkattn.Layer("mha", weights, embed_dim=WIDTH, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=SIZE)


def close(made, expected, times=1):
    made = numpy.asarray(made, "float64").reshape(expected.shape) / times
    return ((made - expected) ** 2).sum() <= 1e-9 * max((expected**2).sum(), 1e-2)


def test_gradients_of_numpy_arrays(problem):
    weights, x, norm, d_output, expected = problem
    layer = made_layer(weights)
    made = layer.backward(x, d_output, gradients=list(expected), norm=norm, is_causal=True)
    assert list(made) == list(expected)
    assert all(isinstance(each, numpy.ndarray) and each.dtype == numpy.float32 for each in made.values())
    assert [name for name in expected if not close(made[name], expected[name])] == []


def test_saved_activations_give_the_same_bits_on_the_device(problem):
    weights, x, norm, d_output, expected = problem
    layer, context = made_layer(weights), vkattn.default_context()
    x, norm, d_output = (context.array(each) for each in (x, norm, d_output))
    again = layer.backward(x, d_output, gradients=list(expected), norm=norm, is_causal=True)
    activations = layer.activations(x, norm=norm, is_causal=True)
    output = layer(x, norm=norm, is_causal=True, activations=activations)
    saved = layer.backward(x, d_output, gradients=list(expected), norm=norm, is_causal=True, activations=activations)
    assert all(isinstance(each, vkattn.Array) for each in saved.values())
    assert all((saved[name].numpy() == again[name].numpy()).all() and close(saved[name].numpy(), expected[name]) for name in expected)
    assert numpy.allclose(output.numpy(), layer(x, norm=norm, is_causal=True).numpy(), atol=1e-5)


def test_gradients_accumulate_and_add_a_branch(problem):
    weights, x, norm, d_output, expected = problem
    layer, context = made_layer(weights), vkattn.default_context()
    sums = {name: context.array(numpy.zeros(expected[name].shape, "float32")) for name in ("norm", "q_proj.weight")}
    for _ in range(2):
        made = layer.backward(x, d_output, gradients=("query", *sums), residual=d_output, norm=norm, is_causal=True, into=sums, accumulate=True)
    assert close(made["query"] - d_output, expected["query"])
    assert all(made[name] is sums[name] and close(made[name].numpy(), expected[name], 2) for name in sums)


def test_a_recorded_step_is_replayed(problem):
    weights, x, norm, d_output, expected = problem
    layer, context = made_layer(weights), vkattn.default_context()
    x, norm, d_output = (context.array(each) for each in (x, norm, d_output))
    with vkattn.record() as program:
        activations = layer.activations(x, norm=norm, is_causal=True)
        layer(x, norm=norm, is_causal=True, activations=activations)
        made = layer.backward(x, d_output, gradients=("query", "v_proj.weight"), norm=norm, is_causal=True, activations=activations)
    for _ in range(2):
        program.replay()
        assert all(close(made[name].numpy(), expected[name]) for name in made)


def test_results_lie_apart(problem):
    weights, x, norm, d_output, _ = problem
    layer, context = made_layer(weights), vkattn.default_context()
    bias = weights["q_proj.bias"].shape[0]
    flat = context.array(numpy.full(4 * bias + 4096, -7, "float32"))
    with pytest.raises(ValueError, match="into: q_proj.bias begins 1 elements behind where a binding may begin, expected none"):
        layer.backward(x, d_output, gradients="q_proj.bias", into={"q_proj.bias": flat[1:1 + bias]})
    with pytest.raises(ValueError, match="out: shares memory with another result, expected memory of its own"):
        layer.backward(x, d_output, gradients=("q_proj.bias", "k_proj.bias"),
                       into={name: flat[:weights[name].shape[0]] for name in ("q_proj.bias", "k_proj.bias")})
    given = context.array(x)
    shared = given.reshape(given.size)[:bias]
    with pytest.raises(ValueError, match="out: shares memory with query, expected memory of its own"):
        layer.backward(given, context.array(d_output), gradients="q_proj.bias", into={"q_proj.bias": shared})
    assert (flat.numpy() == -7).all()
    saved = layer.activations(x)
    room = context.empty((saved.size + 4,), "float32")[3:3 + saved.size].reshape(saved.shape)
    with pytest.raises(vkattn.VkattnError, match="activations: offset 3, expected 0"):
        layer(x, activations=room)


def test_plans_of_new_results_are_not_kept(problem):
    weights, x, _, d_output, _ = problem
    layer = made_layer(weights)
    for _ in range(3):
        layer.backward(x, d_output, gradients=("q_proj.weight",))
    assert not layer._plans


@pytest.mark.parametrize("arguments, error, message", [
    ({"gradients": ("o_proj.weight",)}, ValueError, "gradients: 'o_proj.weight', expected some of query, key, value, norm, "),
    ({"gradients": ()}, ValueError, r"gradients: \(\), expected one at least, each once"),
    ({"gradients": ("key",)}, ValueError, "gradients: 'key', expected an argument key"),
    ({"gradients": ("q_proj.bias",), "accumulate": True}, ValueError, "into: without q_proj.bias, expected an Array to add to"),
    ({"into": {"q_proj.bias": None}}, ValueError, "into: 'q_proj.bias', expected names that are among gradients"),
    ({"gradients": ("q_proj.bias",), "into": {"q_proj.bias": numpy.zeros(8)}}, TypeError, "into: ndarray for q_proj.bias, expected Arrays"),
    ({"activations": numpy.zeros(8)}, TypeError, "activations: ndarray, expected an Array of Layer.activations"),
    ({"out": None}, TypeError, "out: no argument of a layer's backward pass"),
])
def test_what_cannot_be_is_said_in_a_line(problem, arguments, error, message):
    weights, x, _, d_output, _ = problem
    with pytest.raises(error, match=message):
        made_layer(weights).backward(x, d_output, **arguments)
