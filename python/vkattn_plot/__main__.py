"""The command vkattn-plot."""
import argparse
import sys

from .documents import KINDS, PlotError, read

EPILOG = "FILE is what the vkattn command prints with --json; '-' is standard input."
COMMANDS = (("bench", "+", "times against a length, and the roofline, of one or more sweeps; or variants"),
            ("estimate", 1, "caches and parameters of variants"),
            ("weights", 1, "attention weights as heat maps"),
            ("losses", 1, "the losses of a training run of vkattn-lm finetune"),
            ("report", "+", "one page of all these, and of devices"))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise PlotError(f"command line: {message}, expected what 'vkattn-plot --help' tells")


def parser():
    description = "Draws what the vkattn command prints with --json."
    main_parser = Parser(prog="vkattn-plot", description=description, epilog=EPILOG)
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, files, words in COMMANDS:
        command = commands.add_parser(name, help=words, description=words.capitalize() + ".", epilog=EPILOG)
        command.add_argument("files", metavar="FILE", nargs=files)
        command.add_argument("-o", "--output", required=True, metavar="OUTPUT",
                             help=".html" if name == "report" else ".png, .svg or .pdf")
    return main_parser


def figure_of(command, files):
    from . import bench, estimate, losses, weights
    if command == "estimate":
        return estimate.figure_of(read(files[0], "estimate"))
    if command == "weights":
        return weights.figure_of(read(files[0], "weights"))
    if command == "losses":
        return losses.figure_of(read(files[0], "losses"))
    documents = [read(file, "bench", "variants") for file in files]
    if documents[0].kind == "variants" and len(documents) == 1:
        return bench.variants_figure(documents[0])
    other = next((each for each in documents if each.kind == "variants"), None)
    if other is not None:
        raise PlotError(f"{other.path}: variants among {len(files)} files, expected it alone, or sweeps alone")
    return bench.sweep_figure(documents)


def installation(module):
    """What installs a module for the Python that runs: in a virtual environment the system's packages are of no use."""
    if sys.prefix != sys.base_prefix:
        return f"pip install {module}"
    if sys.prefix != "/usr":  # a Python beside the system's, of which apt knows nothing
        return f"{sys.executable} -m pip install {module}"
    return f"Debian: apt install python3-{module}; elsewhere pip install {module}"


def draw(arguments):
    try:
        from . import output, report, style
    except ImportError as error:
        raise PlotError(f"{error.name}: is missing, expected it ({installation(error.name)})") from None
    is_report = arguments.command == "report"
    target = output.checked_target(arguments.output, output.PAGES if is_report else output.PICTURES, arguments.files)
    with style.settings():
        if is_report:
            content = report.page([read(file, *KINDS) for file in arguments.files])
        else:
            content = style.encoded(figure_of(arguments.command, arguments.files), target.suffix)
    output.write(target, content)


def main(words=None):
    try:
        draw(parser().parse_args(words))
    except PlotError as error:
        print(f"vkattn-plot: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
