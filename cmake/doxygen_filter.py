#!/usr/bin/env python3
"""Doxygen's view of a header: plain comments become its own.

A line "name  text" in the comment of a structure or function is given to that member or parameter; other such lines become a list.
Indented lines that are neither stay as they are, as code.

    doxygen_filter.py FILE
"""
import fnmatch
import pathlib
import re
import sys

BLOCK = re.compile(r"(?ms)^( *)/\*(?!\*) ?((?:(?!\*/).)*)\*/\n")
STRUCTURE = re.compile(r"(?ms)typedef struct \w+ \{\n(.*?)^\} \w+;")
FUNCTION = re.compile(r"(?ms)(?:VKATTN_API|typedef) [^;{]*?\w+\)?\(([^;{]*?)\);")
TERM = re.compile(r" *(\S+(?: \S+)*?)  +(\S.*)")
NAME = re.compile(r"( *)([\w*]+(?:, [\w*]+)*)(?:  +|: | )(\S.*)")
HEADERS = pathlib.Path(sys.argv[1]).parent
FUNCTIONS = {name for path in HEADERS.glob("*.h") for name in re.findall(r"VKATTN_API [^;(]*?(\w+)\(", path.read_text(encoding="utf-8"))}


def escaped(text):
    """Text as it stands; functions get the parentheses that make a link of them."""
    text = re.sub(r"([\\@&#<>%\"])", r"\\\1", text)
    return re.sub(r"\bvkattn_\w+\b(?!\()", lambda name: name.group() + "()" * (name.group() in FUNCTIONS), text)


def members_of(text):
    """The names that a line of a structure, or a list of parameters, declares."""
    text = re.sub(r"/\*.*?\*/|\[[^\]]*\]|\)\(.*?\)", "", text)
    return [re.findall(r"\w+", part)[-1] for part in text.rstrip("; \n").split(",") if re.search(r"\w", part)]


def declared_names(following):
    """Members of the structure, or parameters of the function, that follows a comment."""
    structure, function = STRUCTURE.match(following), FUNCTION.match(following)
    if structure:
        body = re.sub(r"(?s)/\*.*?\*/", "", structure.group(1))
        return True, [name for line in body.split("\n") for name in members_of(line)]
    return False, members_of(function.group(1)) if function else []


class Comment:
    """The text of a comment, and what of it belongs to names that are declared after it."""

    def __init__(self, body, is_structure=True, names=()):
        self.is_function = bool(names) and not is_structure
        self.lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in body.rstrip().split("\n")]
        self.names, self.of_name, self.text = names, {}, []
        while self.lines:
            self.take_next()
        if is_structure:
            self.share_out()

    def depth(self, index=0):
        return len(self.lines[index]) - len(self.lines[index].lstrip())

    def take_next(self):
        if not self.lines[0]:
            self.text.append(self.lines.pop(0))
        elif found := self.starts_item():
            words = self.taken(NAME.fullmatch(self.lines[0]).group(3))
            for name in found:
                self.of_name.setdefault(name, []).append(words)
        elif self.depth() >= 4:
            self.take_code()
        elif term := TERM.fullmatch(self.lines[0]):
            self.text.append(f"- <b>{escaped(term.group(1))}</b> {escaped(self.taken(term.group(2)))}")
        else:
            self.text.append(escaped(self.lines.pop(0).strip()))

    def starts_item(self):
        """The names that the next line is about. A name within a sentence is none, unless it stands apart; nor is a formula's."""
        named = NAME.fullmatch(self.lines[0])
        if not named or named.group(3).startswith("= "):
            return []
        found = [[name for name in self.names if fnmatch.fnmatchcase(name, word)] for word in named.group(2).split(", ")]
        gap = self.lines[0][len(named.group(1)) + len(named.group(2)):]
        last = self.text[-1] if self.text else ""
        stands_apart = gap.startswith(("  ", ":")) or not last or last.endswith((".", ":")) or self.of_name
        return sum(found, []) if all(found) and stands_apart else []

    def taken(self, first):
        """The rest of an item: lines that are indented deeper than its name; of a parameter, to the end of the sentence."""
        depth, words = self.depth(), [first]
        self.lines.pop(0)
        while self.lines and self.lines[0] and (self.depth() > depth or self.is_cut_off(words[-1])):
            words.append(self.lines.pop(0).strip())
        return " ".join(words)

    def is_cut_off(self, last):
        return self.is_function and not last.endswith(".") and not self.starts_item()

    def take_code(self):
        code = []
        while self.lines and (not self.lines[0] or self.depth() >= 4):
            code.append(self.lines.pop(0))
        while not code[-1]:
            self.lines.insert(0, code.pop())
        self.text += ["@verbatim", *code, "@endverbatim"]

    def share_out(self):
        """Text that is about a second member, too: "alibi_slopes ...;  sinks [Hq] F32", "query [B,H,L,D], output [...]"."""
        for name, words in list(self.of_name.items()):
            first, *others = re.split(r";  (?=\w+ )", words[0])
            if others and all(other.split()[0] in self.names for other in others):
                words[0] = first
                for other in others:
                    self.of_name[other.split()[0]] = [other.split(" ", 1)[1]]
        for name in self.names:
            about = next((other for other, words in self.of_name.items()
                          if re.search(rf"(?<![\w.]){name} (\[|the same)", " ".join(words))), None)
            if name not in self.of_name and about:
                self.of_name[name] = [f"see {about}"]


def commented(indent, lines):
    return f"{indent}/** " + "\n".join(f"{indent} * {line}".rstrip() for line in lines)[len(indent) + 3:] + f"\n{indent} */\n"


def with_members(structure, of_name):
    """The structure, each member's text before it."""
    lines = []
    for line in structure.split("\n"):
        if re.match(r" +\w[^/]*;", line):
            said = {" ".join(of_name[name]): None for name in members_of(line[:line.index(";") + 1]) if name in of_name}
            lines += [f"    /** {escaped(words)} */" for words in said]
        lines.append(line)
    return "\n".join(lines)


def header(text, is_main):
    out, position = [], 0
    while match := BLOCK.search(text, position):
        out.append(text[position:match.start()])
        position = match.end()
        indent, body = match.groups()
        if body.startswith("---"):
            continue
        # a constant between a comment and its function
        between = re.compile(r"#define \w+ \d+\n").match(text, position)
        if between:
            out.append(between.group())
            position = between.end()
        is_structure, names = declared_names(text[position:])
        comment = Comment(body, is_structure, names)
        lines = comment.text
        if match.start() == 0:
            lines = ["@mainpage vkattn", *lines, "", '<a href="../index.html">The guide and the other pages</a>'] if is_main else ["@file", *lines]
        if not is_structure:
            lines = lines + [f"@param {name} {escaped(' '.join(comment.of_name[name]))}" for name in names if name in comment.of_name]
        out.append(commented(indent, lines))
        if is_structure:
            structure = STRUCTURE.match(text, position)
            position = structure.end()
            out.append(header(with_members(structure.group(), comment.of_name), False))
    out.append(text[position:])
    return "".join(out)


def cpp_header(text):
    """Of vkattn.hpp; what comes first is of the file."""
    first = re.match(r"(?:// ?.*\n)+", text).group()
    comment = Comment(re.sub(r"(?m)^// ?", "", first))
    text = commented("", ["@file", *comment.text]) + text[len(first):]
    text = re.sub(r"(?m)^(\s*)// (.*)", lambda line: f"{line.group(1)}/// {escaped(line.group(2))}", text)
    return re.sub(r"(?m)([;,]) // ", r"\1 ///< ", text)


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".hpp":
        text = cpp_header(text)
    else:
        text = re.sub(r"([;,0-9]) +/\* (.*?) ?\*/", lambda said: f"{said.group(1)} /**< {escaped(said.group(2))} */",
                      header(text, path.name == "vkattn.h"))
    sys.stdout.write(text)


main()
