"""Models as people have them: GGUF files and Hugging Face's folders. Both give facts, weights by GGUF's names, a tokenizer."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import sys

import numpy
import vkattn

from . import architectures
from .errors import ModelError, naming, require
from .facts import Facts

GGUF_FILE = "a whole GGUF file"
PARTIAL = ".partial"  # what the name of a file ends with that is being written
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)  # the name of a part of a split one


@dataclasses.dataclass(frozen=True)
class Stored:
    """A weight in a file. dtype: what the device holds it in; rows(first, end): these rows as NumPy has them in that type, or
    float32; where: for messages. block_dtype: the quantised type of a matrix that the device can hold as it is in the file;
    blocks(first, end): the bytes of these rows."""
    where: str
    shape: tuple
    dtype: str
    rows: object
    block_dtype: str | None = None
    blocks: object = None


def write_whole(path, content):
    """Writes a file that is there whole or as it was before, also where the process or the machine ends meanwhile."""
    part = path.with_name(path.name + PARTIAL)
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise ModelError(f"{path}: cannot be written ({error.strerror}), expected room for it, in a folder that can be written") from None


@contextlib.contextmanager
def held(path, why):
    """Holds a file, made empty where there is none, that one process can hold at a time; its end lets go of it. why: what is said
    where another has it."""
    with open(path, "ab") as file:
        try:
            if sys.platform == "win32":
                import msvcrt
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise ModelError(why) from None
        except OSError as error:
            raise ModelError(f"{path}: cannot be locked ({error.strerror}), expected a folder whose files can be") from None
        yield


def open_model(path):
    """A GgufFile or a Folder."""
    path = pathlib.Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.exists():
        raise ModelError(f"{path}: no such file, expected a GGUF file, or the folder of a model of Hugging Face")
    if not path.is_file():
        raise ModelError(f"{path}: is no regular file, expected a GGUF file, or the folder of a model of Hugging Face")
    if path.suffix in (".safetensors", ".json", ".bin"):
        raise ModelError(f"{path}: a part of a model, expected its folder, {path.parent}")
    return GgufFile(path)


def _reader_class():
    """gguf's reader, held to the file's end, with lists as lists: it makes two arrays of every string, of which vocabularies
    have 250,000."""
    gguf = require("gguf", "gguf")

    class Reader(gguf.GGUFReader):
        def _get(self, offset, dtype, count=1, override_order=None):
            end = int(offset) + int(count) * numpy.dtype(dtype).itemsize
            if end > len(self.data):
                raise ValueError(f"its contents end at byte {len(self.data)}, and byte {end} is to be read")
            return super()._get(int(offset), dtype, count, override_order)

        def _get_field_parts(self, orig_offs, raw_type):
            if raw_type != gguf.GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            kind = gguf.GGUFValueType(int(self._get(orig_offs, numpy.uint32)[0]))
            count, first = int(self._get(orig_offs + 4, numpy.uint64)[0]), orig_offs + 12
            if kind == gguf.GGUFValueType.STRING:
                values, end = self._texts(first, count)
            elif kind in self.gguf_scalar_to_np:
                numbers = self._get(first, self.gguf_scalar_to_np[kind], count)
                values, end = numbers.tolist(), first + numbers.nbytes
            else:
                raise ValueError(f"a list of {kind.name}")
            return end - orig_offs, [values], [0], [gguf.GGUFValueType.ARRAY, kind]

        def _texts(self, at, count):
            values, data = [], memoryview(self.data)
            for _ in range(count):
                size = int.from_bytes(data[at:at + 8], sys.byteorder)
                at += 8 + size
                if at > len(data) or size > len(data):
                    raise ValueError(f"its contents end at byte {len(data)}, and a text reaches to byte {at}")
                values.append(str(data[at - size:at], "utf-8", "replace"))
            return values, at

    return Reader


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a weight lies in a GGUF file: rows of `row` numbers or bytes of dtype, from byte `first` on."""
    path: pathlib.Path
    kind: object
    shape: tuple
    dtype: object
    row: int
    first: int


class GgufFile:
    """A GGUF file, or all parts of one that was split; its weights stay there until they are read."""

    def __init__(self, path):
        self.path, self.where = path, str(path)
        self._tensors, self.facts = self._read(path)
        self.paths = paths = self._parts(path, self.facts)
        for number, part in enumerate(paths):
            if part == path:
                continue
            tensors, facts = self._read(part)
            facts.expect("split.count", len(paths))
            facts.expect("split.no", number)
            twice = min(tensors.keys() & self._tensors, default=None)
            if twice is not None:
                raise ModelError(f"{part}: {twice[:80]} is in another part, too, expected it in one")
            self._tensors.update(tensors)
            if number == 0:
                self.facts = facts  # which says what the model is
        if len(paths) > 1 and "split.tensors.count" in self.facts:
            self.facts.expect("split.tensors.count", len(self._tensors))

    @staticmethod
    def _parts(path, facts):
        """The paths of all parts of a split file, of another its own alone."""
        count = facts.whole("split.count", 1, least=0, most=2**16 - 1)
        if count < 2:
            return [path]
        number, named = facts.whole("split.no", 0, least=0, most=count - 1), _PART.fullmatch(path.name)
        if named is None or (int(named[2]), int(named[3])) != (number + 1, count):
            raise ModelError(f"{path}: is part {number + 1} of a split file, expected a name that ends in "
                             f"-{number + 1:05}-of-{count:05}.gguf")
        paths = [path.with_name(f"{named[1]}-{each + 1:05}-of-{count:05}.gguf") for each in range(count)]
        for part in paths:
            if not part.is_file():
                raise ModelError(f"{part}: no such file, expected all {count} parts beside {path.name}")
        return paths

    @classmethod
    def _read(cls, path):
        """(where its weights are, by name; its facts)"""
        gguf = require("gguf", "gguf")
        with naming(path, GGUF_FILE):
            with open(path, "rb") as file:
                start, version = file.read(4), int.from_bytes(file.read(4), sys.byteorder)
        if start != b"GGUF":
            raise ModelError(f"{path}: begins with {start!r}, expected b'GGUF', or the folder of a model of Hugging Face")
        if version and not version & 0xffff:  # versions are small
            orders = "big-endian", "little-endian"
            raise ModelError("{}: is {}, expected a GGUF file for this machine, {}".format(
                path, *(orders if sys.byteorder == "little" else orders[::-1])))
        with naming(path, GGUF_FILE), numpy.errstate(all="ignore"):
            reader = _reader_class()(path)
            values = {name: cls._value(gguf, field) for name, field in reader.fields.items()}
            tensors = {tensor.name: _Place(path, tensor.tensor_type, tuple(int(size) for size in reversed(tensor.shape)),
                                           tensor.data.dtype, tensor.data.shape[-1], tensor.data_offset)
                       for tensor in reader.tensors}
        return tensors, Facts(str(path), values)

    @staticmethod
    def _value(gguf, field):
        return field.parts[-1] if field.types and field.types[0] == gguf.GGUFValueType.ARRAY else field.contents()

    def config(self):
        return architectures.from_gguf(self.facts)

    def names(self):
        return set(self._tensors)

    def stored(self, name):
        gguf, tensor = require("gguf", "gguf"), self._tensors[name]
        where, kinds = f"{tensor.path}: {name}", gguf.GGMLQuantizationType
        dtype = {kinds.F32: "float32", kinds.BF16: "bfloat16"}.get(tensor.kind, "float16")

        def blocks(first, end):  # read, not mapped: pages of the file would be held beside what is made of them
            with naming(where, GGUF_FILE):
                data = numpy.fromfile(tensor.path, tensor.dtype, (end - first) * tensor.row,
                                      offset=tensor.first + first * tensor.row * tensor.dtype.itemsize)
                return data.reshape(end - first, tensor.row)

        def rows(first, end):
            with naming(where, "blocks that the package gguf knows"), numpy.errstate(all="ignore"):
                return gguf.dequantize(blocks(first, end), tensor.kind)
        block_dtype = next((own for own in vkattn.weight_types() if own.lower() == tensor.kind.name.lower()), None)
        return Stored(where, tensor.shape, dtype, rows, block_dtype, blocks)

    def tokenizer(self):
        from .tokenizer import from_gguf
        return from_gguf(self.facts)


class Folder:
    """The folder of a model of Hugging Face: config.json, safetensors, tokenizer.json."""

    def __init__(self, path):
        self.path, self.where = path, str(path)
        self.facts = self.read_json("config.json", required=True)
        self._files = self._open_files()

    @property
    def paths(self):
        """The files that say what it computes."""
        named = (self.path / name for name in ("config.json", "tokenizer.json", "tokenizer_config.json"))
        return [*sorted(self.path.glob("*.safetensors")), *(path for path in named if path.is_file())]

    def read_json(self, name, required=False):
        """The Facts of a file of the folder, empty where there is none."""
        path = self.path / name
        if not path.is_file():
            if required:
                other = min(self.path.glob("*.gguf"), default=None)
                raise ModelError(f"{self.path}: has no {name}, expected the folder of a model of Hugging Face"
                                 + (f", or a GGUF file, as {other} is" if other else ""))
            return Facts(str(path), {})
        with naming(path, "a JSON file with an object"):
            values = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(values, dict):
                raise ValueError(f"holds a {type(values).__name__}")
        return Facts(str(path), values)

    def _open_files(self):
        safetensors = require("safetensors", "safetensors")
        paths = sorted(self.path.glob("*.safetensors"))
        if not paths:
            raise ModelError(f"{self.path}: has no .safetensors, expected the weights beside config.json")
        opened = {}
        for path in paths:
            with naming(path, "a whole safetensors file"):
                file = safetensors.safe_open(path, "numpy")
                for name in file.keys():
                    opened[name] = (path, file)
        return opened

    def config(self):
        return architectures.from_folder(self.facts)

    def names(self):
        return set(self._own)

    @functools.cached_property
    def _own(self):
        """Its weights' own names by GGUF's; what has none there keeps its own."""
        config, named = self.config(), {}
        name_of = architectures.names_in_gguf(config)
        for own in self._files:
            drafts = config.architecture.recurrent and own.startswith("mtp.")  # what guesses further tokens
            if not drafts and not own.endswith("rotary_emb.inv_freq"):  # what older models keep beside their weights
                named[name_of(own)] = own
        if self.facts.raw("tie_word_embeddings", config.architecture.scaled) is True:
            named.pop("output.weight", None)
        return named

    def stored(self, name):
        return self.stored_as(self._own[name])

    def stored_as(self, own):
        """A weight by its name in the folder."""
        path, file = self._files[own]
        types = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
        with naming(f"{path}: {own}", "a tensor"):
            part = file.get_slice(own)
            kind, shape = part.get_dtype(), tuple(part.get_shape())
        if kind not in types:
            raise ModelError(f"{path}: {own}: of type {kind}, expected one of {', '.join(types)}")
        if kind == "BF16":
            require("ml_dtypes", "ml_dtypes")  # which safetensors finds by name

        def rows(first, end):
            with naming(f"{path}: {own}", "a tensor"):
                return part[first:min(end, shape[0])] if len(shape) > 1 else file.get_tensor(own).reshape(1, -1)
        return Stored(f"{path}: {own}", shape, types[kind], rows)

    def own_names(self):
        return set(self._files)

    def tokenizer(self):
        from .tokenizer import from_folder
        return from_folder(self)
