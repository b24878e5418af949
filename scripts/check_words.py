# SPDX-License-Identifier: MIT
"""Checks the words of comments, messages and documents, and the subjects of commits.

usage: check_words.py [--count] [PATH...]     default: every tracked file and all subjects

A row of WORDS is a word that the field does not use, what to write instead, and where it is wrong: in
comments, in messages (string literals of sources) and in documents, all by default, below some folders.
A line that is right all the same is in ALLOWED with its reason. --count prints the number for each
folder and for each word.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

KERNELS = "src/targets/cpu/|tests/kernels/|bench/kernels/"
MODELS = "src/llm/model/|src/passes/|tests/decoders/"
EVERYWHERE = ""

# (pattern, what to write, kinds of text, folders)
WORDS = [
    # Kernels
    (r"(?<!chat )(?<!in )(?<!each )(?<!a )(?<!new )(?<!next )\bturn(s|ed|ing)?\b(?! (in)?to\b)(?! o(n|ff)\b)", "transpose, RoPE, rotate, step, slot, round", "cmd", "^(?!.*(chat|language-models))"),
    (r"(?<!inner )(?<!dot )(?<!outer )(?<!partial )(?<!cartesian )\bproducts?\b", "GEMM, matrix multiplication", "cmd", KERNELS),
    (r"\bfew numbers|\bnumbers (in|of) k\b|\bnumbers\b", "elements, values; small K", "cd", KERNELS),
    (r"\b(of|in|from|for|to) bytes\b|\bwords\b", "int8, int16, quantised values", "c", KERNELS),
    (r"(?<!partial )(?<!row )(?<!column )(?<!block )(?<!integer )\bsums\b(?! (up|over)\b)", "accumulators, partial sums", "c", KERNELS),
    (r"\bparts of k\b", "split K", "cd", KERNELS),
    (r"\b(ends?|ended|finish(es|ed)?) (the |its |their )?(sums|tiles?|products?)\b", "apply the epilogue", "cd", KERNELS),
    (r"\b(feeds?|touch(es|ed|ing)?)\b|\b(fetch|load|read|ask)(s|es|ed)?( \w+)? ahead\b", "prefetch", "cd", KERNELS),
    (r"\b(first|second|third|far|farther|near) caches?\b", "L1, L2, L3", "cmd", EVERYWHERE),
    (r"\b(far|near|farther|nearer)\b", "cold, cached; L3, memory", "c", KERNELS),
    (r"(?<!cache )(?<!cache-)(?<!full )\blines?\b(?!-fill| buffer)", "cache line, output row", "c", "src/targets/cpu/kernels/"),
    (r"(?<!prefetch )\bstreams?\b", "sequential access, hardware prefetch stream", "c", "src/targets/cpu/kernels/"),
    (r"\bfew rows\b", "small M, decode, GEMV", "cd", KERNELS),
    (r"\bside by side\b|\bone behind the other\b|\bl(ie|ies|ay|ying) apart\b", "contiguous, consecutive, strided", "cmd", EVERYWHERE),
    (r"\bcrowds?\b|\bcrowded\b", "cache-set conflicts", "cd", KERNELS),
    # Language models
    (r"(?<!matrix )(?<!table )(?<!logit )\brows?\b(?! of (a|the) (matrix|table))", "token, position, slot, prompt", "cmd", MODELS),
    (r"\bcaches? of keys and values\b|\bcaches? in blocks\b", "KV cache, paged KV cache", "cmd", EVERYWHERE),
    (r"\b(written )?in a circle\b", "ring buffer", "cmd", EVERYWHERE),
    (r"\bitem by item\b", "one sequence per run", "cmd", EVERYWHERE),
    (r"\bgroups of heads\b|\bgrouped heads\b", "GQA", "cmd", EVERYWHERE),
    (r"\btalk(s|ed|ing)?\b", "conversation, chat", "cmd", EVERYWHERE),
    (r"\blikeliest\b", "most likely, top-n", "cmd", EVERYWHERE),
    (r"\bdraws?\b|\bdrawn\b", "sample", "cmd", "src/llm/(search|model)/"),
    (r"\boffender\b", "blocking instruction", "cmd", EVERYWHERE),
    (r"\blets? go\b|\blet it go\b|\bforgets?\b|\bforgotten\b|\bparted\b", "evict, drop, rewind; diverged", "cmd", EVERYWHERE),
    (r"\bsees? (or|and) hears?\b", "vision and audio", "cmd", EVERYWHERE),
    (r"\bpictures?\b", "image", "cmd", EVERYWHERE),
    (r"\bshort and long tables\b", "LongRoPE cos/sin caches", "cmd", EVERYWHERE),
    # Compiler and runtime
    (r"\bextents?\b", "shape, size of axis n, dimension", "md", EVERYWHERE),
    (r"\b(is|are) (not )?whole\b|\bwhole programs?\b", "valid", "cmd", EVERYWHERE),
    (r"\bgives?\b|\bgiving\b", "returns, produces, has", "cmd", EVERYWHERE),
    (r"\blent\b|\blends?\b", "thread-local scratch", "cmd", EVERYWHERE),
    (r"\bways? (of|between|from)\b", "def-use path; method", "c", "src/passes/"),
    # Messages and voice
    (r"\bis no [a-z]|\bare no [a-z]", "is not a valid X; unknown X; has no X", "m", EVERYWHERE),
    (r"\bthere is no\b", "unknown X; X not found", "m", EVERYWHERE),
    (r"\bwants?\b|\bwanted\b|\bask(s|ed|ing)? for\b|\basks?\b|\basked\b", "requires, requests, needs", "cmd", EVERYWHERE),
    (r"\btells?\b|\btold\b|\bsays?\b|\bsaid\b", "prints, shows, states, has", "cmd", EVERYWHERE),
    (r"\bthe place for\b", "argument 'x' is NULL", "m", EVERYWHERE),
    (r"\bwhole numbers?\b|\bso many\b|\btime is over\b", "integer; N; timed out", "cmd", EVERYWHERE),
    (r"\b(nobody|somebody|anybody|whoever|someone|anyone)\b", "unused; the caller; the next thread", "cmd", EVERYWHERE),
    (r"\bstands? (in|on|at|for|behind|before|beside)\b", "is in, is at", "cmd", EVERYWHERE),
    (r"\bcomes? to the same\b|\bat hand\b|\bbehind one another\b", "is equal; cached; consecutive", "cmd", EVERYWHERE),
]
OPENINGS = re.compile(r"(?:^|(?<=[.:;] ))(Of|The same|Whose|Who|Nobody|Whoever)\b")
SUBJECT = re.compile(r"[a-z0-9_./{},-]+( [a-z0-9_./{},-]+)?: [a-zA-Z]")
MAX_SUBJECT = 72
# The last commit before the form of subjects was agreed on.
SUBJECTS_SINCE = "fd27d63d1928"

# Path and part of a line that is right, with the reason.
ALLOWED = [
    (r"src/llm/template/", '"there is no ', "Jinja's message, compared by a test"),
    (r"src/llm/template/", "did you forget to quote", "Jinja's message"),
    (r"bench/kernels/problem\.h", "far=1", "a parameter in the names of benchmarks"),
]
SELF = "scripts/check_words.py"
CPP = {".cpp", ".h", ".inc", ".c"}
HASH = {".py", ".sh", ".cmake"}
TOKENS = re.compile(
    r'(?P<c>//[^\n]*|/\*.*?\*/)|R"(?P<tag>\w*)\((?P<raw>.*?)\)(?P=tag)"|"(?P<m>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])*'",
    re.S,
)
HASH_COMMENT = re.compile(r"(?:^|\s)#(?!!)\s(?P<c>[^\n]*)", re.M)
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
DOCSTRING = re.compile(r'"""(.*?)"""', re.S)
SKIPPED = re.compile(r"^third_party/|^tests/(llm/(snippets|templates|tokenizers)|fuzz/seeds)/|^docs/(ops|onnx|options)\.md$")


def texts(path, text):
    """(kind, offset, text) of each comment, message and piece of a document."""
    if path.suffix in CPP:
        for match in TOKENS.finditer(text):
            if match.group("c"):
                yield "c", match.start("c"), match.group("c")
            elif match.group("m") and " " in match.group("m") and path.parts[0] in ("src", "include"):
                yield "m", match.start("m"), match.group("m")
    elif path.suffix in HASH or path.name in ("CMakeLists.txt", "Makefile"):
        for match in HASH_COMMENT.finditer(text):
            yield "c", match.start("c"), match.group("c")
        if path.suffix == ".py":
            for match in DOCSTRING.finditer(text):
                yield "c", match.start(1), match.group(1)
    elif path.suffix == ".md":
        prose = CODE_BLOCK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        prose = re.sub(r"`[^`\n]*`", lambda m: " " * len(m.group()), prose)
        yield "d", 0, prose


def allowed(path, line):
    return any(re.match(place, str(path)) and part in line for place, part, _ in ALLOWED)


def problems_of(path):
    text = path.read_text(errors="replace")
    lines = text.split("\n")
    rows = [row for row in COMPILED if row[3].search(str(path))]
    for kind, start, piece in texts(path, text):
        found = [(m, m.group().strip(), write) for pattern, write, kinds, _ in rows if kind in kinds
                 for m in pattern.finditer(piece)]
        if kind == "c":
            stripped = re.sub(r"^(//+|/\*) ?", "", piece)
            begin = len(piece) - len(stripped)
            before = lines[text.count("\n", 0, start) - 1].strip() if "\n" in text[:start] else ""
            if not before.startswith(("//", "#")):
                found += [(m, m.group(), "a sentence with a subject", begin)[:3]
                          for m in OPENINGS.finditer(stripped)]
        for match, word, write in found:
            number = text.count("\n", 0, start + match.start())
            if not allowed(path, lines[number]):
                yield number + 1, word.lower(), write


COMPILED = [(re.compile(pattern, re.I), write, kinds, re.compile(folders or "."))
            for pattern, write, kinds, folders in WORDS]


def check_subjects():
    log = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", f"{SUBJECTS_SINCE}..HEAD"],
                         capture_output=True, text=True)
    if log.returncode != 0:
        print(f"note: commit {SUBJECTS_SINCE} is not in this clone: subjects are not checked")
        return
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if not SUBJECT.match(subject):
            yield f"{commit}: subject '{subject}' is not 'area: imperative'"
        elif len(subject) > MAX_SUBJECT:
            yield f"{commit}: subject has {len(subject)} characters, at most {MAX_SUBJECT}"


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    words = [word for word in sys.argv[1:] if word != "--count"]
    count = len(words) + 1 < len(sys.argv)
    listed = subprocess.check_output(["git", "ls-files", "-z", "--", *words], text=True).split("\0")
    files = [p for p in map(pathlib.Path, listed) if p.is_file() and not SKIPPED.match(str(p))]
    by_folder, by_word, problems = collections.Counter(), collections.Counter(), []
    for path in files:
        if str(path) == SELF:
            continue
        for line, word, write in problems_of(path):
            by_folder[str(path.parent)] += 1
            by_word[word] += 1
            problems.append(f"{path}:{line}: '{word}': write {write}")
    if not words:
        problems += check_subjects()
    if count:
        for counter in (by_folder, by_word):
            for name, number in counter.most_common(60):
                print(f"{number:6} {name}")
            print()
    else:
        print("\n".join(problems))
    print(f"{len(files)} files, {len(problems)} problems, {len(ALLOWED)} lines allowed with a reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
