#!/usr/bin/env python3
"""amalgamate.py SOURCE GENERATED... OUTPUT: writes the library as one file, OUTPUT/vkattn.cpp, beside its public headers.

SOURCE is the checkout or release, GENERATED the folders of a build where headers and table.cpp are that CMake makes. Each header stands
where it is first included. Names of anonymous namespaces that another file declares as well get the name of their file behind them:
each file was a translation unit of its own. Files that include a system's own headers stand behind the others, since those define macros, and
last those with a `using namespace` for the whole file, which such headers would not bear.
"""
import pathlib
import re
import shutil
import sys

HEAD = """// vkattn {version} as one translation unit: c++ -std=c++20 -O2 -c vkattn.cpp -Iinclude
// Made of the library's sources; do not edit it. It is C++, since the library is; its interface, include/vkattn/vkattn.h, is C.
// Needs Vulkan's headers at build time, and a Vulkan loader, which it opens, at run time. Shaders are in it, compiled and deflated.
//
{licence}
#if !defined(VKATTN_BUILD) && !defined(VKATTN_STATIC)
#define VKATTN_STATIC // a program that is linked with it defines it as well, on Windows
#endif
#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-const-variable" // of headers, which are a part of this file
#endif
"""
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?s:.*?)\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#\s*include[^\n]*|\d[\w']*|[A-Za-z_]\w*|->|::|\s+|.""",
                   re.DOTALL | re.VERBOSE)
INCLUDE = re.compile(r'^#\s*include "([^"]+)"', re.MULTILINE)
SYSTEM = re.compile(r"^#\s*include <(?:windows|unistd|fcntl|dlfcn|sys/\w+)\.h>", re.MULTILINE)


LEAKS = re.compile(r"^using namespace ", re.MULTILINE)


def declared(text):
    """(names in anonymous namespaces, other names) of what begins at the beginning of a line, as clang-format lays it out."""
    own, other, inside = set(), set(), False
    for whole in re.findall(r"^(?:[A-Za-z_]|} // n).*(?:\n {4,}\S.*)*", text, re.MULTILINE):
        line = whole.split("\n")[0]
        if line.startswith(("namespace ", "} // namespace")):
            inside = line == "namespace {"
        if line.startswith(("namespace ", "} // n", "extern ", "using namespace ", "static_assert(", "enum :", "public:", "private:", "VKATTN_")):
            continue
        names = own if inside or line.startswith("static ") else other
        line = re.sub(r"^template <.*?>(?= \w)", "", line).strip()
        before = re.match(r"[^(={;\[]*", line)[0]
        found = re.match(r"(?:struct|class|union|enum class|enum|using|concept) (\w+)", line) or re.search(r"(?<![:\w])(\w+)\s*$", before)
        if found and "operator" not in before:
            names.add(found[1])
        if line.startswith("constexpr "):
            names.update(re.findall(r"(?:,|^) *(k[A-Z]\w*)(?:\[\w*\])* = ", whole, re.MULTILINE))  # more of one declaration
    for enumerators in re.findall(r"^enum (?!class)[^{;]*{([^}]*)}", text, re.MULTILINE):
        other.update(re.findall(r"(\w+) =", enumerators))
    return own, other


def renamed(text, names, suffix):
    """The text with these names as NAME_SUFFIX, but in texts, in comments, and where they are members."""
    made, before = [], ""
    for token in TOKEN.findall(text):
        if token in names and before not in (".", "->", "::"):
            token = f"{token}_{suffix}"
        made.append(token)
        if not token.isspace():
            before = token
    return "".join(made)


def used_outside(text, name):
    """Whether a name of an anonymous namespace stands outside of any, or before its declaration, other than as a member."""
    inside = declared_yet = False
    for line in text.splitlines():
        if line.startswith(("namespace ", "} // namespace")):
            inside = line == "namespace {"
        before = ""
        for token in TOKEN.findall(line):
            if token == name and before not in (".", "->", "::"):
                declared_yet = declared_yet or inside and re.match(r"[A-Za-z_]", line)
                if not inside or not declared_yet:
                    return True
            if not token.isspace():
                before = token
    return False


class Amalgamation:
    def __init__(self, root, generated):
        self.folders = [root, *generated]
        self.written = set()

    def find(self, name, beside):
        for folder in (beside.parent, *self.folders):
            if (folder / name).exists():
                return (folder / name).resolve()
        sys.exit(f"amalgamate.py: {beside} includes {name}, which is in none of {', '.join(map(str, self.folders))}")

    def read_by(self, path, text, known=None):
        """The project's headers that a file includes, or that these do."""
        known = set() if known is None else known
        for name in INCLUDE.findall(text):
            found = None if name.startswith("vkattn/") else self.find(name, path)
            if found and found not in known:
                known.add(found)
                self.read_by(found, found.read_text(encoding="utf-8"), known)
        return known

    def inlined(self, path, text):
        """The text with the project's headers in it, each once."""
        def header(match):
            if match[1].startswith("vkattn/"):  # the interface, which stands beside
                return f"#include <{match[1]}>"
            found = self.find(match[1], path)
            if found in self.written:
                return ""
            content = found.read_text(encoding="utf-8")
            if "#pragma once" in content or re.search(r"^#ifndef (\w+)\n#define \1$", content, re.MULTILINE):
                self.written.add(found)  # else a table, which may be read more than once
            return self.inlined(found, content.replace("#pragma once\n", ""))
        return INCLUDE.sub(header, text)

    def macros(self, text):
        """What ends the macros of a file."""
        left = set(re.findall(r"^#\s*define (\w+)", text, re.MULTILINE)) - set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
        return "".join(f"#undef {name}\n" for name in sorted(left))


def main():
    root, *generated, output = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    files = sorted(path for path in root.glob("runtime/*/*.cpp") if path.parent.name != "jit" and path.stem != "emulated_subgroups")
    files += [found for folder in generated for found in sorted(folder.glob("table.cpp"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    files.sort(key=lambda path: 2 if LEAKS.search(texts[path]) else 1 if SYSTEM.search(texts[path]) else 0)

    names = {path: declared(text) for path, text in texts.items()}
    in_header = {path: declared(path.read_text(encoding="utf-8"))[1] for path in root.glob("runtime/*/*.hpp")}
    taken = {}
    for path, (own, other) in names.items():
        for name in own | other:
            taken.setdefault(name, set()).add(path)
    whole = Amalgamation(root, generated)
    version = re.search(r"project\(vkattn VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    licence = "".join(f"// {line}".rstrip() + "\n" for line in (root / "LICENSE").read_text(encoding="utf-8").splitlines())
    parts = [HEAD.format(version=version, licence=licence)]
    for path in files:
        read = whole.read_by(path, texts[path])
        own = names[path][0]
        known = set().union(*(in_header.get(header, set()) for header in read)) & own
        for name in sorted(known):  # in its anonymous namespace it hides what the header declares: outside a call may mean either
            if used_outside(texts[path], name):
                sys.exit(f"amalgamate.py: {path} overloads {name} of a header and calls one of them, expected another name of its own")
        others = set().union(*(found for header, found in in_header.items() if header not in read))
        twice = known | {name for name in own if name in others or len(taken[name]) > 1}
        text = renamed(texts[path], twice, f"{path.parent.name}_{path.stem}")
        title = path.relative_to(root) if path.is_relative_to(root) else path.name
        parts.append(f"\n// {title}\n{whole.inlined(path, text)}{whole.macros(text)}")

    one = re.sub(r"\n{3,}", "\n\n", "".join(parts))
    one = re.sub(r"\b0x([0-9a-f]{2}),", lambda byte: f"{int(byte[1], 16)},", one)  # of shaders: a third shorter

    shutil.rmtree(output / "include", ignore_errors=True)
    shutil.copytree(root / "include", output / "include", ignore=shutil.ignore_patterns("jit.h*"))
    shutil.copy(root / "LICENSE", output)
    (output / "vkattn.cpp").write_text(one, encoding="utf-8")


main()
