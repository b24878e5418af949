// SPDX-License-Identifier: MIT
#include "runtime/tune.h"

#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/os_environment.h"
#include "base/os_private_folder.h"
#include "base/thread_pool.h"

namespace lathe {
namespace {

constexpr int64_t kCacheBytes = int64_t{16} << 20;
constexpr int kMaxSweeps = 40;
constexpr int kRecordedRuns = 2;                             // per candidate and sweep
constexpr double kMeasuringShare = 0.5, kFormsShare = 0.85;  // of the time, until their end
constexpr int kLeastPairs = 5, kMostPairs = 100;
// A form of a region: of few pairs of runs, then of all, that many are to be faster, so that one
// form in a thousand is taken for noise.
constexpr int kFewPairs = 7, kFormPairs = 31, kFasterPairs = 25;
constexpr double kLeastFormGain = 1.005;  // by their median

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Known choices, one file for each processor and number of threads.
class Cache {
 public:
  Cache(const std::string& folder, const Tuning& tuning)
      : folder_(folder),
        name_(fmt::format("{:016x}.json", key(tuning.processor(), tuning.threads()))) {}

  void load(Tuning& tuning) const {
    const auto content = folder_.read(name_);
    if (!content) return;
    try {
      const std::shared_ptr<Tuning> known =
          read_tuning({reinterpret_cast<const char*>(content->data()), content->size()}, name_);
      if (known->processor() == tuning.processor() && known->threads() == tuning.threads()) {
        tuning.add_known(*known);
      }
    } catch (const Error& error) {
      log_line(1, fmt::format("no tuned choices from {}: {}", folder_.path(), error.message()));
    }
  }

  void store(const Tuning& tuning) const {
    const std::string text = tuning.text(false);
    if (!folder_.write(name_, std::as_bytes(std::span(text)))) return;
    folder_.shrink(kCacheBytes);
  }

 private:
  static uint64_t key(const std::string& processor, int threads) {
    const std::string text = fmt::format("{} {}", processor, threads);
    return XXH3_64bits(text.data(), text.size());
  }
  PrivateFolder folder_;
  std::string name_;
};

// A program compiled with choices, and its runs.
class TunedProgram {
 public:
  TunedProgram(const Program& program, CompileOptions options, std::shared_ptr<Tuning> tuning,
               std::span<const Box> inputs, const TuneOptions& how)
      : inputs_(inputs), run_(how.run) {
    options.tuning = std::move(tuning);
    SessionOptions session;
    session.pool = options.pool;
    session.memory_limit = how.memory_limit;
    session_ = std::make_unique<Session>(compile(program.clone(), options), session);
    results_.resize(program.main().results().size());
  }

  double run() {
    session_->reset();
    const Clock::time_point begin = Clock::now();
    session_->run(inputs_, results_, run_);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  bool has_results_of(const TunedProgram& other) const {
    return std::ranges::equal(results_, other.results_, [](const Box& a, const Box& b) {
      return a.is_tensor() == b.is_tensor() &&
             (!a.is_tensor() || identical(a.tensor(), b.tensor()));
    });
  }

 private:
  std::span<const Box> inputs_;
  RunOptions run_;
  std::unique_ptr<Session> session_;
  std::vector<Box> results_;
};

// The sizes of symbols that are an axis of an input.
std::map<std::string, int64_t> sizes_of(const Program& program, std::span<const Box> inputs) {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = program.main().parameters()[i]->type();
    if (!type.is_ranked() || !inputs[i].is_tensor()) continue;
    const Dims& dims = inputs[i].tensor().dims();
    for (size_t axis = 0; axis < type.dims->size() && axis < dims.size(); ++axis) {
      if (const SymbolRef symbol = (*type.dims)[axis].as_symbol()) sizes[symbol->name] = dims[axis];
    }
  }
  return sizes;
}

// Until the time, all candidates again and again, so that a slow minute hits each of them.
void measure(TunedProgram& program, Tuning& tuning, Clock::time_point end) {
  const int rounds = tuning.rounds();
  for (int sweep = 0; sweep < kMaxSweeps && rounds > 1; ++sweep) {
    for (int round = 0; round < rounds; ++round) {
      if (sweep > 0 && Clock::now() >= end) return;
      tuning.begin_round(round, false);
      program.run();  // packs weights, fills caches
      tuning.begin_round(round, true);
      for (int i = 0; i < kRecordedRuns; ++i) program.run();
    }
  }
}

// Time of a run of `first` over that of `second`, after it or before it in turn.
double ratio(TunedProgram& first, TunedProgram& second, int pair) {
  const double one = pair % 2 == 0 ? first.run() : 0;
  const double two = second.run();
  return (pair % 2 == 0 ? one : first.run()) / two;
}

double compare(TunedProgram& first, TunedProgram& second, Clock::time_point end) {
  std::vector<double> ratios;
  first.run();
  second.run();
  for (int i = 0; i < kMostPairs && (i < kLeastPairs || Clock::now() < end); ++i) {
    ratios.push_back(ratio(first, second, i));
  }
  return median(std::move(ratios));
}

// Whether runs of `changed` are faster; nullopt: not known in time.
std::optional<bool> is_faster(TunedProgram& usual, TunedProgram& changed, Clock::time_point end) {
  std::vector<double> ratios;
  for (int i = 0; i < kFormPairs; ++i) {
    if (Clock::now() >= end) return std::nullopt;
    ratios.push_back(ratio(usual, changed, i));
    if (i + 1 == kFewPairs && median(ratios) < kLeastFormGain) return false;
  }
  const auto faster = std::ranges::count_if(ratios, [](double each) { return each > 1; });
  return faster >= kFasterPairs && median(std::move(ratios)) >= kLeastFormGain;
}

// Each region in its other forms, one after the other, beside the fastest so far. Bits are to be
// the same.
void measure_forms(
    const std::function<std::unique_ptr<TunedProgram>(std::shared_ptr<Tuning>)>& make,
    const std::shared_ptr<Tuning>& tuning, TuningReport& report, Clock::time_point end) {
  const auto unknown = tuning->unknown_forms();
  std::unique_ptr<TunedProgram> fastest;
  for (const auto& [part, forms] : unknown) {
    if (Clock::now() >= end) return;
    if (fastest == nullptr) {
      fastest = make(tuning);
      fastest->run();
    }
    size_t best = 0;
    for (size_t form = 1; form < forms.size(); ++form) {
      const std::shared_ptr<Tuning> other = read_tuning(tuning->text(false), "");
      other->set_sizes(tuning->sizes());
      other->add(part, forms[form]);
      auto changed = make(other);
      changed->run();
      if (!changed->has_results_of(*fastest)) continue;
      const std::optional<bool> faster = is_faster(*fastest, *changed, end);
      if (!faster) return;
      if (!*faster) continue;
      fastest = std::move(changed);
      best = form;
    }
    tuning->choose_form(part, best);
    report.forms += 1;
    report.changed_forms += best == 0 ? 0 : 1;
  }
}

}  // namespace

TuneResult tune(const Program& program, const CompileOptions& options, std::span<const Box> inputs,
                const TuneOptions& how) {
  const Clock::time_point begin = Clock::now();
  const auto after = [&](double share) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(how.seconds * share));
  };
  CompileOptions used = options;
  if (used.target == nullptr) used.target = find_target("ref");
  const int threads = used.pool == nullptr ? 1 : used.pool->threads();
  TuneResult result;
  result.tuning = std::make_shared<Tuning>(tuned_processor(*used.target), threads);
  result.tuning->set_sizes(sizes_of(program, inputs));
  const Cache cache(how.cache, *result.tuning);
  cache.load(*result.tuning);
  {
    TunedProgram measured(program, used, result.tuning, inputs, how);
    measured.run();  // finds the problems
    measure(measured, *result.tuning, after(kMeasuringShare));
    result.report = result.tuning->decide();
  }
  measure_forms(
      [&](std::shared_ptr<Tuning> tuning) {
        return std::make_unique<TunedProgram>(program, used, std::move(tuning), inputs, how);
      },
      result.tuning, result.report, after(kFormsShare));
  if (result.tuning->differs()) {
    const auto none = std::make_shared<Tuning>(result.tuning->processor(), threads);
    none->set_sizes(result.tuning->sizes());
    TunedProgram model(program, used, none, inputs, how);
    TunedProgram tuned(program, used, result.tuning, inputs, how);
    result.gain = compare(model, tuned, after(1));
    if (result.gain < 1) {
      result.dropped = true;
      result.gain = 1;
      result.tuning->choose_first();
    }
  }
  if (result.report.measured + result.report.forms > 0 || result.dropped)
    cache.store(*result.tuning);
  return result;
}

std::string to_string(const TuneResult& result) {
  const TuningReport& report = result.report;
  std::string text =
      fmt::format("tuned {} problems, {} of them measured", report.problems, report.measured);
  if (report.measured > 0) {
    text += fmt::format(
        ": the cost model chose the fastest for {}, its choices take {:.1f} % longer on average",
        report.measured - report.changed, 100 * report.mean_error);
  }
  if (report.forms > 0) {
    text +=
        fmt::format("; {} regions measured, {} of them cut", report.forms, report.changed_forms);
  }
  return text + (result.dropped ? "; together the others were no faster, so its choices stay"
                                : fmt::format("; a run is {:.3f} times as fast", result.gain));
}

std::string tuning_cache() {
  if (const auto folder = environment_variable("XDG_CACHE_HOME"); folder && !folder->empty()) {
    return *folder + "/lathe/tuned";
  }
  const auto home = environment_variable("HOME");
  return home && !home->empty() ? *home + "/.cache/lathe/tuned" : "";
}

}  // namespace lathe
