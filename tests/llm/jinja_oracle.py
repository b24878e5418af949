# SPDX-License-Identifier: MIT
"""Renders templates with transformers' environment and with Lathe's renderer, for comparison."""

import datetime
import json
import os
import pathlib
import subprocess

import jinja2
import transformers.utils.chat_template_utils as chat

SECONDS, MICROSECONDS = 1700000000, 123456  # as in tests/llm/template_probe.cpp
PROBE = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent / "tests" / "template_probe"


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(SECONDS).replace(microsecond=MICROSECONDS)


chat.datetime = FixedDatetime


def name_of(error):
    """Lathe's name of an exception: its class, or the nearest base class that Lathe has."""
    for cls in type(error).__mro__:
        if cls is jinja2.exceptions.TemplateNotFound:
            return "TemplateNotFound"
        if cls.__module__ in ("builtins", "jinja2.exceptions"):
            return cls.__name__
    return type(error).__name__


def expected(template, variables):
    try:
        compiled = chat._compile_jinja_template(template)
        text, spans = chat._render_with_assistant_indices(
            compiled, variables.get("messages"), variables.get("tools"),
            variables.get("documents"), variables.get("add_generation_prompt"),
            **{k: v for k, v in variables.items()
               if k not in ("messages", "tools", "documents", "add_generation_prompt")})
        return {"text": text, "generations": [list(span) for span in spans]}
    except Exception as error:  # the answer is the template's exception
        message = error.message if isinstance(error, jinja2.TemplateError) else str(error)
        return {"error": name_of(error), "message": "" if message is None else str(message),
                "line": getattr(error, "lineno", None)}


def answers(requests):
    """The answers of Lathe's renderer, in order."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([str(PROBE)], input=lines, capture_output=True,
                          text=True, encoding="utf-8", check=False)
    out = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(out) != len(requests):
        at = requests[len(out)] if len(out) < len(requests) else None
        raise SystemExit(f"the renderer ended with {done.returncode} at {at}\n{done.stderr}")
    return out


def variables_of(template, variables):
    """Adds the four variables that transformers always sets."""
    full = {"messages": None, "tools": None, "documents": None, "add_generation_prompt": False}
    return {**full, **variables}


def difference(mine, theirs):
    """None if text or kind of error agree, else the difference."""
    if "error" in theirs:
        if mine.get("error") == theirs["error"]:
            if mine["error"] in ("TemplateError", "TemplateSyntaxError", "UndefinedError",
                                 "SecurityError", "TemplateAssertionError"):
                if mine["message"] != theirs["message"]:
                    return f"message {mine['message']!r}, expected {theirs['message']!r}"
                if theirs["line"] is not None and mine["line"] != theirs["line"]:
                    return f"line {mine['line']}, expected {theirs['line']}"
            return None
        return f"{mine}, expected {theirs}"
    if "error" in mine:
        return f"{mine}, expected {theirs}"
    for key in ("text", "generations"):
        if mine[key] != theirs[key]:
            return f"{key} {mine[key]!r}, expected {theirs[key]!r}"
    return None
