#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sentence that the library, the plugins and the tools can print, as a list made from the source:

    scripts/messages.py               all: FILE:LINE, a tab, the sentence with its places for
                                      values
    scripts/messages.py core plugins  those of some folders

A sentence is the format of a function that is declared with format(printf), or of fprintf(stderr).
What only passes a format on ("%s") is left out: the sentence stands where it was made.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("core", "machine", "launch", "plugins", "tools", "examples")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|\s+|.', re.S)
NAME = re.compile(r"(?:\(\*(\w+)\)|(\w+))\(")
DECLARED = re.compile(r"__attribute__\(\(format\(printf, (\d+), \d+\)\)\)")


def sources(folders):
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(TOP, folder))):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    with open(os.path.join(path, name), encoding="utf-8") as f:
                        yield os.path.relpath(os.path.join(path, name), TOP), f.read()


def formatters():
    """Which argument is the format: by file, "" for what headers declare, and by name. Of functions and
    pointers to them, and of macros that end in "..."."""
    found = {"": {"fprintf": 2}}
    for name, text in sources((*FOLDERS, "include")):
        here = found.setdefault("" if name.endswith(".h") else name, {})
        text = "".join("" if word.startswith("/*") else word for word in TOKEN.findall(text))
        for mark in DECLARED.finditer(text):
            before = re.split(r"[;{}]", text[:mark.start()])[-1]
            names = NAME.findall(before) or NAME.findall(text[mark.end():mark.end() + 300])
            here.update({(pointer or plain): int(mark.group(1)) for pointer, plain in names[:1]})
        for macro in re.finditer(r"#define (\w+)\(((?:\w+, )*)\.\.\.\)", text):
            here[macro.group(1)] = macro.group(2).count(",") + 1
    return found


def tokens(text):
    line = 1
    for word in TOKEN.findall(text):
        if not word.isspace() and not word.startswith(("//", "/*")):
            yield word, line
        line += word.count("\n")


def arguments(words, at):
    """Of a call whose '(' stands at `at`: each a list of words."""
    depth, args = 0, [[]]
    for word, _ in words[at:]:
        if word in "([{":
            depth += 1
        if word in ")]}":
            depth -= 1
        if depth == 0:
            return args
        if word == "," and depth == 1:
            args.append([])
        elif not (word == "(" and depth == 1 and args == [[]]):
            args[-1].append(word)
    return args


def sentences(words):
    """What an argument may be: literals in a row; of a choice, each."""
    found, parts = [], []
    for word in [*words, ":"]:
        if word.startswith('"'):
            parts.append(word[1:-1])
        elif word.startswith("PRI"):
            parts.append({"x": "lx", "d": "ld"}.get(word[3], "lu"))
        elif parts:
            found.append("".join(parts))
            parts = []
    return [s for s in found if re.search(r"[a-z]{2}", re.sub(r"%[-+ #0-9.*]*l*[a-z]", "", s))]


def main():
    by_file = formatters()
    for name, text in sources(sys.argv[1:] or FOLDERS):
        known = {**by_file[""], **by_file.get(name, {})}
        words = list(tokens(text))
        for i in range(len(words) - 1):
            if words[i][0] not in known or words[i + 1][0] != "(":
                continue
            args = arguments(words, i + 1)
            n = known[words[i][0]]
            if words[i][0] == "fprintf" and args[0] != ["stderr"]:
                continue
            for sentence in sentences(args[n - 1]) if n <= len(args) else ():
                print(f"{name}:{words[i][1]}\t{sentence}")


if __name__ == "__main__":
    main()
