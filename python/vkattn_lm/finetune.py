"""Fine-tuning of a decoder by adapters of low rank: a text goes in, an adapter in PEFT's format comes out, with its loss curve; a run
that was ended goes on."""
import contextlib
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import time

import numpy

from . import adapter
from .errors import ModelError, naming, require
from .files import PARTIAL, held, write_whole

CHECKPOINT, LOSSES, PICTURE, LOCK = "checkpoint.safetensors", "losses.json", "losses.svg", "run.lock"
_HELD_OUT_SEQUENCES = 64  # at most, that are looked at
_SAMPLES, _SAMPLE = 256, 1 << 16  # of a model's file, and their bytes, by which it is known again
_OPTIONS = {"targets": "--target-modules", "batch": "--batch", "length": "--length", "rank": "--rank", "alpha": "--alpha", "seed": "--seed",
            "learning_rate": "--learning-rate", "warmup": "--warmup", "weight_decay": "--weight-decay", "clip": "--clip",
            "held_out": "--held-out", "text": "TEXT", "model": "MODEL", "tokens": "tokenizer"}


class Sequences:
    """A text's tokens as sequences [length + 1] for training, and others, from its end, that are held out.

    held_out  their share of the text; 0: none
    """

    def __init__(self, where, tokens, length, held_out):
        tokens = numpy.asarray(tokens, "i4")
        held = min(max(int(len(tokens) * held_out), length + 1), len(tokens) - length - 1) if held_out else 0
        least = (length + 1) * (2 if held_out else 1)
        if len(tokens) < least:
            raise ModelError(f"{where}: {len(tokens)} tokens, expected at least {least}, "
                             f"{'two sequences' if held_out else 'a sequence'} of --length {length} and one more")
        self._length, self._tokens = length, tokens
        self.training = self._starts(0, len(tokens) - held)
        every = self._starts(len(tokens) - held, len(tokens)) if held else []
        self.held_out = [every[i * len(every) // min(len(every), _HELD_OUT_SEQUENCES)] for i in
                         range(min(len(every), _HELD_OUT_SEQUENCES))]

    @property
    def digest(self):
        """What its tokens are known again by."""
        return hashlib.sha256(self._tokens.astype("<i4").tobytes()).hexdigest()

    def _starts(self, first, end):
        return list(range(first, end - self._length, self._length))

    def at(self, starts):
        """(tokens, labels), each [sequences, length]: what follows each token."""
        rows = numpy.stack([self._tokens[start:start + self._length + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]

    def of_step(self, step, batch, seed):
        """Those of a step, counted from 0: all sequences once in an order of the seed's, then in another."""
        places = range(step * batch, (step + 1) * batch)
        orders = {epoch: numpy.random.default_rng([seed, epoch]).permutation(len(self.training))
                  for epoch in {place // len(self.training) for place in places}}
        return self.at([self.training[orders[place // len(self.training)][place % len(self.training)]] for place in places])


def mean_loss(trainer, sequences, every, batch):
    """The mean loss of sequences, by where they begin."""
    losses = []
    for first in range(0, len(every), batch):
        starts = every[first:first + batch]
        tokens, labels = sequences.at([*starts, *starts[:1] * (batch - len(starts))])
        losses.append(trainer.losses(tokens, labels)[:len(starts)])
    return float(numpy.concatenate(losses).mean(dtype="f8"))


def identity_of(source):
    """What a model is known again by: its files' names and sizes, and samples of them at regular intervals; small ones are read whole."""
    digest = hashlib.sha256()
    for path in source.paths:
        with naming(path, "a file that can be read"), open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size}\n".encode())
            whole = size <= _SAMPLES * _SAMPLE
            for number in range(_SAMPLES):
                file.seek(number * _SAMPLE if whole else number * (size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


class Run:
    """What a run has come to, in its folder: a checkpoint, of which all other files are made again. Made by run_in."""

    def __init__(self, path, options):
        """options: what a run that goes on must have been begun with, by the names of _OPTIONS."""
        self.path, self._options = pathlib.Path(path), {name: json.loads(json.dumps(value)) for name, value in options.items()}
        self.step, self.losses, self.held_out, self.state, self.device = 0, [], [], None, None
        if self.path.exists() and not self.path.is_dir():
            raise ModelError(f"{self.path}: is no folder, expected one, or a new name")
        names = {each.name.removesuffix(PARTIAL) for each in self.path.iterdir()} if self.path.is_dir() else set()
        others = names - {CHECKPOINT, LOCK}
        if others and not (self.path / CHECKPOINT).is_file():
            raise ModelError(f"{self.path}: holds {min(others)[:80]}, expected a new or empty folder, or one with {CHECKPOINT}, where a "
                             "run was ended")

    def load(self):
        """Takes what the folder's checkpoint says, where there is one."""
        path = self.path / CHECKPOINT
        if not path.is_file():
            return
        with naming(path, "a checkpoint of vkattn-lm finetune"):
            with require("safetensors", "safetensors").safe_open(path, "numpy") as file:
                self.state = {name: file.get_tensor(name) for name in file.keys()}
                described = json.loads((file.metadata() or {})["vkattn-lm finetune"])
            self.step, self.losses, self.held_out = described["step"], described["losses"], described["held_out"]
            self.device, given = described["device"], described["options"]
        for name, words in _OPTIONS.items():
            if given.get(name) != self._options[name]:
                was = f"another {words}" if name in ("text", "model", "tokens") else f"{words} {_shown(given.get(name))}"
                raise ModelError(f"{self.path}: was begun with {was}, expected the same, or another folder")

    def save(self, trainer, device):
        self.device = device
        described = {"options": self._options, "step": self.step, "losses": self.losses, "held_out": self.held_out, "device": device}
        content = require("safetensors.numpy", "safetensors").save(trainer.state(), {"vkattn-lm finetune": json.dumps(described)})
        write_whole(self.path / CHECKPOINT, content)

    def show(self, trainer, base, model, device):
        """Writes what others read: the adapter, and the losses."""
        adapter.write(self.path, trainer.config, trainer.updates(), base, trainer.recipe.targets)
        rows = [{"step": step + 1, "loss": loss, "learning_rate": trainer.recipe.rate_of(step)} for step, loss in enumerate(self.losses)]
        held_out = [{"step": step, "loss": loss} for step, loss in self.held_out]
        described = {"model": model, "device": device, "tokens_of_step": trainer.recipe.batch * trainer.recipe.length}
        write_whole(self.path / LOSSES, json.dumps({**described, "losses": rows, "held_out": held_out}, indent=1).encode() + b"\n")


@contextlib.contextmanager
def run_in(path, options):
    """The Run of a folder, which no other process runs in meanwhile; made where there is none."""
    run = Run(path, options)
    run.path.mkdir(parents=True, exist_ok=True)
    with held(run.path / LOCK, f"{run.path}: another vkattn-lm finetune runs there, expected its end, or another folder"):
        run.load()
        yield run


def _shown(value):
    return ",".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else value


def options_of(recipe, held_out, text, sequences, source):
    return {**dataclasses.asdict(recipe), "held_out": held_out, "text": hashlib.sha256(text.encode()).hexdigest(),
            "model": identity_of(source), "tokens": sequences.digest}


def train(trainer, sequences, run, steps, every, save_every, tell, keep, progress):
    """Trains up to so many steps. tell: called with words after every `every` steps; keep: after every save_every, at the beginning and
    at the end, when a loss is a number: of what is held out, else of the first sequences."""
    recipe, begun, done = trainer.recipe, time.perf_counter(), run.step

    def checked(loss, words):
        if not math.isfinite(loss):
            raise ModelError(f"after step {run.step}: {words} {loss}, expected a number: of a model that has one, by a --learning-rate "
                             f"smaller than {recipe.learning_rate:g}")
        return loss

    def look():
        if not sequences.held_out:
            checked(mean_loss(trainer, sequences, sequences.training[:recipe.batch], recipe.batch), "loss")
        elif not run.held_out or run.held_out[-1][0] != run.step:
            run.held_out.append([run.step, checked(mean_loss(trainer, sequences, sequences.held_out, recipe.batch), "held-out loss")])
            tell(f"step {run.step}: held-out loss {run.held_out[-1][1]:.4f}")
        keep()
    if run.step in (0, steps):
        look()
    while run.step < steps:
        loss = trainer.step(*sequences.of_step(run.step, recipe.batch, recipe.seed), recipe.rate_of(run.step))
        run.losses.append(checked(loss, "loss"))
        run.step += 1
        progress.update(1)
        if run.step % every == 0 or run.step == steps:
            speed = (run.step - done) * recipe.batch * recipe.length / (time.perf_counter() - begun)
            tell(f"step {run.step}: loss {loss:.4f}, {speed:.0f} tokens/s")
            begun, done = time.perf_counter(), run.step
        if run.step % save_every == 0 or run.step == steps:
            look()
            begun, done = time.perf_counter(), run.step


def draw(run):
    """Draws the losses, and returns where; in words why not, where matplotlib is missing or the picture cannot be written."""
    try:
        from vkattn_plot import documents, losses, output, style
    except ImportError as error:
        return f"no {PICTURE}: {error}; see vkattn-plot losses"
    try:
        with style.settings():
            picture = style.encoded(losses.figure_of(documents.read(str(run.path / LOSSES), "losses")), ".svg")
        output.write(run.path / PICTURE, picture)
    except documents.PlotError as error:
        return f"no {PICTURE}: {' '.join(str(error).split())}"
    return f"{run.path / PICTURE}: the losses"
