// SPDX-License-Identifier: MIT
#include "targets/tuning.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace lathe {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;
constexpr size_t kMostKnown = 4096;  // choices in a cache

thread_local std::shared_ptr<Tuning> current_tuning;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

TunedProblem::TunedProblem(std::string text, std::span<const Candidate> candidates)
    : text_(std::move(text)), seconds_(candidates.size()) {
  for (const Candidate& candidate : candidates) {
    names_.emplace_back(candidate.name);
    gains_.push_back(candidate.least_gain);
  }
}

void TunedProblem::note(double seconds) {
  const std::lock_guard lock(mutex_);
  seconds_[static_cast<size_t>(choice())].push_back(seconds);
}

TunedLaunch::TunedLaunch(TunedProblem* problem)
    : problem_(problem != nullptr && problem->records() ? problem : nullptr) {
  if (problem_ != nullptr) begin_ = std::chrono::steady_clock::now();
}

TunedLaunch::~TunedLaunch() {
  if (problem_ == nullptr) return;
  problem_->note(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
}

Tuning::Tuning(std::string processor, int threads)
    : processor_(std::move(processor)), threads_(threads) {}

TunedProblem* Tuning::problem(const std::string& text, std::span<const Candidate> candidates) {
  const std::lock_guard lock(mutex_);
  auto& problem = problems_[text];
  if (problem != nullptr) return problem.get();
  problem = std::make_unique<TunedProblem>(text, candidates);
  const auto known = known_.find(text);
  if (known == known_.end()) return problem.get();
  const auto at = std::ranges::find(problem->names_, known->second);
  if (at == problem->names_.end()) return problem.get();  // of another version
  problem->known_ = true;
  problem->choice_ = static_cast<int>(at - problem->names_.begin());
  return problem.get();
}

size_t Tuning::form(const std::string& part, std::span<const std::string> forms, int64_t bytes) {
  std::vector<Candidate> candidates;
  for (const std::string& name : forms) candidates.push_back({name});
  TunedProblem* chosen = problem(part, candidates);
  const std::lock_guard lock(mutex_);
  chosen->is_form_ = true;
  chosen->bytes_ = bytes;
  return static_cast<size_t>(chosen->choice());
}

std::vector<std::pair<std::string, std::vector<std::string>>> Tuning::unknown_forms() const {
  const std::lock_guard lock(mutex_);
  std::vector<const TunedProblem*> parts;
  for (const auto& [text, problem] : problems_) {
    if (problem->is_form_ && !problem->known_) parts.push_back(problem.get());
  }
  std::ranges::sort(parts, [](const TunedProblem* a, const TunedProblem* b) {
    return std::tie(b->bytes_, a->text_) < std::tie(a->bytes_, b->text_);
  });
  std::vector<std::pair<std::string, std::vector<std::string>>> unknown;
  for (const TunedProblem* part : parts) unknown.emplace_back(part->text_, part->names_);
  return unknown;
}

void Tuning::choose_form(const std::string& part, size_t form) {
  const std::lock_guard lock(mutex_);
  TunedProblem& problem = *problems_.at(part);
  problem.known_ = true;
  problem.choice_ = static_cast<int>(form);
  known_[part] = problem.names_[form];
}

int Tuning::rounds() const {
  const std::lock_guard lock(mutex_);
  size_t most = 0;
  for (const auto& [text, problem] : problems_) {
    if (!problem->known_ && !problem->is_form_) most = std::max(most, problem->names_.size());
  }
  return static_cast<int>(most);
}

void Tuning::begin_round(int round, bool records) {
  const std::lock_guard lock(mutex_);
  for (const auto& [text, problem] : problems_) {
    if (problem->known_ || problem->is_form_) continue;
    problem->choice_ = round < std::ssize(problem->names_) ? round : 0;
    problem->records_ = records;
  }
}

TuningReport Tuning::decide() {
  const std::lock_guard lock(mutex_);
  TuningReport report;
  double errors = 0;
  for (const auto& [text, problem] : problems_) {
    if (problem->is_form_) continue;
    problem->records_ = false;
    report.problems += problem->known_;
    if (problem->known_) continue;
    const std::lock_guard samples(problem->mutex_);
    problem->choice_ = 0;
    if (problem->seconds_[0].empty()) continue;
    const double first = median(problem->seconds_[0]);
    double fastest = first;
    double best = first;
    for (size_t i = 1; i < problem->names_.size(); ++i) {
      if (problem->seconds_[i].empty()) continue;
      const double time = median(problem->seconds_[i]);
      fastest = std::min(fastest, time);
      if (time >= best || first < time * problem->gains_[i]) continue;
      best = time;
      problem->choice_ = static_cast<int>(i);
    }
    problem->known_ = true;
    known_[text] = problem->names_[static_cast<size_t>(problem->choice())];
    ++report.problems;
    ++report.measured;
    report.changed += problem->choice() != 0;
    errors += first / fastest - 1;
  }
  if (report.measured > 0) report.mean_error = errors / report.measured;
  return report;
}

std::string Tuning::text(bool changed_only) const {
  const std::lock_guard lock(mutex_);
  nlohmann::ordered_json json{{"processor", processor_}, {"threads", threads_}};
  if (changed_only && !sizes_.empty()) json["sizes"] = sizes_;
  json["choices"] = nlohmann::ordered_json::object();
  if (changed_only) {  // those of a program: others may be known, too
    for (const auto& [text, problem] : problems_) {
      if (problem->choice() != 0) {
        json["choices"][text] = problem->names_[static_cast<size_t>(problem->choice())];
      }
    }
  } else {
    // Those that occurred, then others up to the limit.
    for (const auto& [text, problem] : problems_) {
      if (known_.contains(text)) json["choices"][text] = known_.find(text)->second;
    }
    for (const auto& [text, choice] : known_) {
      if (json["choices"].size() >= kMostKnown) break;
      if (!problems_.contains(text)) json["choices"][text] = choice;
    }
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Tuning::add(std::string problem, std::string choice) {
  const std::lock_guard lock(mutex_);
  known_[std::move(problem)] = std::move(choice);
}

std::shared_ptr<Tuning> read_tuning(std::string_view text, std::string_view source) {
  try {
    const nlohmann::json json = parse_json(text, std::string(source), kMaxText);
    auto tuning = std::make_shared<Tuning>(json.at("processor").get<std::string>(),
                                           json.at("threads").get<int>());
    for (const auto& [problem, choice] : json.at("choices").items()) {
      tuning->add(problem, choice.get<std::string>());
    }
    tuning->set_sizes(json.value("sizes", std::map<std::string, int64_t>()));
    return tuning;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::invalid_model, "'{}' has invalid tuned choices: {}", escape(source),
         escape(error.what()));
  }
}

void Tuning::add_known(const Tuning& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  known_.insert(other.known_.begin(), other.known_.end());
}

bool Tuning::differs() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(problems_,
                             [](const auto& each) { return each.second->choice() != 0; });
}

void Tuning::choose_first() {
  const std::lock_guard lock(mutex_);
  for (const auto& [text, problem] : problems_) {
    problem->choice_ = 0;
    known_[text] = problem->names_[0];
  }
}

TuningScope::TuningScope(std::shared_ptr<Tuning> tuning) : outer_(std::move(current_tuning)) {
  current_tuning = std::move(tuning);
}

TuningScope::~TuningScope() { current_tuning = std::move(outer_); }

std::shared_ptr<Tuning> TuningScope::current() { return current_tuning; }

}  // namespace lathe
