"""Encoders: embeddings of texts, and the command embed."""
import json
import shutil

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "jinja2", "safetensors", "tqdm"):
    known(module)

import lm_cases  # noqa: E402
import lm_models  # noqa: E402
import vkattn  # noqa: E402
from vkattn_lm import encoder, files  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # which a command would print


def test_an_encoder_is_what_transformers_has(tmp_path):
    transformers = known("transformers")
    config = transformers.BertConfig(vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=96, max_position_embeddings=24, architectures=["BertModel"])
    torch, made = lm_cases.save(transformers.AutoModel, config, tmp_path)
    texts = ["the cat", "the dog sat on the log; 12 cats and 34 dogs sat there. What is it? It is a cat", "it"]
    made_here = encoder.Encoder(files.open_model(tmp_path), vkattn.default_context(), lm_cases.NoBar())
    for text, vector in zip(texts, made_here.embed(texts)):
        tokens = torch.tensor([lm_models.byte_level().encode(text).ids[:24]])
        with torch.no_grad():
            expected = made(tokens).last_hidden_state[0].mean(0).numpy()
        assert numpy.abs(vector - expected).max() < 1e-4


@pytest.fixture(scope="module")
def bert(tmp_path_factory, inner):
    folder = tmp_path_factory.mktemp("bert")
    lm_models.write_bert(folder, inner)
    return folder


POOLING = {"embedding_dimension": 32, "include_prompt": True}


PROMPTS = {"prompts": {"query": "the cat ", "document": ""}, "default_prompt_name": "query"}


def embedded(tmp_path, bert, texts, changes, **more):
    folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
    shutil.copytree(bert, folder)
    for name, document in changes.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(document))
    made = encoder.Encoder(files.open_model(folder), vkattn.default_context(), lm_cases.NoBar(), **more)
    return made.embed(texts)


def test_pooling_is_as_every_sentence_transformers_writes_it(tmp_path, bert):
    texts = ["the cat sat", "a dog"]
    other = [{"type": "sentence_transformers.models.Transformer", "path": ""},
             {"type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling", "path": "pool"}]
    plain = embedded(tmp_path, bert, texts, {})
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    first = [embedded(tmp_path, bert, texts, changes) for changes in (
        {"1_Pooling/config.json": flags}, {"1_Pooling/config.json": {**POOLING, "pooling_mode": "cls"}},
        {"1_Pooling/config.json": {**POOLING, "pooling_mode": ["cls"]}}, {"pool/config.json": flags, "modules.json": other})]
    means = [embedded(tmp_path, bert, texts, {"1_Pooling/config.json": document}) for document in (
        {**POOLING, "pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True}, POOLING)]
    assert all((each == first[0]).all() for each in first) and all((each == plain).all() for each in means)
    assert numpy.abs(first[0] - plain).max() > 1e-2


def test_prompts_begin_texts_as_sentence_transformers_has_it(tmp_path, bert):
    changes = {"config_sentence_transformers.json": PROMPTS}
    plain, prompted = (embedded(tmp_path, bert, [text], {}) for text in ("sat", "the cat sat"))
    assert (embedded(tmp_path, bert, ["sat"], changes) == prompted).all()
    assert (embedded(tmp_path, bert, ["sat"], changes, prompt_name="document") == plain).all()
    assert (embedded(tmp_path, bert, ["THE CAT sat"], {"sentence_bert_config.json": {"do_lower_case": True}}) == prompted).all()


@pytest.mark.parametrize("changes, says", [
    ({"1_Pooling/config.json": {**POOLING, "pooling_mode": "max"}}, "1_Pooling/config.json: pooling_mode: 'max', expected one of mean, cls"),
    ({"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}, "'pooling_mode_max_tokens'"),
    ({"1_Pooling/config.json": {**POOLING, "pooling_mode": ["cls", "mean"]}}, "pooling_mode: \"['cls', 'mean']\", expected one of"),
    ({"1_Pooling/config.json": {**POOLING, "include_prompt": False}, "config_sentence_transformers.json": PROMPTS}, "include_prompt: False"),
    ({"modules.json": [{"type": "Transformer"}, {"type": "Pooling", "path": "../x"}]}, "expected '' and a folder in this one"),
    ({"modules.json": [{"type": "Transformer"}, {"type": "Pooling", "path": "pool"}]}, "has no pool/config.json"),
    ({"modules.json": {}}, "modules.json: no list of objects"),
    ({"config_sentence_transformers.json": {"prompts": {}, "default_prompt_name": "query"}}, "prompts: query is missing"),
    ({"config.json": {"num_attention_heads": 5}}, ""), ({"sentence_bert_config.json": {"max_seq_length": 0}}, "max_seq_length: 0"),
])
def test_what_embed_does_not_compute_is_refused_by_name(tmp_path, bert, run, changes, says):
    folder = tmp_path / "folder"
    shutil.copytree(bert, folder)
    for name, document in changes.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() and isinstance(document, dict) else {}
        path.write_text(json.dumps({**known, **document} if isinstance(document, dict) and name != "modules.json" else document))
    status, out, err = run("embed", folder, "the cat")
    assert status == 2 and not out and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


def test_embed_tells_what_it_leaves_out(bert, run):
    status, out, err = run("embed", bert, "a cat", "the cat sat on the mat " * 9)
    assert status == 0 and len(out.splitlines()) == 2
    assert err == ["vkattn-lm: text 2: longer than the model's 16 tokens: the rest is left out"]
    status, out, err = run("embed", bert, given="a cat\n\n")
    assert status == 2 and err == ["vkattn-lm: error: text '': no tokens, expected at least 1"]


def test_embed_refuses_tokens_that_the_embeddings_have_not(tmp_path, bert, run):
    folder = tmp_path / "folder"
    shutil.copytree(bert, folder)
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    document["model"]["vocab"]["a"] = 2**32 - 1
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    status, _, err = run("embed", folder, "a")
    assert status == 2 and len(err) == 1 and "token 4294967295 of kind 0, expected what the embeddings have" in err[0]
