"""The JSON of the vkattn command: which kind a file holds, and its fields, checked as they are read."""
import json
import math
import sys

# What a file is recognised by, and the command that writes it.
KINDS = {"bench": "vkattn bench --json", "variants": "vkattn bench --variants mha,mqa --json",
         "estimate": "vkattn estimate --json", "weights": "vkattn show CASE --json", "devices": "vkattn devices --json",
         "losses": "vkattn-lm finetune"}
LISTS = {"variants": "variants", "estimate": "estimates", "weights": "panels", "losses": "losses"}


class PlotError(Exception):
    """Says in one line what of which file is wrong and what was expected."""


class Record:
    """A JSON object. where: the file, and the place in it."""

    def __init__(self, where, content):
        if not isinstance(content, dict):
            raise PlotError(f"{where}: {shown(content)}, expected an object")
        self.where, self.content = where, content

    def __contains__(self, name):
        return self.content.get(name) is not None

    def field(self, name, is_right, expected):
        if name not in self.content:
            raise PlotError(f"{self.where}: no field '{name}', expected {expected}")
        value = self.content[name]
        if not is_right(value):
            raise PlotError(f"{self.where}: field '{name}' is {shown(value)}, expected {expected}")
        return value

    def text(self, name):
        return self.field(name, lambda value: isinstance(value, str), "a text")

    def number(self, name):
        return self.field(name, is_number, "a number from 0")

    def positive(self, name):
        return self.field(name, lambda value: is_number(value) and value > 0, "a number above 0")

    def flag(self, name):
        return self.field(name, lambda value: isinstance(value, bool), "true or false")

    def texts(self, name):
        return self.field(name, lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
                          "a list of texts")

    def records(self, name):
        values = self.field(name, lambda value: isinstance(value, list) and value, "a list with at least one object")
        return [Record(f"{self.where}: {name}[{index}]", value) for index, value in enumerate(values)]


class Document:
    """A file's content: kind, one of KINDS, and records, one or several."""

    def __init__(self, path):
        self.path = path
        content = parsed(path)
        self.kind = kind_of(content)
        if self.kind is None:
            raise PlotError(f"{path}: not JSON of the vkattn command, expected that of " + alternatives(KINDS))
        if isinstance(content, list):
            self.records = [Record(f"{path}: [{index}]", each) for index, each in enumerate(content)]
        else:
            self.records = [Record(path, content)]

    @property
    def record(self):
        return self.records[0]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def shown(value):
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def alternatives(kinds):
    return " or ".join(f"'{KINDS[kind]}'" for kind in kinds)


def parsed(path):
    try:
        text = sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
        return json.loads(text)
    except OSError as error:
        raise PlotError(f"{path}: cannot be read ({error.strerror}), expected a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise PlotError(f"{path}: not JSON ({error}), expected what 'vkattn ... --json' prints") from None


def kind_of(content):
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict):
        return None
    if isinstance(content, dict):
        kind = next((kind for kind, name in LISTS.items() if name in content), None)
        if kind is not None:
            return kind
    elif "kernels" in first:
        return "devices"
    return "bench" if "median_ms" in first else None


def read(path, *kinds):
    """The document in a file ("-": standard input), which must be of one of the kinds."""
    document = Document(path)
    if document.kind not in kinds:
        raise PlotError(f"{path}: holds what '{KINDS[document.kind]}' prints, expected that of {alternatives(kinds)}")
    return document
