#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sentence that the library, the plugins and the tools can print on standard error, and its
parts, as a list made from the source:

    scripts/messages.py               all: FILE:LINE, a tab, the sentence with its places for
                                      values
    scripts/messages.py core plugins  those of some folders

A sentence is the format of a function that is declared with format(printf), or what fprintf, fputs
or perror write to stderr. A part is any other literal of several words: from snprintf, a value that
stands in a sentence, a choice, a table. Where a table goes is not known here, so some parts are of
help texts and reports; what printf and the like write themselves is left out.
What only passes a format on ("%s") is left out: the sentence stands where it was made.
"""
import os
import re
import signal
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("core", "machine", "launch", "plugins", "tools", "examples")
LITERAL = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
TOKEN = re.compile(r"//[^\n]*|#error[^\n]*|/\*.*?\*/|" + LITERAL + r"|\w+|\s+|.", re.S)
NAME = re.compile(r"(?:\(\*(\w+)\)|(\w+))\(")
PLACE = re.compile(r"%[-+ #0-9.*]*l*[a-z]")
# What is handed to these is no part of an error.
ELSEWHERE = {"printf", "puts", "strcmp", "strncmp", "strstr", "_Static_assert", "_Pragma"}
DECLARED = re.compile(r"__attribute__\(\(format\(printf, (\d+), \d+\)\)\)")


def sources(folders):
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(TOP, folder))):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    with open(os.path.join(path, name), encoding="utf-8") as f:
                        yield os.path.relpath(os.path.join(path, name), TOP), f.read()


def formatters():
    """Which argument is the format: by file, "" for what headers declare, and by name. Of functions
    and pointers to them, and of macros that end in "..."."""
    found = {"": {"fprintf": 2, "fputs": 1, "perror": 1}}
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
        if not word.isspace() and not word.startswith(("//", "/*", "#error")):
            yield word, line
        line += word.count("\n")


def to_stderr(words, at):
    """Of a call of fprintf or fputs whose '(' stands at `at`."""
    depth = 0
    for word, _ in words[at:]:
        depth += (word in "([{") - (word in ")]}")
        if depth == 0 or word == "stderr":
            return depth > 0
    return False


def literals(words):
    """Each: literals in a row as one text, its line, and the calls around it, from the outermost
    on, as pairs of a name and the number of the argument."""
    around, parts, line = [], [], 0
    for i, (word, at) in enumerate(words):
        if word.startswith('"'):
            line = line if parts else at
            parts.append(word[1:-1])
            continue
        if word.startswith("PRI"):
            line = line if parts else at
            parts.append({"x": "lx", "d": "ld"}.get(word[3], "lu"))
            continue
        if parts:
            yield "".join(parts), line, around
            parts = []
        if word in "([{":
            name = words[i - 1][0] if word == "(" and i else ""
            if name in ("fprintf", "fputs") and not to_stderr(words, i):
                name = "printf"
            around.append([name, 1])
        elif word in ")]}" and around:
            around.pop()
        elif word == "," and around:
            around[-1][1] += 1


def is_said(text, around, known):
    plain = PLACE.sub("", text)
    if not re.search(r"[a-z]{2}", plain):
        return False
    if any(known.get(name) == n for name, n in around):
        return True
    return " " in text.strip() and not any(name in ELSEWHERE for name, _ in around)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads the list may have had enough
    by_file = formatters()
    for name, text in sources(sys.argv[1:] or FOLDERS):
        known = {**by_file[""], **by_file.get(name, {})}
        for sentence, line, around in literals(list(tokens(text))):
            if is_said(sentence, around, known):
                print(f"{name}:{line}\t{sentence}")


if __name__ == "__main__":
    main()
