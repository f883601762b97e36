"""The command vkattn-lm."""
import argparse
import functools
import json
import pathlib
import sys
import time

from . import __doc__ as description

EPILOG = ("MODEL is a GGUF file, or the folder of a model of Hugging Face. Architectures: Llama, Mistral, Qwen 2 and 3, "
          "Gemma 3, Phi 3, DeepSeek V2, and the hybrids of linear attention Qwen3-Next, Qwen3.5 and Kimi Linear, without experts; for "
          "embed BERT. What a model asks for and is not computed is refused by name.")
DEFAULT_CONTEXT = 4096


class Parser(argparse.ArgumentParser):
    def print_help(self, file=None):
        print(self.format_help(), end="", file=file)  # argparse's own passes over a full disk in silence

    def error(self, message):
        from .errors import ModelError
        help_of = f"'{self.prog} --help'"
        raise ModelError(f"command line: {message}" + (f"; see {help_of}" if "expected" in message else
                                                       f", expected what {help_of} tells"))


def number(kind, least, most):
    """A type of argparse: a number from least to most."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}, expected a {'whole ' if kind is int else ''}number from {least} to {most}")
        return value
    return parse


def cache_type(text):
    import vkattn  # not before: help is given without the library
    if text not in vkattn.cache_types():
        raise argparse.ArgumentTypeError(f"{text!r}, expected one of {', '.join(vkattn.cache_types())}")
    return text


def parser():
    main_parser = Parser(prog="vkattn-lm", description=description.split("\n")[0], epilog=EPILOG)
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, words, run, context=DEFAULT_CONTEXT):
        made = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".", epilog=EPILOG)
        made.set_defaults(run=run)
        made.add_argument("model", metavar="MODEL")
        made.add_argument("--device", default="", help="an index, or a part of the name, as vkattn's (default: the best)")
        made.add_argument("-q", "--quiet", action="store_true", help="tells neither progress nor speed")
        if run is not finetune:
            made.add_argument("--tune-budget", type=number(int, 0, 2**31), metavar="MS",
                              help="milliseconds for measuring kernels that this device is not known to be fast with, kept for the next "
                              "start; 0: none (default: 1000, on CPU drivers 0)")
        if run not in (embed, finetune):
            made.add_argument("--adapter", metavar="FOLDER", help="of low rank, in PEFT's format, that is added to the model's weights")
            made.add_argument("--context", type=number(int, 1, 2**24), metavar="N",
                              help=f"tokens that there is room for (default: the model's, at most {context})")
            made.add_argument("--kv-type", type=cache_type, metavar="TYPE", default="f16",
                              help="of keys and values, a type that caches have: f32, f16, q8_0 and others (default: f16)")
            made.add_argument("--value-type", type=cache_type, metavar="TYPE", help="of values (default: that of --kv-type)")
            made.add_argument("--kv-rotation", choices=("none", "hadamard"), default="none",
                              help="keys and values are held rotated, which costs types of few bits less (default: none)")
            made.add_argument("--kv-scales", choices=("none", "row"), default="none",
                              help="row: those of f8_e4m3 and f8_e5m2 have a scale for each token and head (default: none)")
        return made

    def sampling(made, most):
        made.add_argument("--tokens", type=number(int, 1, 2**24), metavar="N", default=most, help="at most so many new tokens"
                          + (f" (default: {most})" if most else ""))
        made.add_argument("--temperature", type=number(float, 0, 100), default=0.7,
                          help="0: always the most likely (default: 0.7)")
        made.add_argument("--top-k", type=number(int, 0, 2**24), default=40, help="of so many; 0: of all (default: 40)")
        made.add_argument("--top-p", type=number(float, 0, 1), default=0.95,
                          help="of the likeliest with this share (default: 0.95)")
        made.add_argument("--seed", type=number(int, 0, 2**63), help="the same for the same text (default: another every time)")

    made = command("chat", "answers what is written line by line, by the model's own template", chat)
    made.add_argument("--system", default="", help="what the model is told before")
    sampling(made, None)
    made = command("complete", "goes on after a text", complete)
    made.add_argument("text", metavar="TEXT", help="'-': standard input")
    sampling(made, 128)
    made = command("perplexity", "how well a model predicts a text: the second half of every part of --context tokens, as "
                   "llama.cpp's llama-perplexity", perplexity, 512)
    made.add_argument("file", metavar="FILE", help="a text in UTF-8")
    made = command("bench", "tokens per second, of a prompt and after it", bench)
    made.add_argument("--prompt", type=number(int, 1, 2**20), default=512, metavar="N", help="tokens of the prompt (default: 512)")
    made.add_argument("--tokens", type=number(int, 1, 2**20), default=32, metavar="N", help="tokens after it (default: 32)")
    made.add_argument("--json", action="store_true", help="as one object of JSON")
    made = command("embed", "vectors of texts, a line of JSON each", embed)
    made.add_argument("texts", metavar="TEXT", nargs="*", help="none: the lines of standard input")
    made.add_argument("--prompt-name", metavar="NAME",
                      help="which of the model's prompts begins each text (default: the model's own default, if any)")
    finetuning(command("finetune", "trains an adapter of low rank (LoRA) with a text, and writes it in PEFT's format; goes on where it "
                       "was ended", finetune))
    return main_parser


def finetuning(made):
    made.add_argument("text", metavar="TEXT", help="a file in UTF-8")
    made.add_argument("--output", required=True, metavar="FOLDER", help="a new folder, or one of a run that shall go on")
    made.add_argument("--steps", type=number(int, 1, 2**24), metavar="N", default=200, help="in all (default: 200)")
    made.add_argument("--rank", type=number(int, 1, 4096), metavar="N", default=8, help="of the adapter's matrices (default: 8)")
    made.add_argument("--alpha", type=number(float, 1e-6, 1e6), metavar="X", default=16.0,
                      help="alpha / rank multiplies what the adapter adds (default: 16)")
    made.add_argument("--target-modules", metavar="NAMES", help="which matrices of a layer get an adapter, between commas, by their names "
                      "in folders: q_proj,v_proj and others (default: all)")
    made.add_argument("--learning-rate", type=number(float, 0, 1e3), metavar="X", default=5e-4, help="of AdamW (default: 0.0005)")
    made.add_argument("--warmup", type=number(int, 0, 2**24), metavar="N", default=10,
                      help="steps in which the learning rate rises to that (default: 10)")
    made.add_argument("--weight-decay", type=number(float, 0, 1), metavar="X", default=0.0, help="of AdamW (default: 0)")
    made.add_argument("--clip", type=number(float, 1e-6, 1e6), metavar="X", default=1.0, help="norm of the gradients at most (default: 1)")
    made.add_argument("--batch", type=number(int, 1, 2**16), metavar="N", default=4, help="sequences of a step (default: 4)")
    made.add_argument("--length", type=number(int, 1, 2**20), metavar="N",
                      help="tokens of a sequence (default: 256, or the model's context where that is shorter)")
    made.add_argument("--held-out", type=number(float, 0, 0.9), metavar="X", default=0.1,
                      help="share of the text, at its end, that is not learned from, and tells how well the rest was (default: 0.1)")
    made.add_argument("--seed", type=number(int, 0, 2**63), metavar="N", default=0, help="of the order, and of how it begins (default: 0)")
    made.add_argument("--every", type=number(int, 1, 2**24), metavar="N", default=10, help="steps from one line to the next (default: 10)")
    made.add_argument("--save-every", type=number(int, 1, 2**24), metavar="N", default=50,
                      help="steps after which what was held out is looked at, and all is kept (default: 50)")
    made.add_argument("--recompute", action="store_true", help="takes less memory, and more time: what a layer computed is computed again "
                      "where its gradients are")


def bars(arguments, words, unit=" tokens"):
    """A function of a number that makes a progress bar of so many."""
    from .terminal import bar
    return functools.partial(bar, words=words, unit=unit, quiet=arguments.quiet)


def device_context(arguments, alike=False):
    """The device's context; what it learns is kept when the command ends. alike: as Device has it."""
    from .device import Device
    arguments.kept = Device(arguments.device, None if alike else arguments.tune_budget, alike)
    return arguments.kept.context


def keep(arguments):
    """Keeps what was learned of the device that a command used, however it ended."""
    from vkattn import VkattnError
    from .terminal import say
    try:
        words = arguments.kept.keep() if "kept" in arguments else ""
    except VkattnError:  # the device is lost, which was told
        return
    if words and not arguments.quiet:
        say(words)


def load(arguments, most=DEFAULT_CONTEXT):
    """(Decoder, Tokenizer) of a command's arguments."""
    from .errors import ModelError, naming
    from .files import open_model
    from .model import Decoder
    from .terminal import say
    source = open_model(arguments.model)
    config = source.config()
    if arguments.adapter:
        from .adapter import Adapted
        source = Adapted(source, arguments.adapter)
    if arguments.context is not None and arguments.context > config.context:
        raise ModelError(f"--context {arguments.context}: expected at most {config.context}, which the model was made for")
    capacity = arguments.context or min(config.context, most)
    tokenizer = source.tokenizer()
    if tokenizer.remark:
        say(f"warning: {tokenizer.remark}")
    context = device_context(arguments)
    progress_of = bars(arguments, "weights", " weights")
    with progress_of(len(source.names())) as progress, naming(source.where, "a model that the device can compute"):
        decoder = Decoder(source, config, context, capacity=capacity, kv_type=arguments.kv_type, progress=progress,
                          value_type=arguments.value_type, kv_rotation=arguments.kv_rotation,
                          kv_scales=None if arguments.kv_scales == "none" else arguments.kv_scales)
    if tokenizer.begin is not None and tokenizer.begin >= decoder.vocabulary:
        raise ModelError(f"{tokenizer.where}: text begins with token {tokenizer.begin}, expected one of {decoder.vocabulary}")
    return decoder, tokenizer


def writer_of(arguments):
    from .chat import Writer
    from .sampling import Sampler
    decoder, tokenizer = load(arguments)
    sampler = Sampler(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)
    return Writer(decoder, tokenizer, sampler, bars(arguments, "prompt"))


def chat(arguments):
    from .chat import Conversation, converse, show_now
    from .errors import checked_text
    from .terminal import say, standard_input, typed_lines
    system, lines = checked_text("--system", arguments.system), standard_input()
    types = lines.isatty()
    tell = (lambda words: None) if arguments.quiet else say
    writer = writer_of(arguments)
    tell(f"{arguments.model}: {writer.decoder.config.name}, context of {writer.decoder.capacity} tokens"
         + ("; /help lists commands, Ctrl-D ends it" if types else ""))
    conversation = Conversation(writer, system, arguments.tokens, show_now, say, tell)
    converse(conversation, typed_lines() if types else lines, say, keeps=types)


def complete(arguments):
    from .chat import show_now, why_ended
    from .errors import checked_text
    from .terminal import say, standard_input
    piped = arguments.text == "-"
    text = checked_text("standard input" if piped else "TEXT", standard_input().read() if piped else arguments.text)
    writer = writer_of(arguments)
    _, why = writer.write(writer.tokenizer.encode(text), arguments.tokens, show_now)
    show_now("\n")
    if why_ended(writer, arguments.tokens, why):
        say(why_ended(writer, arguments.tokens, why))
    if not arguments.quiet:
        say(str(writer.speed))


def perplexity(arguments):
    from .chat import perplexity as measured
    from .errors import naming
    with naming(arguments.file, "a text in UTF-8"):
        text = pathlib.Path(arguments.file).read_text(encoding="utf-8")
    decoder, tokenizer = load(arguments, most=512)
    value, count, error = measured(decoder, tokenizer, text, bars(arguments, "perplexity"))
    print(f"perplexity {value:.4f} +- {error:.4f} of {count} tokens, in parts of {decoder.capacity}")


def bench(arguments):
    from .sampling import Sampler
    arguments.context = arguments.context or arguments.prompt + arguments.tokens + 1
    decoder, _ = load(arguments)
    greedy = Sampler(0, 0, 1, 0)
    tokens = [i * 7919 % decoder.vocabulary for i in range(arguments.prompt)]
    with bars(arguments, "warm-up")(len(tokens) + 1) as progress:
        decoder.logits(tokens, progress)  # once before, so that kernels are compiled
        decoder.logits(tokens[:1], progress)
    decoder.rewind(0)
    with bars(arguments, "prompt")(len(tokens)) as progress:
        begin = time.perf_counter()
        token = decoder.next_token(tokens, greedy, progress)
        read = time.perf_counter()
    with bars(arguments, "tokens")(arguments.tokens) as progress:
        after = time.perf_counter()
        for _ in range(arguments.tokens):
            token = decoder.next_token([token], greedy)
            progress.update(1)
    end = time.perf_counter()
    result = {"device": decoder.context.facts["name"], "model": str(arguments.model), "weight_bytes": decoder.weight_bytes,
              "cache_bytes": decoder.cache_bytes, "prompt_tokens": arguments.prompt, "new_tokens": arguments.tokens,
              "prompt_tokens_per_second": arguments.prompt / (read - begin),
              "new_tokens_per_second": arguments.tokens / (end - after)}
    if arguments.json:
        print(json.dumps(result))
        return
    kept = "keys, values and states" if decoder.config.recurrent else "keys and values"
    weights, cache = (f"{result[name] / 2**20:.0f} MiB" for name in ("weight_bytes", "cache_bytes"))
    print(f"{result['device']}: {weights} of weights, {cache} of {kept}")
    print(f"prompt of {arguments.prompt}: {result['prompt_tokens_per_second']:.1f} tokens/s")
    print(f"after it, {arguments.tokens}: {result['new_tokens_per_second']:.2f} tokens/s")


def embed(arguments):
    from .encoder import Encoder
    from .errors import ModelError, checked_text, naming
    from .files import open_model
    from .terminal import say, standard_input
    texts = arguments.texts or [line.rstrip("\n") for line in standard_input()]
    if not texts:
        raise ModelError("texts: none, expected at least 1, as arguments or as lines of standard input")
    texts = [checked_text(f"text {i}", text) for i, text in enumerate(texts, 1)]
    folder = open_model(arguments.model)
    with bars(arguments, "weights", " weights")(None) as progress, naming(folder.where, "an encoder that the device can compute"):
        encoder = Encoder(folder, device_context(arguments), progress, arguments.prompt_name)
    with bars(arguments, "texts", " texts")(len(texts)) as progress:
        for first in range(0, len(texts), 32):
            for vector in encoder.embed(texts[first:first + 32], lambda index, first=first: say(
                    f"text {first + index + 1}: longer than the model's {encoder.longest} tokens: the rest is left out")):
                print(json.dumps([round(float(value), 8) for value in vector]))
                progress.update(1)


def finetune(arguments):
    from .errors import ModelError, naming
    from .files import open_model
    from .finetune import Sequences, draw, options_of, run_in, train
    from .terminal import say
    from .training import Recipe, Trainer, check_trainable, checked_targets
    source = open_model(arguments.model)
    config = source.config()
    check_trainable(config, source.where)
    names = None if arguments.target_modules is None else arguments.target_modules.split(",")
    length = arguments.length or min(256, config.context)
    if length > config.context:
        raise ModelError(f"--length {length}: expected at most {config.context}, which the model was made for")
    recipe = Recipe(targets=checked_targets(names, config, source.where), length=length, **{
        name: getattr(arguments, name) for name in ("rank", "alpha", "batch", "learning_rate", "warmup", "weight_decay", "clip", "seed")})
    with naming(arguments.text, "a text in UTF-8"):
        text = pathlib.Path(arguments.text).read_text(encoding="utf-8")
    tokenizer = source.tokenizer()
    sequences = Sequences(arguments.text, tokenizer.encode(text, markers=False), length, arguments.held_out)
    with run_in(arguments.output, options_of(recipe, arguments.held_out, text, sequences, source)) as run:
        if run.step > arguments.steps:
            raise ModelError(f"{run.path}: has done {run.step} steps, expected --steps of at least so many")
        context = device_context(arguments, alike=True)
        device = context.facts["name"]
        if run.device not in (None, device):
            say(f"warning: {run.path}: was begun on {run.device}, and goes on on {device}: not to the same bits")
        with bars(arguments, "weights", " weights")(len(source.names())) as progress, naming(
                source.where, "a model that the device can train"):
            trainer = Trainer(source, config, context, recipe, arguments.recompute, progress)
        if run.state is not None:
            with naming(run.path, "a checkpoint of this model's adapter"):
                trainer.load_state(run.state)
        if not arguments.quiet:
            say(f"{arguments.model}: {config.name}, {trainer.parameters} parameters to learn, {len(sequences.training)} sequences of "
                f"{length} tokens, {len(sequences.held_out)} held out" + (f"; goes on after step {run.step}" if run.step else ""))

        def keep():
            run.save(trainer, device)
            run.show(trainer, str(arguments.model), pathlib.Path(arguments.model).name, device)
        with bars(arguments, "steps", " steps")(arguments.steps - run.step) as progress:
            train(trainer, sequences, run, arguments.steps, arguments.every, arguments.save_every, show_line, keep, progress)
        drawn = draw(run)
        if not arguments.quiet:
            say(drawn)


def show_line(words):
    print(words, flush=True)


def parsed(words):
    try:
        return parser().parse_args(words)
    except SystemExit:  # after help
        sys.stdout.flush()
        raise


def main(words=None):
    from .errors import ModelError, words_of
    from .terminal import check_streams, drop_output, say
    failures = (ModelError, OSError, MemoryError, UnicodeError)
    try:
        try:
            check_streams()
            arguments = parsed(words)
            import vkattn
            failures = (*failures, vkattn.VkattnError)
        except ImportError as error:
            tail = "" if ", expected " in str(error) else ", expected vkattn and NumPy installed"
            raise ModelError(f"{error}{tail}") from None
        try:
            arguments.run(arguments)
            sys.stdout.flush()
        finally:
            keep(arguments)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # after the ^C that the terminal shows
        return 130
    except BrokenPipeError:  # nobody reads any more
        drop_output()
        return 1
    except failures as error:
        if isinstance(error, OSError):
            drop_output()
        named = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        say(f"error: {named}{' '.join((str(error) if isinstance(error, ModelError) else words_of(error)).split())}")
        return 2
    return 0
