"""Hybrids: layers of linear attention, whose states go on, go back and do not grow."""
import json

import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import lm_cases  # noqa: E402
from vkattn_lm import errors  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """(the folder of a hybrid, what a list of tokens gives last)"""
    transformers = known("transformers")
    folder = tmp_path_factory.mktemp("hybrid")
    torch, made = lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()["qwen3-next"], folder)

    def expected(tokens):
        with torch.no_grad():
            return made(torch.tensor([tokens])).logits[0, -1].numpy()
    return folder, expected


def test_a_state_goes_back_by_a_copy(hybrid, monkeypatch):
    folder, expected = hybrid
    decoder, given = lm_cases.decoder_of(folder), [i * 11 % 300 for i in range(3, 27)]
    computed, layers = [], decoder.layers

    def counted(hidden, progress=None):
        computed.append(hidden.shape[1])
        return layers(hidden, progress)
    monkeypatch.setattr(decoder, "layers", counted)

    def check(tokens, appended, again):
        """Appended tokens give what all of them would, and so many were computed once more."""
        computed.clear()
        decoder.rewind(len(tokens) - len(appended))
        assert sum(computed) == again and decoder.length == len(tokens) - len(appended)
        assert lm_cases.nmse(decoder.logits(appended), expected(tokens)) < 1e-9
    check(given[:6], given[:6], 0)
    check(given[:10], given[6:10], 0)  # whose beginning is copied
    check(given[:11], given[10:11], 0)
    check([*given[:9], 7, 8], [7, 8], 3)  # from the copy, of 6 tokens
    check([*given[:9], 5], [5], 0)  # in front of what was just computed: a copy is made of its beginning
    check([*given[:4], 9], [9], 4)  # before it: from the beginning
    check(given[:2], given[:2], 0)
    with pytest.raises(errors.ModelError, match="rewind: 3 tokens, expected at most 2"):
        decoder.rewind(3)


def test_a_state_that_was_interrupted_is_not_gone_on_from(hybrid, monkeypatch):
    folder, expected = hybrid
    decoder, given = lm_cases.decoder_of(folder), [i * 11 % 300 for i in range(3, 27)]
    decoder.logits(given[:6])
    fed, calls = decoder._fed_forward, []

    def interrupted(block, hidden):
        calls.append(block)
        if len(calls) == 2:  # behind the first state, before the second
            raise KeyboardInterrupt
        return fed(block, hidden)
    monkeypatch.setattr(decoder, "_fed_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decoder.logits(given[6:9])
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # while it computes tokens once more
        decoder.rewind(4)
    monkeypatch.undo()
    decoder.rewind(4)
    assert decoder.length == 4 and lm_cases.nmse(decoder.logits(given[4:6]), expected(given[:6])) < 1e-9
    assert decoder.length == 6 and lm_cases.nmse(decoder.logits(given[6:12]), expected(given[:12])) < 1e-9


def test_a_state_does_not_grow_with_the_context(hybrid):
    short, long = (lm_cases.decoder_of(hybrid[0], capacity=capacity) for capacity in (32, 320))
    sizes = short.config.linear
    of_layer = 4 * (sizes.value_heads * sizes.key_dim * sizes.value_dim + (sizes.kernel - 1) * sizes.channels)  # as estimate counts
    for decoder in (short, long):
        states = [cache for cache in decoder.caches if hasattr(cache, "state")]
        assert len(states) == 2 and all(each.nbytes == 2 * of_layer for each in states)  # with a copy
    rows = [decoder.cache_bytes - 4 * of_layer for decoder in (short, long)]
    assert rows[1] > 5 * rows[0]


@pytest.mark.parametrize("name, changes, says", [
    ("qwen3-next", {"num_experts": 4, "mlp_only_layers": [0, 2]}, "num_experts: 4: Mixture-of-experts, of layer 1, is not computed"),
    ("kimi linear", {"mlp_layer_types": ["dense", "dense", "sparse", "dense"]}, "of layer 2, is not computed, expected dense layers"),
    ("qwen3.5", {"layer_types": ["linear_attention"] * 4}, "no layer has softmax attention, expected at least one"),
    ("qwen3.5", {"layer_types": ["linear_attention", "mamba"] * 2}, "layer_types: 4 with 'mamba', expected 4 of linear_attention"),
    ("qwen3.5", {"linear_num_value_heads": 5}, "5 value heads of linear attention, expected a multiple of its 2 key heads"),
    ("qwen3.5", {"linear_conv_kernel_dim": 5}, "linear_conv_kernel_dim: 5, expected a whole number from 2 to 4"),
    ("qwen3.5", {"rope_parameters": {"partial_rotary_factor": 0.1}}, "partial_rotary_factor: 0.1, expected an even number"),
    ("qwen3.5", {"output_gate_type": "sigmoid"}, "output_gate_type: 'sigmoid', expected none, or 'silu', or 'swish'"),
    ("kimi linear", {"mla_use_nope": False}, "mla_use_nope: False, expected none, or True"),
    ("kimi linear", {"linear_attn_config": {"gate_lower_bound": -5.0}}, "gate_lower_bound: -5.0, expected none"),
])
def test_what_of_hybrids_is_not_computed_is_refused_by_name(tmp_path, run, name, changes, says):
    transformers = known("transformers")
    lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()[name], tmp_path)
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**document, **changes}))
    status, _, err = run("complete", tmp_path, "x")
    assert status == 2 and len(err) == 1 and says in err[0] and err[0].count("expected") == 1
