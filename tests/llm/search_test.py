# SPDX-License-Identifier: MIT
"""Compares token search with Transformers' recorded beams, its recorded processors (if ../shared exists), and a
float64 oracle of the published definitions."""

import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np

PROBE = pathlib.Path(os.environ["TEST_PROGRAM"]).parent.parent / "tests" / "search_probe"
PROCESSORS = pathlib.Path("../shared/models/zoo/llama_processors")
NEUTRAL = {"do_sample": True, "top_k": 0}
FAILED = []
PASSED = 0


def ask(questions):
    text = "\n".join(json.dumps(question) for question in questions)
    run = subprocess.run([PROBE], input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def expect(condition, what):
    global PASSED
    if condition:
        PASSED += 1
    else:
        FAILED.append(what)
        print(f"wrong: {what}", file=sys.stderr)


def test_beams():
    vectors = json.loads((pathlib.Path(__file__).parent / "beam_vectors.json").read_text())
    expect(len(vectors["cases"]) == 200 and vectors["batch"] == 3, "200 tables, in batches of 3")
    questions = [{"do": "beams", "table": case["table"], "vocabulary": vectors["vocabulary"], "batch": vectors["batch"],
                  "options": {"length_penalty_counts_prompt": False, **case["options"]}} for case in vectors["cases"]]
    for case, got in zip(vectors["cases"], ask(questions), strict=True):
        same = [[h["tokens"] for h in item] for item in got] == [[h["tokens"] for h in item] for item in case["results"]]
        near = same and all(abs(h["score"] - e["score"]) <= 1e-5 for item, wanted in zip(got, case["results"])
                            for h, e in zip(item, wanted))
        expect(near, f"beams of table {case['table']} {case['options']}: {got}, expected {case['results']}")
    # ONNX Runtime GenAI's length includes the prompt but not the end token, so scores are rescaled.
    case = vectors["cases"][9]
    theirs = ask([{"do": "beams", "table": case["table"], "vocabulary": 16, "batch": 1,
                   "options": {**case["options"], "length_penalty_counts_prompt": counts}} for counts in (False, True)])
    new, whole = (answer[0][0] for answer in theirs)
    length = len(new["tokens"]) + 2 - (new["tokens"][-1] == 2)
    if new["tokens"] == whole["tokens"]:
        ratio = (len(new["tokens"]) / length) ** case["options"]["length_penalty"]
        expect(abs(whole["score"] - new["score"] * ratio) < 1e-5, f"length with the prompt: {new} {whole}")
    else:
        expect(False, f"other beams with the prompt counted: {new} {whole}")


# Options by parameters of Transformers' classes.
def options_of(name, p):
    lone = {"RepetitionPenaltyLogitsProcessor": ("repetition_penalty", "penalty"), "TopKLogitsWarper": ("top_k", "top_k"),
            "NoRepeatNGramLogitsProcessor": ("no_repeat_ngram_size", "ngram_size"), "TopPLogitsWarper": ("top_p", "top_p"),
            "MinLengthLogitsProcessor": ("min_length", "min_length"), "MinPLogitsWarper": ("min_p", "min_p"),
            "MinNewTokensLengthLogitsProcessor": ("min_new_tokens", "min_new_tokens"),
            "TemperatureLogitsWarper": ("temperature", "temperature"), "TypicalLogitsWarper": ("typical_p", "mass"),
            "EpsilonLogitsWarper": ("epsilon_cutoff", "epsilon"), "EtaLogitsWarper": ("eta_cutoff", "epsilon"),
            "NoBadWordsLogitsProcessor": ("bad_words_ids", "bad_words_ids"),
            "SuppressTokensLogitsProcessor": ("suppress_tokens", "suppress_tokens"),
            "ForcedBOSTokenLogitsProcessor": ("forced_bos_token_id", "bos_token_id"),
            "ExponentialDecayLengthPenalty": ("exponential_decay_length_penalty", "exponential_decay_length_penalty"),
            "SequenceBiasLogitsProcessor": ("sequence_bias", "sequence_bias")}
    if name == "ForcedEOSTokenLogitsProcessor":
        return {"forced_eos_token_id": p["eos_token_id"], "max_length": p["max_length"]}
    option, parameter = lone[name]
    return {option: p[parameter]}


def test_processors():
    if not PROCESSORS.exists():
        return 23
    recorded = json.loads((PROCESSORS / "processors.json").read_text())
    arrays = np.load(PROCESSORS / "processors.npz")
    raw = arrays[recorded["raw"]].reshape(-1)
    names, questions = [], []

    def add(name, options, prompt=0, ends=()):
        names.append(name)
        questions.append({"do": "process", "logits": raw.tolist(), "tokens": recorded["input_ids"], "prompt": prompt,
                          "ends": list(ends), "options": {**NEUTRAL, **options}})

    chain = {}
    for case in recorded["cases"]:
        p = case["parameters"]
        end = p.get("eos_token_id", [])
        add(case["array"], options_of(case["name"], p), p.get("prompt_length_to_skip", p.get("input_ids_seq_length", 0)),
            end if isinstance(end, list) else [end])
    expect(len(questions) == 22, f"{len(questions)} processors were recorded")
    answers = ask(questions)
    for case, got in zip(recorded["cases"], answers, strict=True):
        wanted = arrays[case["array"]].reshape(-1)
        values = np.array([-np.inf if x is None else x for x in got])
        same = np.array_equal(np.isinf(values), np.isinf(wanted))
        finite = ~np.isinf(wanted)
        expect(same and np.abs(values[finite] - wanted[finite]).max(initial=0) <= 1e-5, f"{case['name']} {case['parameters']}")
    for name, p in zip(recorded["chain"], ({"penalty": 1.3}, {"temperature": 0.7}, {"top_k": 50}, {"top_p": 0.9}), strict=True):
        chain.update(options_of(name, p))
    wanted = arrays["chain_probabilities"]
    questions.clear()
    add("chain", chain)
    values = np.array([-np.inf if x is None else x for x in ask(questions)[0]])
    shares = np.exp(values - values[np.isfinite(values)].max())
    expect(np.abs(shares / shares.sum() - wanted).max() <= 1e-5, f"the chain {recorded['chain']}")
    return 0


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def oracle(logits, o):
    """The distribution of a sampled token, in float64."""
    x = np.array(logits, np.float64) / o.get("temperature", 1)
    keep = np.ones(len(x), bool)

    def restrict(mask):
        nonlocal x
        x = np.where(mask, x, -np.inf)

    if 0 < o.get("top_k", 0) < len(x):
        restrict(x >= np.sort(x)[-o["top_k"]])
    if 0 < o.get("top_p", 0) < 1:
        p = softmax(x)
        order = np.argsort(-p, kind="stable")
        before = np.cumsum(p[order]) - p[order]
        keep[:] = False
        keep[order[before < o["top_p"]]] = True
        restrict(keep)
    if o.get("min_p", 0) > 0:
        p = softmax(x)
        restrict(p >= o["min_p"] * p.max())
    if o.get("typical_p", 1) < 1:
        p = softmax(x)
        surprise = -np.log(p, where=p > 0, out=np.full(len(p), -np.inf))
        h = np.sum(np.where(p > 0, p * np.where(p > 0, surprise, 0), 0))
        order = np.argsort(np.where(p > 0, np.abs(surprise - h), np.inf), kind="stable")
        before = np.cumsum(p[order]) - p[order]
        keep[:] = False
        keep[order[before < o["typical_p"]]] = True
        restrict(keep)
    for name in ("epsilon_cutoff", "eta_cutoff"):
        if o.get(name, 0) > 0:
            p = softmax(x)
            limit = o[name]
            if name == "eta_cutoff":
                positive = p[p > 0]
                limit = min(limit, math.sqrt(limit) * math.exp(np.sum(positive * np.log(positive))))
            restrict((p >= limit) | (p == p.max()))
    return softmax(x)


def chi_squared_tail(statistic, degrees):
    """P(X >= statistic): the upper incomplete gamma function, by series or continued fraction."""
    a, x = degrees / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, 10000):
            term *= x / (a + n)
            total += term
        return max(0.0, 1 - scale * total)
    b, c = x + 1 - a, 1e300
    d = h = 1 / b
    for n in range(1, 10000):
        b += 2
        step = -n * (n - a)
        d = 1 / (step * d + b)
        c = b + step / c
        h *= d * c
    return scale * h


def tail(counts, p):
    """The probability of counts this far from their expectation; 0 for an impossible token."""
    counts = np.array(counts, np.float64)
    if counts[p == 0].sum() > 0:
        return 0.0
    wanted = p * counts.sum()
    common = wanted >= 5
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(wanted[common], wanted[~common].sum())
    used = wanted > 0
    if used.sum() < 2:
        return 1.0
    statistic = ((observed - wanted)[used] ** 2 / wanted[used]).sum()
    return chi_squared_tail(statistic, used.sum() - 1)


SETTINGS = [{}, {"temperature": 0.7}, {"temperature": 1.5}, {"top_k": 5}, {"top_k": 40}, {"top_p": 0.9}, {"top_p": 0.3},
            {"min_p": 0.1}, {"min_p": 0.02}, {"typical_p": 0.9}, {"typical_p": 0.4}, {"epsilon_cutoff": 0.003},
            {"epsilon_cutoff": 0.02}, {"eta_cutoff": 0.003}, {"eta_cutoff": 0.05}, {"top_k": 20, "top_p": 0.8},
            {"temperature": 0.8, "top_k": 50, "top_p": 0.95}, {"temperature": 2.0, "min_p": 0.05},
            {"temperature": 1.2, "top_k": 30, "typical_p": 0.7}, {"top_k": 64, "top_p": 0.9, "min_p": 0.01, "eta_cutoff": 0.001}]


def test_draws():
    random = np.random.default_rng(11)
    rows = [(random.standard_normal(128) * 2).astype(np.float32).tolist() for _ in SETTINGS]
    draws = 100_000
    questions = [{"do": "draw", "logits": row, "seed": 7 + i, "draws": draws, "options": {**NEUTRAL, **o}}
                 for i, (row, o) in enumerate(zip(rows, SETTINGS))]
    answers = ask(questions)
    for row, o, counts in zip(rows, SETTINGS, answers, strict=True):
        expect(sum(counts) == draws and tail(counts, oracle(row, o)) > 1e-4, f"draws with {o}")
    # The test detects planted faults of a sampler: a nucleus without its last token, temperature after the cut,
    # repeated random numbers.
    def cut_too_early(row, o):
        p = softmax(np.array(row, np.float64))
        order = np.argsort(-p, kind="stable")
        p[order[np.cumsum(p[order]) > o["top_p"]]] = 0
        return p / p.sum()

    def heated_after(row, o):
        p = oracle(row, {name: value for name, value in o.items() if name != "temperature"}) ** (1 / o["temperature"])
        return p / p.sum()

    for at, fault in ((5, cut_too_early), (16, heated_after)):
        counts = random.multinomial(draws, fault(rows[at], SETTINGS[at]))
        expect(tail(counts, oracle(rows[at], SETTINGS[at])) < 1e-4, f"the fault {fault.__name__} stays unseen")
    repeated = 16 * random.multinomial(draws // 16, oracle(rows[0], SETTINGS[0]))
    expect(tail(repeated, oracle(rows[0], SETTINGS[0])) < 1e-4, "the fault of repeated draws stays unseen")
    # The engine's samples fail the test for other settings.
    for at, other in ((1, {"temperature": 0.72}), (3, {"top_k": 4}), (7, {"min_p": 0.11})):
        expect(tail(answers[at], oracle(rows[at], other)) < 1e-4, f"draws with {SETTINGS[at]} pass for {other}")
    again = ask([questions[0], {**questions[0], "sequence": 1}, {**questions[0], "seed": 8}])
    expect(again[0] == answers[0], "the same seed draws the same")
    expect(again[1] != answers[0] and again[2] != answers[0], "another sequence or seed draws differently")
    greedy = ask([{"do": "draw", "logits": [1, 3, 3, 2], "seed": 1, "draws": 3, "options": {}}])[0]
    expect(greedy == [0, 3, 0, 0], f"greedy takes the first of the largest: {greedy}")


def test_errors():
    cases = [({"top_q": 1}, "unknown search option 'top_q' (did you mean 'top_k'?)"),
             ({"top_p": 2}, "search option 'top_p' is 2, expected a number from 0 to 1"),
             ({"num_beams": 0}, "search option 'num_beams' is 0, expected an integer in [1, 1024]"),
             ({"temperature": "hot"}, 'search option \'temperature\' is "hot", expected a number from 0 to 1000000'),
             ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences is 3, with num_beams 2"),
             ({"num_beams": 2, "log_probabilities": 1}, "log_probabilities with num_beams 2: beams report scores instead"),
             ({"bad_words_ids": [[]]}, "search option 'bad_words_ids' is [[]], expected lists of at least one token"),
             ({"stop_strings": [""]}, "search option 'stop_strings' is [\"\"], expected strings that are not empty"),
             ({"suppress_tokens": [1 << 21]}, "search option 'suppress_tokens' has token 2097152, but the vocabulary has 1048576"),
             ({"early_stopping": "often"}, "search option 'early_stopping' is \"often\", expected true, false or \"never\"")]
    for (options, message), got in zip(cases, ask([{"do": "draw", "options": options} for options, _ in cases]), strict=True):
        expect(got == {"error": message}, f"{options}: {got}")


test_beams()
skipped = test_processors()
test_draws()
test_errors()
if skipped:
    print(f"skipped {skipped}: there is no {PROCESSORS}")
print(f"{PASSED} passed, {len(FAILED)} failed, {skipped} skipped")
sys.exit(1 if FAILED else 0)
