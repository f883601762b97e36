"""vkattn-lm finetune: gradients and the curve beside PyTorch's, runs that were ended and go on, adapters that models take."""
import dataclasses
import errno
import io
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import types

import numpy
import pytest
from tested_packages import known

for module in ("gguf", "tokenizers", "safetensors", "tqdm"):
    known(module)

import lm_cases  # noqa: E402
import lm_models  # noqa: E402
import safetensors.numpy  # noqa: E402
import vkattn  # noqa: E402
from vkattn_lm import adapter, command, errors, files, finetune, model, tokenizer, training  # noqa: E402

ROOT = pathlib.Path(__file__).parents[3]
TEXT = (ROOT / "LICENSE").read_text(encoding="utf-8")
SIZES = lm_models.SIZES
PREFIX = "base_model.model.model.layers"
ALPHA = 64 / 3  # divided by the rank no power of two, so that what is scaled is rounded
SMALL = ("--batch", 2, "--length", 16, "--rank", 4, "--alpha", ALPHA, "--learning-rate", 0.01, "--warmup", 2, "--quiet")


@pytest.fixture(scope="module")
def weights():
    made = lm_models.weights_of(lm_models.byte_level().get_vocab_size(), **SIZES)
    return {**made, "token_embd.weight": made["token_embd.weight"] / 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, weights):
    made = tmp_path_factory.mktemp("model")
    lm_models.write_folder(made, weights, SIZES)
    return made


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def run(capsys, monkeypatch):
    """A command's exit status, lines of output and lines of errors."""
    def of(*words):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        capsys.readouterr()
        status = command.main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err.splitlines()
    return of


def trainer_of(path, recompute=False, **recipe):
    source = files.open_model(path)
    config = source.config()
    made = training.Recipe(**{"targets": training.checked_targets(None, config, source.where), "batch": 2, "length": 12, "rank": 3,
                              "alpha": 6.0, "learning_rate": 5e-4, "warmup": 10, "weight_decay": 0.0, "clip": 1.0, "seed": 0, **recipe})
    return training.Trainer(source, config, lm_cases.context_with(0), made, recompute, lm_cases.NoBar())


def begin_with_noise(trainer):
    """Adapters whose B are not zeros, so that gradients of A are not either."""
    random = numpy.random.default_rng(6)
    trainer._b.set([random.standard_normal((rows, trainer.recipe.rank)) / 8 for rows, _ in trainer._matrices.values()])


def some_tokens(batch, length):
    return (numpy.arange(3, 3 + batch * (length + 1)) * 11 % 290).reshape(batch, length + 1)


class LowRank:
    """An adapter of a torch.nn.Linear, added by a hook."""

    def __init__(self, torch, linear, update):
        self.a, self.b = (torch.from_numpy(matrix.copy()).to(linear.weight.dtype).requires_grad_() for matrix in (update.a, update.b))
        linear.register_forward_hook(lambda _, given, output: output + update.scale * given[0] @ self.a.T @ self.b.T)


def adapted(torch, model, trainer):
    """The adapters of a model of transformers, by GGUF's names, which begin as the trainer's are."""
    model.requires_grad_(False)
    modules = {part: f"{of}.{own}" for own, (of, part) in adapter.modules_of(trainer.config.architecture).items()}
    found = {}
    for name, update in trainer.updates().items():
        _, layer, part, _ = name.split(".")
        found[name] = LowRank(torch, model.get_submodule(f"model.layers.{layer}.{modules[part]}"), update)
    return found


def loss_of(torch, model, rows):
    logits = model(torch.from_numpy(rows[:, :-1].astype("i8"))).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(rows[:, 1:].astype("i8")).flatten())


@pytest.mark.parametrize("name", ["llama", "biases", "llama3 scaling", "yarn", "mistral", "qwen2", "qwen3", "gemma3", "phi3",
                                  "phi3, many tokens"])
def test_gradients_are_pytorchs(tmp_path, name):
    transformers = known("transformers")
    torch, model = lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()[name], tmp_path)
    trainer, rows = trainer_of(tmp_path, clip=1e6), some_tokens(2, 12)
    begin_with_noise(trainer)
    found = adapted(torch, model.double(), trainer)
    loss = loss_of(torch, model, rows)
    loss.backward()
    assert trainer.step(rows[:, :-1], rows[:, 1:], 0.0) == pytest.approx(loss.item(), rel=1e-5)
    for part, parameters, scale in (("a", trainer._a, 1), ("b", trainer._b, trainer.recipe.scale)):
        for name, view in zip(trainer._matrices, parameters.views(parameters.gradient)):
            expected = getattr(found[name], part).grad.numpy()
            assert lm_cases.nmse(view.numpy() * scale, expected) < 1e-8, (name, part)


def test_the_curve_is_pytorchs(folder, text):
    transformers, torch = known("transformers"), known("torch")
    trainer = trainer_of(folder, length=24, rank=4, learning_rate=0.02, warmup=5, weight_decay=0.1, seed=3)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = adapted(torch, model, trainer)
    recipe, sequences = trainer.recipe, finetune.Sequences("", files.open_model(folder).tokenizer().encode(TEXT), 24, 0.2)
    parameters = [parameter for each in found.values() for parameter in (each.a, each.b)]
    optimizer = torch.optim.AdamW(parameters, weight_decay=recipe.weight_decay)
    losses, expected = [], []
    for step in range(30):
        tokens, labels = sequences.of_step(step, recipe.batch, recipe.seed)
        losses.append(trainer.step(tokens, labels, recipe.rate_of(step)))
        optimizer.param_groups[0]["lr"] = recipe.rate_of(step)
        optimizer.zero_grad()
        loss = loss_of(torch, model, numpy.concatenate([tokens, labels[:, -1:]], axis=1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, recipe.clip)
        optimizer.step()
        expected.append(loss.item())
    assert losses == pytest.approx(expected, rel=0.01) and losses[-1] < 0.9 * losses[0]
    for name, update in trainer.updates().items():
        for part in "ab":
            assert lm_cases.nmse(getattr(update, part), getattr(found[name], part).detach().numpy()) < 1e-4


def test_peft_takes_an_adapter(folder, text, tmp_path, run):
    peft, transformers, torch = known("peft"), known("transformers"), known("torch")
    status, _, err = run("finetune", folder, text, "--output", tmp_path / "made", "--steps", 3, *SMALL)
    assert status == 0, err
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(model, tmp_path / "made")
    tokens = [5, 6, 7, 8, 9]
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0, -1].numpy()
        with model.disable_adapter():
            assert lm_cases.nmse(model(torch.tensor([tokens])).logits[0, -1].numpy(), expected) > 1e-4
    assert lm_cases.nmse(logits_with(folder, tmp_path / "made", tokens), expected) < 1e-9


def logits_with(path, adapter_folder, tokens):
    source = files.open_model(path)
    source = adapter.Adapted(source, adapter_folder) if adapter_folder else source
    made = model.Decoder(source, source.config(), lm_cases.context_with(0), capacity=32, kv_type="f32", progress=lm_cases.NoBar())
    return made.logits(tokens)


@pytest.mark.parametrize("kind, bound", [("F32", 1e-9), ("F16", 1e-5), ("BF16", 1e-5), ("Q8_0", 1e-5), ("Q5_1", 1e-5)])
def test_a_model_with_an_adapter_is_as_it_was_in_training(tmp_path, weights, kind, bound):
    """Of a GGUF file, whose rows of q and k lie in another order than the adapter's; sums that are not float32 are rounded to float16."""
    held = lm_models.write_gguf(tmp_path / "model.gguf", weights, SIZES, kind)
    trainer, rows = trainer_of(tmp_path / "model.gguf"), some_tokens(2, 12)
    begin_with_noise(trainer)
    tokens, labels = rows[:, :-1], rows[:, 1:]
    losses = trainer.losses(tokens, labels)
    adapter.write(tmp_path, trainer.config, trainer.updates(), "model", trainer.recipe.targets)
    summed = dict(held)
    for name, update in trainer.updates().items():
        summed[name] = held[name] + update.scale * update.b @ update.a
    for row, label, loss in zip(tokens, labels, losses):
        logits = lm_models.logits_of(summed, SIZES, row)
        exact = numpy.log(numpy.exp(logits).sum(-1)) - logits[numpy.arange(len(label)), label]
        assert lm_cases.nmse(loss, exact) < 1e-9
        assert lm_cases.nmse(logits_with(tmp_path / "model.gguf", tmp_path, row.tolist()), logits[-1]) < bound
    plain = lm_models.logits_of(held, SIZES, tokens[0])[-1]
    assert lm_cases.nmse(logits_with(tmp_path / "model.gguf", None, tokens[0].tolist()), plain) < 1e-9


def test_layers_that_are_computed_again_and_logits_in_parts_are_the_same(folder, monkeypatch):
    rows, states = some_tokens(2, 12), []
    for recompute, at_once in ((False, 1 << 20), (True, 1 << 20), (False, 7 * 300)):
        monkeypatch.setattr(training, "LOGITS_AT_ONCE", at_once)
        trainer = trainer_of(folder, recompute=recompute, learning_rate=0.01)
        for _ in range(3):
            trainer.step(rows[:, :-1], rows[:, 1:], 0.01)
        states.append(trainer.state())
    assert all((states[0][name] == states[1][name]).all() for name in states[0])
    assert all(lm_cases.nmse(states[2][name], states[0][name]) < 1e-9 for name in states[0] if states[0][name].any())


def test_memory_of_what_is_no_more_needed_is_used_again(tmp_path, monkeypatch):
    """Where layers are computed again, each more takes memory for its hidden states and what it learns alone."""
    made = []

    class Counted(vkattn.context._Buffer):
        def __init__(self, context_handle, size, handle=None):
            super().__init__(context_handle, size, handle)
            made.append(0 if handle else size)

    def taken(layers, recompute):
        """(bytes but for weights, numbers that are learned)"""
        made.clear()
        trainer = trainer_of(tmp_path / str(layers), recompute, batch=4, length=32)
        return numpy.array([sum(made) - trainer.weight_bytes, trainer.parameters])

    monkeypatch.setattr(vkattn.context, "_Buffer", Counted)
    for layers in (2, 8):
        (tmp_path / str(layers)).mkdir()
        sizes = {**SIZES, "layers": layers}
        lm_models.write_folder(tmp_path / str(layers), lm_models.weights_of(300, **sizes), sizes)
    hidden = 4 * 4 * 32 * SIZES["width"]
    (kept, learned), (again, _) = ((taken(8, recompute) - taken(2, recompute)) / 6 for recompute in (False, True))
    assert kept > 8 * hidden and again < 1.02 * (hidden + 5 * 4 * learned)


def lines_of(out):
    """(step, loss) of lines, with those of what is held out."""
    split = [line.replace(",", "").replace(":", "").split() for line in out]
    return [(int(words[1]), float(words[3])) for words in split if words[2] == "loss"], [
        (int(words[1]), float(words[4])) for words in split if words[2] == "held-out"]


def contents(path):
    return {each.name: each.read_bytes() for each in path.iterdir()}


@pytest.fixture(scope="module")
def whole(folder, text, tmp_path_factory):
    """The files of a run of 12 steps that nothing ended."""
    path = tmp_path_factory.mktemp("whole") / "made"
    words = ("finetune", folder, text, "--output", path, "--steps", 12, "--save-every", 4, "--every", 1, *SMALL)
    assert command.main([str(word) for word in words]) == 0
    return path


def test_a_run_learns_and_says_so(whole, folder, text, tmp_path, run):
    status, out, err = run("finetune", folder, text, "--output", tmp_path / "made", "--steps", 12, "--save-every", 4, "--every", 3, *SMALL)
    assert status == 0 and not err
    losses, held_out = lines_of(out)
    assert [step for step, _ in losses] == [3, 6, 9, 12] and [step for step, _ in held_out] == [0, 4, 8, 12]
    assert losses[-1][1] < losses[0][1] and held_out[-1][1] < held_out[0][1]
    told = json.loads((tmp_path / "made" / finetune.LOSSES).read_text())
    assert [row["step"] for row in told["losses"]] == list(range(1, 13)) and told["held_out"][0]["step"] == 0
    assert [row["learning_rate"] for row in told["losses"][:3]] == [0.005, 0.01, 0.01]
    assert round(told["losses"][-1]["loss"], 4) == losses[-1][1]
    assert contents(tmp_path / "made") == contents(whole)  # the same bits, however often lines are printed
    described = json.loads((whole / adapter.CONFIG).read_text())
    assert (described["peft_type"], described["r"], described["lora_alpha"], described["task_type"]) == ("LORA", 4, ALPHA, "CAUSAL_LM")
    named = safetensors.numpy.load_file(whole / adapter.WEIGHTS)
    assert named[f"{PREFIX}.1.self_attn.q_proj.lora_A.weight"].shape == (4, SIZES["width"])
    assert named[f"{PREFIX}.0.mlp.down_proj.lora_B.weight"].shape == (SIZES["width"], 4) and len(named) == 2 * 2 * 7


KILLED = """
import os, signal, sys
from vkattn_lm import command, training
step, steps = training.Trainer.step, []


def killed(*given):
    steps.append(given)
    if len(steps) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*given)


training.Trainer.step = killed
command.main(sys.argv[2:])
"""


def test_a_killed_run_goes_on_to_the_same_bits(whole, folder, text, tmp_path, run):
    path, at = tmp_path / "made", 1 + os.getpid() % 12
    words = ("finetune", folder, text, "--output", path, "--steps", 12, "--save-every", 4, "--every", 1, *SMALL)
    process = subprocess.run([sys.executable, "-B", "-c", KILLED, str(at), *map(str, words)], capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert process.returncode == -signal.SIGKILL, process.stderr
    status, out, err = run(*words)
    assert status == 0, err
    assert lines_of(out)[0][0][0] == (at - 1) // 4 * 4 + 1  # after what was kept last
    assert contents(path) == contents(whole)
    assert run(*words)[:2] == (0, [])  # which is done


@pytest.mark.parametrize("ended_in", ["write_whole", "train"])
def test_a_run_that_ended_anywhere_goes_on_to_the_same_bits(whole, folder, text, tmp_path, run, monkeypatch, ended_in):
    path, calls = tmp_path / "made", []
    words = ("finetune", folder, text, "--output", path, "--steps", 12, "--save-every", 4, "--every", 1, *SMALL)
    if ended_in == "train":
        step = training.Trainer.step

        def patched(*given):
            calls.append(given)
            if len(calls) in (3, 9, 10):
                raise KeyboardInterrupt
            return step(*given)
        monkeypatch.setattr(training.Trainer, "step", patched)
    else:
        def patched(path, content):
            calls.append(path)
            if len(calls) in (1, 3, 5, 10, 17):  # of four files each time
                (path.parent / (path.name + files.PARTIAL)).write_bytes(content[:100])
                raise KeyboardInterrupt
            files.write_whole(path, content)
        monkeypatch.setattr(finetune, "write_whole", patched)
        monkeypatch.setattr(adapter, "write_whole", patched)
    ends = [run(*words)[0] for _ in range(6)]
    assert 130 in ends and ends[-1] == 0
    assert {name: content for name, content in contents(path).items() if files.PARTIAL not in name} == contents(whole)


def test_a_run_takes_more_steps_and_no_other_options(whole, folder, text, tmp_path, run, monkeypatch):
    path = tmp_path / "made"
    shutil.copytree(whole, path)
    given = ("finetune", folder, text, "--output", path, "--save-every", 4)
    for options, says in [
            ((*SMALL, "--steps", 12, "--rank", 8), "was begun with --rank 4, expected the same, or another folder"),
            ((*SMALL, "--steps", 12, "--learning-rate", 0.5), "was begun with --learning-rate 0.01, expected"),
            ((*SMALL, "--steps", 12, "--target-modules", "q_proj"), "was begun with --target-modules q_proj,k_proj,v_proj,o_proj"),
            ((*SMALL, "--steps", 12, "--held-out", 0), "was begun with --held-out 0.1"),
            ((*SMALL, "--steps", 11), "has done 12 steps, expected --steps of at least so many")]:
        status, out, err = run(*given, *options)
        assert status == 2 and not out and len(err) == 1 and f"{path}: {says}" in err[0], err
    other = tmp_path / "other.txt"
    other.write_text(TEXT + " ", encoding="utf-8")
    status, _, err = run("finetune", folder, other, "--output", path, "--steps", 12, *SMALL)
    assert status == 2 and f"{path}: was begun with another TEXT, expected the same, or another folder" in err[0]
    encode = tokenizer.Tokenizer.encode
    monkeypatch.setattr(tokenizer.Tokenizer, "encode", lambda *given, **more: encode(*given, **more)[:-1])
    status, _, err = run("finetune", folder, text, "--output", path, "--steps", 12, *SMALL)
    assert status == 2 and f"{path}: was begun with another tokenizer, expected the same" in err[0]
    monkeypatch.undo()
    assert contents(path) == contents(whole)
    status, out, err = run(*given, *SMALL, "--steps", 14, "--every", 1)
    assert status == 0 and [step for step, _ in lines_of(out)[0]] == [13, 14]


def test_a_folder_has_one_run_at_a_time(whole, folder, text, tmp_path, run):
    path = tmp_path / "made"
    words = ("finetune", folder, text, "--output", path, "--steps", 12, *SMALL)
    shutil.copytree(whole, path)
    with files.held(path / finetune.LOCK, "held"):
        status, out, err = run(*words)
        assert status == 2 and not out and len(err) == 1
        assert f"{path}: another vkattn-lm finetune runs there, expected its end, or another folder" in err[0]
        assert contents(path) == contents(whole)
    assert run(*words)[0] == 0


def test_a_file_that_cannot_be_written_is_named_and_left_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write_whole(path, b"whole")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.ModelError, match="file: cannot be written .No space left on device., expected room for it"):
        files.write_whole(path, b"more")
    assert contents(tmp_path) == {"file": b"whole"}


def test_weights_that_diverged_are_not_kept(whole, folder, text, tmp_path, run, monkeypatch):
    """Also where nothing is held out whose loss would tell."""
    step, path = training.Trainer.step, tmp_path / "made"

    def diverging(trainer, *given):
        loss = step(trainer, *given)
        trainer._b.read.assign(numpy.full(trainer._b.read.shape, numpy.nan, "f4"))
        return loss
    words = ("finetune", folder, text, "--output", path, "--held-out", 0, *SMALL)
    assert run(*words, "--steps", 1)[0] == 0
    kept = contents(path)
    monkeypatch.setattr(training.Trainer, "step", diverging)
    status, _, err = run(*words, "--steps", 2)
    assert status == 2 and "after step 2: loss nan, expected a number" in err[-1]
    assert contents(path) == kept


def test_a_model_is_known_again_by_all_its_files(folder, weights, tmp_path):
    def identities(path, among):
        """A model's, and those with a byte changed in the middle of each of these files."""
        source = files.open_model(path)
        made = {finetune.identity_of(source)}
        for each in among:
            content = each.read_bytes()
            at = len(content) // 2
            each.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
            made.add(finetune.identity_of(source))
            each.write_bytes(content)
        return made
    copy = tmp_path / "folder"
    shutil.copytree(folder, copy)
    named = [copy / name for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")]
    assert len(identities(copy, named)) == 5
    parts = lm_cases.split(tmp_path, weights, 3)
    assert len(identities(parts[1], parts)) == 4
    assert identities(parts[0], []) == identities(parts[1], [])


def test_large_files_are_known_again_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(finetune, "_SAMPLE", 8)
    path, read = tmp_path / "model.gguf", set()
    content = bytes(range(256)) * 40
    path.write_bytes(content)
    source = types.SimpleNamespace(paths=[path])
    known_as = finetune.identity_of(source)
    for at in range(0, len(content), 4):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        if finetune.identity_of(source) != known_as:
            read.add(at // 40)
    assert read == set(range(256))  # an interval each


def test_what_is_no_runs_is_kept(folder, text, tmp_path, run):
    (tmp_path / "notes").write_text("of mine")
    status, out, err = run("finetune", folder, text, "--output", tmp_path, *SMALL)
    assert status == 2 and not out and f"{tmp_path}: holds notes, expected a new or empty folder" in err[0]
    status, out, err = run("finetune", folder, text, "--output", tmp_path / "notes", *SMALL)
    assert status == 2 and f"{tmp_path / 'notes'}: is no folder, expected one, or a new name" in err[0]
    assert contents(tmp_path) == {"notes": b"of mine"}
    broken = tmp_path / "broken"
    broken.mkdir()
    for content in (b"", b"x" * 100, safetensors.numpy.save({"x": numpy.zeros(1)}),
                    safetensors.numpy.save({"x": numpy.zeros(1)}, {"vkattn-lm finetune": "{}"})):
        (broken / finetune.CHECKPOINT).write_bytes(content)
        status, _, err = run("finetune", folder, text, "--output", broken, *SMALL)
        assert status == 2 and len(err) == 1 and f"{broken / finetune.CHECKPOINT}: " in err[0] and "expected a checkpoint" in err[0]


@pytest.mark.parametrize("words, says", [
    (("--rank", 0), "argument --rank: '0', expected a whole number from 1"),
    (("--target-modules", "q_proj,qkv_proj"), "--target-modules: 'qkv_proj', expected some of q_proj, k_proj"),
    (("--target-modules", ""), "--target-modules: '', expected some of q_proj"),
    (("--length", 65), "--length 65: expected at most 64, which the model was made for"),
    (("--held-out", 1), "argument --held-out: '1', expected a number from 0 to 0.9"),
    (("--steps", 0), "argument --steps: '0', expected a whole number from 1")])
def test_options_that_cannot_be_are_refused(folder, text, tmp_path, run, words, says):
    status, out, err = run("finetune", folder, text, "--output", tmp_path / "made", *SMALL, *words)
    assert status == 2 and not out and len(err) == 1 and says in err[0], err
    assert not (tmp_path / "made").exists()


def test_texts_that_cannot_be_are_refused(folder, tmp_path, run):
    for content, says in ((None, "No such file"), (b"", "0 tokens, expected at least 34, two sequences of --length 16 and one more"),
                          (b"a cat", "expected at least 34"), (b"\xff\xfe", "is no UTF-8, expected a text in UTF-8")):
        path = tmp_path / "text"
        path.write_bytes(content) if content is not None else None
        status, out, err = run("finetune", folder, path, "--output", tmp_path / "made", *SMALL)
        assert status == 2 and not out and len(err) == 1 and f"{path}: " in err[0] and says in err[0], err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("held_out, words", [(0, "loss"), (0.1, "held-out loss")])
def test_a_loss_that_is_no_number_ends_a_run(weights, text, tmp_path, run, held_out, words):
    norm = weights["output_norm.weight"].copy()
    norm[3] = numpy.nan
    lm_models.write_folder(tmp_path, {**weights, "output_norm.weight": norm}, SIZES)
    status, out, err = run("finetune", tmp_path, text, "--output", tmp_path / "made", "--held-out", held_out, *SMALL)
    assert status == 2 and not out and f"after step 0: {words} nan, expected a number: of a model that has one, by a" in err[-1]


@pytest.mark.parametrize("name, says", [("deepseek v2", "the gradients of multi-head latent attention are not computed"),
                                        ("qwen3.5", "the gradients of linear attention are not computed")])
def test_models_without_gradients_are_refused_by_name(tmp_path, text, run, name, says):
    transformers = known("transformers")
    lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()[name], tmp_path)
    status, _, err = run("finetune", tmp_path, text, "--output", tmp_path / "made", *SMALL)
    assert status == 2 and len(err) == 1 and says in err[0] and err[0].count("expected") == 1


def described(path):
    return json.loads((path / adapter.CONFIG).read_text())


def with_fact(**facts):
    return lambda path: (path / adapter.CONFIG).write_text(json.dumps({**described(path), **facts}))


def with_weights(change):
    def of(path):
        named = safetensors.numpy.load_file(path / adapter.WEIGHTS)
        safetensors.numpy.save_file(change(named), path / adapter.WEIGHTS)
    return of


Q_A, Q_B = (f"{PREFIX}.0.self_attn.q_proj.lora_{part}.weight" for part in "AB")


@pytest.mark.parametrize("harm, says", [
    (lambda path: (path / adapter.CONFIG).unlink(), "has no adapter_config.json, expected the folder of an adapter of PEFT"),
    (lambda path: (path / adapter.CONFIG).write_text("[]"), "adapter_config.json: holds a list, expected a JSON file with an object"),
    (lambda path: (path / adapter.WEIGHTS).unlink(), "adapter_model.safetensors: no such file"),
    (lambda path: (path / adapter.WEIGHTS).write_bytes(b"x" * 40), "adapter_model.safetensors: "),
    (with_fact(peft_type="IA3"), "peft_type: 'IA3', expected 'LORA'"),
    (with_fact(use_dora=True), "use_dora: True, expected none: nothing else is computed"),
    (with_fact(init_lora_weights="pissa_niter_4"), "init_lora_weights: 'pissa_niter_4', expected none, or True, or 'gaussian', or"),
    (with_fact(kasa_config={"beta": 0.1}), "kasa_config: {'beta': 0.1}, expected none"),
    (with_fact(modules_to_save=["lm_head"]), "modules_to_save: ['lm_head'], expected none"),
    (with_fact(alpha_pattern={"q_proj": 4}), "alpha_pattern: {'q_proj': 4}, expected none"), (with_fact(r=0), "r: 0, expected"),
    (with_fact(lora_alpha=None), "lora_alpha is missing, expected"), (with_fact(r=5), "expected A [5, in] and B [out, 5] of rank 5"),
    (with_weights(lambda named: {**named, Q_A: named[Q_A][:, :5].copy()}), "blk.0.attn_q.weight: of shape [128, 5], expected [128, 64]"),
    (with_weights(lambda named: {name: value for name, value in named.items() if name != Q_B}), "blk.0.attn_q.weight: {'A': [4, 64]}"),
    (with_weights(lambda named: {**named, "base_model.model.x": named[Q_A]}), "base_model.model.x is not computed, expected"),
    (with_weights(lambda named: {**named, **{name.replace("layers.0", "layers.7"): named[name] for name in (Q_A, Q_B)}}),
     "model.layers.7.self_attn.q_proj.weight is no weight of"),
    (with_weights(lambda named: {}), "holds no weights, expected those of an adapter")])
def test_adapters_that_do_not_fit_are_refused(whole, folder, tmp_path, run, harm, says):
    path = tmp_path / "adapter"
    shutil.copytree(whole, path)
    harm(path)
    status, out, err = run("complete", folder, "the cat", "--adapter", path, "--tokens", 2)
    assert status == 2 and not out and len(err) == 1 and says in err[0] and err[0].count("expected") == 1, err


def test_adapters_of_value_heads_that_a_file_has_in_another_order_are_refused(tmp_path):
    transformers, path = known("transformers"), tmp_path / "adapter"
    lm_cases.save(transformers.AutoModelForCausalLM, lm_cases.configs()["qwen3.5"], tmp_path)
    config, name = files.open_model(tmp_path).config(), f"{PREFIX}.0.linear_attn.out_proj"
    path.mkdir()
    safetensors.numpy.save_file({f"{name}.lora_{part}.weight": numpy.zeros((4, 4), "f4") for part in "AB"}, path / adapter.WEIGHTS)
    (path / adapter.CONFIG).write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 4, "init_lora_weights": "gaussian"}))
    one_each = dataclasses.replace(config.linear, value_heads=config.linear.key_heads)
    for fitting in (config, dataclasses.replace(config, tiled_values=True, linear=one_each)):
        assert list(adapter.read(path, fitting)) == ["blk.0.ssm_out.weight"]
    with pytest.raises(errors.ModelError, match="out_proj.lora_A.weight is not computed with a GGUF file, which has the value heads"):
        adapter.read(path, dataclasses.replace(config, tiled_values=True))


def test_commands_take_an_adapter(whole, folder, text, run):
    """Which makes a text that it was trained with likelier."""
    plain, with_it = (run("perplexity", folder, text, "--quiet", *more) for more in ((), ("--adapter", whole)))
    assert float(with_it[1][0].split()[1]) < 0.97 * float(plain[1][0].split()[1])
    assert run("complete", folder, "the cat", "--adapter", folder)[2] == [
        f"vkattn-lm: error: {folder}: has no adapter_config.json, expected the folder of an adapter of PEFT"]


def test_rslora_and_other_ranks(whole, folder, tmp_path):
    path, tokens = tmp_path / "adapter", [5, 6, 7]
    shutil.copytree(whole, path)
    with_fact(use_rslora=True, lora_alpha=ALPHA / 2)(path)  # divided by sqrt(4) rather than 4
    assert (logits_with(folder, path, tokens) == logits_with(folder, whole, tokens)).all()
    assert not (logits_with(folder, None, tokens) == logits_with(folder, whole, tokens)).all()


def test_sequences_are_apart_and_each_comes_once():
    sequences = finetune.Sequences("", range(1000), 10, 0.2)
    learned = {token for start in sequences.training for token in range(start, start + 11)}
    held = {token for start in sequences.held_out for token in range(start, start + 11)}
    assert max(learned) < 800 <= min(held) and len(sequences.training) == 79 and len(sequences.held_out) == 19
    seen = [tokens[0, 0] for step in range(79) for tokens in [sequences.of_step(step, 1, 5)[0]]]
    assert sorted(seen) == sequences.training and seen != sorted(seen)
    tokens, labels = sequences.of_step(19, 4, 5)  # across the end of the first order
    assert tokens[:3, 0].tolist() == seen[76:] and (labels == tokens + 1).all()
    assert (sequences.of_step(3, 4, 6)[0] != sequences.of_step(3, 4, 5)[0]).any()
    assert len(finetune.Sequences("", range(10000), 10, 0.5).held_out) == 64
    for count in (34, 60):  # of which the larger share is held out, but a sequence
        apart = finetune.Sequences("", range(count), 16, 0.9)
        assert apart.training == [0] and apart.held_out[0] >= 17 and apart.held_out[-1] + 17 <= count
    with pytest.raises(errors.ModelError, match="10 tokens, expected at least 11, a sequence of --length 10 and one more"):
        finetune.Sequences("", range(10), 10, 0)


def test_the_losses_are_drawn(whole, folder, text, tmp_path, run):
    pytest.importorskip("matplotlib")
    assert b"<svg" in (whole / finetune.PICTURE).read_bytes()[:1024]
    path = tmp_path / "made"
    shutil.copytree(whole, path)
    (path / finetune.PICTURE).unlink()
    (path / finetune.PICTURE).mkdir()
    status, _, err = run("finetune", folder, text, "--output", path, "--steps", 12, *SMALL[:-1])
    assert status == 0 and f"no losses.svg: {path / finetune.PICTURE}: cannot be written (Is a directory), expected" in err[-1]
    assert math.isfinite(json.loads((whole / finetune.LOSSES).read_text())["losses"][0]["loss"])
