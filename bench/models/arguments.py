# SPDX-License-Identifier: MIT
"""Arguments of the programs beside it."""

import argparse


class Parser(argparse.ArgumentParser):
    """Options may stand between other arguments; --fill=NAME=SIZE, which repeats, becomes a dict."""

    def __init__(self, text):
        title, _, rest = text.partition("\n\nusage: ")
        usage, _, details = rest.partition("\n\n")
        super().__init__(usage=usage, description=f"{title}\n\n{details}", allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def add_fill(self):
        self.add_argument("--fill", action=Fill, type=named_size, default={}, metavar="NAME=SIZE")

    def options_of(self, words):
        return vars(self.parse_intermixed_args(words))


class Fill(argparse.Action):
    def __call__(self, _parser, options, size, _flag=None):
        options.fill = {**options.fill, size[0]: size[1]}


def named_size(text):
    name, _, size = text.rpartition("=")
    return name, int(size)


def words(text):
    return text.split(",")


def counts(text):
    return [int(word) for word in words(text)]
