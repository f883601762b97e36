"""Reads vkattn's C headers and writes them as a module of ctypes. A wheel carries what this writes, _interface.py; a checkout runs
it on import.

    python _headers.py FOLDER_OF_HEADERS OUTPUT
"""
import os
import pathlib
import re
import sys

_TYPES = {
    "char": "c_char", "int": "c_int", "int32_t": "c_int32", "uint8_t": "c_uint8", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
    "size_t": "c_size_t", "float": "c_float", "double": "c_double", "VkResult": "c_int", "VkPhysicalDeviceType": "c_int",
    "VkMemoryAllocateFlags": "c_uint32", "VkDeviceSize": "c_uint64", "VkMemoryRequirements": "MemoryRequirements",
    **dict.fromkeys(("VkInstance", "VkPhysicalDevice", "VkDevice", "VkQueue", "VkCommandBuffer"), "c_void_p"),
    # handles that are numbers on every platform
    **dict.fromkeys(("VkBuffer", "VkDeviceMemory", "VkPipelineCache", "VkDescriptorPool", "VkSemaphore", "VkFence"), "c_uint64")}
_BEGINNING = '''\
# The C interface, written by _headers.py: the headers are the reference.
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64,
                    c_void_p)

from ._structures import structure

MemoryRequirements = structure("VkMemoryRequirements", ("size", c_uint64), ("alignment", c_uint64), ("memoryTypeBits", c_uint32))
'''


def _ordered(folder):
    """The headers, each after those that it includes."""
    headers = []

    def add(path):
        if path not in headers:
            for name in re.findall(r"^#include <vkattn/(\w+\.h)>", path.read_text(encoding="utf-8"), re.MULTILINE):
                add(path.with_name(name))
            headers.append(path)
    for path in sorted(folder.glob("*.h")):
        add(path)
    return headers


def _blank(found):
    """As many lines with nothing on them."""
    return "\n" * found[0].count("\n") or " "


def _class_name(name):
    return "".join(part.capitalize() for part in name.split("_")[1:])


class _Module:
    """The text of the module, as far as it is read."""

    def __init__(self):
        self.lines, self._numbers, self._types, self._choices = [_BEGINNING], {}, dict(_TYPES), {}
        self._functions = {"FUNCTIONS": [], "JIT_FUNCTIONS": []}  # of vkattn and of vkattn_jit
        self._readers = (  # of a declaration without comments, with single spaces
            (re.compile(r"typedef enum (\w+) \{(.*)\} \1;"), self._read_enumeration),
            (re.compile(r"typedef struct (\w+) \{(.*)\} \1;"), self._read_structure),
            (re.compile(r"typedef struct \w+ \*(\w+);"), self._read_handle),
            (re.compile(r"typedef (.+?)\(\*(\w+)\)\((.*)\);"), self._read_callback),
            (re.compile(r"VKATTN_(JIT_)?API (.+?)(\w+)\((.*)\);"), self._read_function))

    def read(self, path):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", _blank, path.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = re.sub(r"^#ifdef __cplusplus\b.*?(?=^#(?:else|endif)\b)", _blank, text, flags=re.DOTALL | re.MULTILINE)
        for name, number in re.findall(r"^#define VKATTN_(\w+) +(\d+)u? *$", text, re.MULTILINE):
            self._define(name, int(number))
        text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", _blank, text, flags=re.MULTILINE)
        text = re.sub(r"\bVKATTN_STRUCT_SIZE\(\w+\)", "uint32_t struct_size", text)
        for found in re.finditer(r"\S[^;{}]*(?:\{[^{}]*\}[^;{}]*)?;|\S[^\n]*", text):
            declaration = " ".join(found[0].split())
            try:
                self._read_declaration(declaration)
            except ValueError as error:
                line = text.count("\n", 0, found.start()) + 1
                raise ValueError(f"{path.name}, line {line}: {error}, which _headers.py does not know, in: {declaration}") from None

    def text(self):
        for name, functions in self._functions.items():
            self.lines.append(f"{name} = {{\n" + "".join(f"    {function},\n" for function in functions) + "}")
        return "\n".join(self.lines) + "\n"

    def _read_declaration(self, declaration):
        for pattern, reader in self._readers:
            found = pattern.fullmatch(declaration)
            if found:
                return reader(*found.groups())
        raise ValueError("a declaration")

    def _define(self, name, number):
        self._numbers[f"VKATTN_{name}"] = number
        self.lines.append(f"{name} = {number}")

    def _number(self, text):
        if text.isdigit():
            return int(text)
        if text in self._numbers:
            return self._numbers[text]
        raise ValueError(f"the size {text}")

    def _read_enumeration(self, name, body):
        """Also as {name: number}: in lower case, without what the names of all have in common."""
        members, number = {}, -1
        for member in filter(None, (each.strip() for each in body.split(","))):
            found = re.fullmatch(r"VKATTN_(\w+)(?: = (-?\w+|1u? << \d+))?", member)
            if not found:
                raise ValueError(f"the enumerator {member}")
            base, _, shift = (found[2] or str(number + 1)).replace("u", "").partition(" << ")
            number = members[found[1]] = int(base, 0) << int(shift or 0)
        for member, number in members.items():
            self._define(member, number)
        names = [member for member in members if not member.endswith("_MAX_ENUM")]
        shared = os.path.commonprefix(names if len(names) > 1 else list(members))
        shared = shared[:shared.rfind("_") + 1]
        of_type = name.replace("vkattn_", "", 1).upper()
        choices = {member[len(shared):].lower(): members[member] for member in names
                   if member not in (f"{shared}COUNT", f"{of_type}_COUNT")}
        self._types[name], self._choices[name] = "c_int", of_type if of_type.endswith("S") else f"{of_type}S"
        self.lines.append(f"{self._choices[name]} = {choices}")

    def _read_structure(self, name, body):
        fields = []
        for member in filter(None, (each.strip() for each in body.split(";"))):
            first, *others = [member] if "(" in member else member.split(", ")
            base = re.match(r"(?:const |struct )*\w+ ", first)
            fields += [self._member(each) for each in (first, *(f"{base[0]}{other}" for other in others))]
        self._types[name] = _class_name(name)
        members = "".join(f", ({field!r}, {kind})" for field, kind in fields)
        self.lines.append(f"{_class_name(name)} = structure({name!r}{members})")

    def _member(self, text):
        base, _, name = text.rpartition(" ")
        return (name, self._choices[base]) if base in self._choices else self._declared(text)

    def _read_handle(self, name):
        self._types[name] = "c_void_p"

    def _read_callback(self, result, name, arguments):
        self._types[name] = _class_name(name)
        self.lines.append(f"{_class_name(name)} = {self._function_type(result, arguments)}")

    def _read_function(self, jit, result, name, arguments):
        kinds = "".join(f"{kind}, " for kind in self._arguments(arguments))
        self._functions[f"{jit or ''}FUNCTIONS"].append(f"{name!r}: ({self._declared(f'{result}result')[1]}, ({kinds}))")

    def _function_type(self, result, arguments):
        return f"CFUNCTYPE({', '.join([self._declared(f'{result}result')[1], *self._arguments(arguments)])})"

    def _arguments(self, text):
        arguments = [] if text == "void" else re.split(r", (?![^(]*\))", text)
        if "[" in text:
            raise ValueError("an array as argument")
        return [self._declared(argument)[1] for argument in arguments]

    def _declared(self, text):
        """(name, ctypes' text of its type) of a member or an argument."""
        pointer = re.fullmatch(r"(.+?)\(\*(\w+)\)\((.*)\)", text)
        if pointer:
            return pointer[2], self._function_type(pointer[1], pointer[3])
        found = re.fullmatch(r" *(\w+)([ *]+)(\w+)((?:\[\w+\])*)", re.sub(r"\b(const|struct)\b ?", "", text))
        if not found:
            raise ValueError(text)
        kind = self._type(found[1], found[2].count("*"))
        for size in reversed(re.findall(r"\w+", found[4])):
            kind += f" * {self._number(size)}"
        return found[3], kind

    def _type(self, base, stars):
        if base == "void":
            kind, stars = ("c_void_p", stars - 1) if stars else ("None", 0)
        elif base == "char" and stars:
            kind, stars = "c_char_p", stars - 1
        elif base in self._types:
            kind = self._types[base]
        elif base.startswith("PFN_"):
            kind = "c_void_p"
        elif base.startswith("Vk") and stars:  # a structure of Vulkan's, which stays where it is
            kind, stars = "c_void_p", stars - 1
        else:
            raise ValueError(f"the type {base}")
        return "POINTER(" * stars + kind + ")" * stars


def module_text(folder):
    """The text of _interface.py. Raises ValueError with the header's name and line for what is not known here."""
    module, headers = _Module(), _ordered(pathlib.Path(folder))
    if not headers:
        raise FileNotFoundError(f"{folder}: no headers, expected those of vkattn, as a checkout has them")
    for path in headers:
        module.read(path)
    return module.text()


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(module_text(sys.argv[1]), encoding="utf-8")
