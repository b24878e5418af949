// SPDX-License-Identifier: MIT
// Choices between ways to compute a problem, measured on one processor. A problem is an operation
// with its sizes; its first candidate is the choice of the cost model.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

struct Candidate {
  std::string_view name;
  double least_gain = 1.03;  // times faster than the first candidate, to be taken
};

class TunedProblem {
 public:
  TunedProblem(std::string text, std::span<const Candidate> candidates);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& names() const { return names_; }
  int choice() const { return choice_.load(std::memory_order_relaxed); }
  bool records() const { return records_.load(std::memory_order_relaxed); }
  void note(double seconds);  // of the present choice

 private:
  friend class Tuning;
  std::string text_;
  std::vector<std::string> names_;
  std::vector<double> gains_;  // least ones
  std::atomic<int> choice_{0};
  std::atomic<bool> records_{false};
  bool known_ = false;  // measured before: the choice stands
  bool is_form_ = false;
  int64_t bytes_ = 0;  // of a form
  std::mutex mutex_;
  std::vector<std::vector<double>> seconds_;  // by candidate
};

// One launch of a problem (null: one without tuning), timed while its tuning records.
class TunedLaunch {
 public:
  explicit TunedLaunch(TunedProblem* problem);
  ~TunedLaunch();
  TunedLaunch(const TunedLaunch&) = delete;
  TunedLaunch& operator=(const TunedLaunch&) = delete;

 private:
  TunedProblem* problem_;
  std::chrono::steady_clock::time_point begin_;
};

struct TuningReport {
  int problems = 0;  // that occurred in runs
  int measured = 0;  // the others were known
  int changed = 0;   // the measured ones for which the cost model did not choose the fastest
  // By how much the cost model's choices take longer than the fastest candidates, on average.
  double mean_error = 0;
  int forms = 0;          // measured in runs
  int changed_forms = 0;  // that are not the usual ones
};

class Tuning {
 public:
  // `processor` and `threads` are those of the measurements.
  Tuning(std::string processor, int threads);

  const std::string& processor() const { return processor_; }
  int threads() const { return threads_; }
  // Sizes of a program's symbols in the runs that are measured; to be set before it is compiled.
  const std::map<std::string, int64_t>& sizes() const { return sizes_; }
  void set_sizes(std::map<std::string, int64_t> sizes) { sizes_ = std::move(sizes); }
  // Lives as long as the tuning.
  TunedProblem* problem(const std::string& text, std::span<const Candidate> candidates);

  // The form of a part of the program, chosen when it is compiled: an index of `forms`, whose first
  // is the usual one. `bytes`: that the part moves.
  size_t form(const std::string& part, std::span<const std::string> forms, int64_t bytes);
  // Parts whose form is not known, with their forms; those that move the most bytes come first.
  std::vector<std::pair<std::string, std::vector<std::string>>> unknown_forms() const;
  void choose_form(const std::string& part, size_t form);

  // Measuring, without forms. Problems that are not known take candidate `round` in round `round`;
  // a problem with fewer candidates takes its first one.
  int rounds() const;
  void begin_round(int round, bool records);
  // Chooses the fastest candidates by their medians, and ends the measuring.
  TuningReport decide();

  // Problems with their choices by name, as JSON: those that differ from the cost model's, with
  // the sizes, or all that are known.
  std::string text(bool changed_only) const;
  // A choice that was measured before.
  void add(std::string problem, std::string choice);
  void add_known(const Tuning& other);
  // Whether a choice is not the cost model's.
  bool differs() const;
  // Takes the cost model's choice for each problem that occurred.
  void choose_first();

 private:
  std::string processor_;
  int threads_;
  std::map<std::string, int64_t> sizes_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TunedProblem>, std::less<>> problems_;
  std::map<std::string, std::string, std::less<>> known_;  // choices by problem
};

// From Tuning::text(). InvalidModel, naming `source`, if it is not such a text.
std::shared_ptr<Tuning> read_tuning(std::string_view text, std::string_view source);

// During its lifetime, kernels made on this thread take their choices from `tuning` (null: none).
class TuningScope {
 public:
  explicit TuningScope(std::shared_ptr<Tuning> tuning);
  ~TuningScope();
  TuningScope(const TuningScope&) = delete;
  TuningScope& operator=(const TuningScope&) = delete;

  static std::shared_ptr<Tuning> current();

 private:
  std::shared_ptr<Tuning> outer_;
};

}  // namespace lathe
