# SPDX-License-Identifier: MIT
"""Compares every statement, filter, test, method and error of Jinja with transformers' environment. Each line of
snippets/*.txt is a template (with ⏎ for a line end, ¦ for two slashes), rendered with VARIABLES."""

import pathlib
import sys

import jinja_oracle as oracle

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <b>"},
            {"role": "assistant", "content": "Hellö"}, {"role": "user", "content": "Bye"}]
VARIABLES = {
    "user": {"name": "Ann", "age": 30, "city": "Rome"},
    "people": [{"name": "Bob", "age": 31, "city": "Rome", "tags": ["a", "b"]},
               {"name": "ann", "age": 25, "city": "oslo", "tags": ["c"]},
               {"name": "Cid", "age": 31, "city": "Oslo", "tags": ["a"]},
               {"name": "Dee", "age": 7, "tags": []}],
    "tree": [{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}, {"name": "d"}]},
             {"name": "e"}],
    "deep": {"type": "object", "properties": {"b": {"type": ["string", "null"]},
                                              "a": {"enum": [1, 2.5, None, True, "é"]}},
             "required": [], "extra": {}, "long": "x" * 90},
    "messages_list": MESSAGES,
}
# The template sets the values that JSON does not have.
PREFIX = "{% set inf = missing|default('inf')|float %}{% set nan = inf - inf %}{% set ns = namespace(a=1) %}"


def snippets():
    for path in sorted(pathlib.Path(__file__).parent.glob("snippets/*.txt")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            source = line.replace("⏎", "\n").replace("\\r", "\r").replace("¦", "//")
            uses = any(word in source for word in ("inf", "nan", "ns"))
            yield f"{path.name}:{number}", (PREFIX if uses else "") + source


def main():
    named = list(snippets())
    variables = oracle.variables_of(None, VARIABLES)
    ours = oracle.answers([{"template": source, "variables": variables} for _, source in named])
    failed = 0
    for (name, source), mine in zip(named, ours):
        difference = oracle.difference(mine, oracle.expected(source, variables))
        if difference is not None:
            failed += 1
            print(f"{name}: {source}\n  {difference}")
    print(f"{len(named) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
