// SPDX-License-Identifier: MIT
// Steps that run on a device while the host has not read the tokens before them.
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "llm/model/generator_prompt.h"
#include "llm/search/logits_processors.h"

namespace lathe::llm {

// Steps of a generator that its caller uses otherwise: what was enqueued in vain is not repeated at
// once.
constexpr int kHeldBack = 16;

Generator::Ahead::Ahead() = default;
Generator::Ahead::~Ahead() = default;

// Whether the next token of a branch can be chosen without the host.
bool Generator::may_go_ahead(const Prompt& prompt, const Branch& branch, bool unread) const {
  const search::SearchOptions& options = prompt.options;
  if (options.num_beams > 1 || prompt.fresh || prompt.waiting || !prompt.begun ||
      !prompt.mask.empty() || search::depends_on_tokens(options)) {
    return false;
  }
  const int64_t tokens = std::ssize(branch.tokens) + (unread ? 1 : 0);
  const Sequence& sequence = branch.sequence;
  if (tokens >= longest(prompt, branch.extras) || tokens != sequence.length() + 1) return false;
  if (sequence.next_position() >= decoder_->limits().context) return false;
  const bool plain = branch.extras.embedded.empty() && branch.extras.positions.runs().empty();
  return plain && !sequence.writes_shared_page();
}

// Enqueues the next step. `before`: the step whose tokens are not read yet; null: they are.
void Generator::start_ahead(Ahead& ahead, const Ahead* before) {
  const bool unread = before != nullptr;
  std::vector<Branch*> branches;
  for (const auto& prompt : prompts_) {
    if (prompt->done() || prompt->branches.front().tokens.empty()) continue;
    for (size_t i = 0; i < prompt->branches.size(); ++i) {
      Branch& branch = prompt->branches[i];
      if (branch.reason != FinishReason::none) continue;
      if (!may_go_ahead(*prompt, branch, unread)) return;
      ahead.rows.push_back({prompt.get(), i});
      branches.push_back(&branch);
    }
  }
  if (branches.empty()) return;
  // The histories have a place for the token that is not read.
  struct Unread {
    std::vector<Branch*>& branches;
    bool unread;
    ~Unread() {
      for (Branch* branch : branches) {
        if (unread) branch->tokens.pop_back();
      }
    }
  };
  if (unread) {
    for (Branch* branch : branches) branch->tokens.push_back(0);
  }
  const Unread remove{branches, unread};
  std::vector<StepRequest> requests;
  for (size_t i = 0; i < branches.size(); ++i) {
    Branch& branch = *branches[i];
    const Prompt& prompt = *ahead.rows[i].prompt;
    StepRequest& request = requests.emplace_back();
    request.sequence = &branch.sequence;
    request.tokens = branch.pending();
    ChoiceRequest& choice = ahead.choices.emplace_back();
    choice.block = block_of(prompt, branch, ahead.rows[i].branch);
    choice.row = static_cast<int64_t>(i);
    if (prompt.options.log_probabilities > 0) choice.reported = choice.row;
  }
  check_step(requests);
  ahead.step = decoder_->start(requests, ahead.choices, unread ? before->step.get() : nullptr);
  if (ahead.step == nullptr) refuses_ahead_ = true;
}

// The step after one whose tokens are read, or are not (`before`); null where there is none.
std::unique_ptr<Generator::Ahead> Generator::next_ahead(const Ahead* before) {
  if (!decoder_->starts() || refuses_ahead_ || hook_ || decoder_->profiler() != nullptr ||
      !decoder_->outputs().empty()) {
    return nullptr;
  }
  auto ahead = std::make_unique<Ahead>();
  try {
    start_ahead(*ahead, before);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device) throw;  // the next step would not know why it cannot run
    held_back_ = kHeldBack;
    return nullptr;  // the step that is not ahead reports it
  }
  return ahead->step == nullptr ? nullptr : std::move(ahead);
}

void Generator::begin_ahead() {
  if (held_back_ > 0) {
    --held_back_;
    return;
  }
  ahead_ = next_ahead(nullptr);
}

void Generator::drop_ahead() {
  if (ahead_ == nullptr) return;
  ahead_ = nullptr;
  if (!done()) held_back_ = kHeldBack;
}

// Whether the step that was enqueued is the one that comes next, but for sequences that have ended
// since: `kept`.
bool Generator::is_next(const Ahead& ahead, std::vector<bool>& kept) const {
  kept.assign(ahead.rows.size(), false);
  if (hook_) return false;
  size_t row = 0;
  for (const auto& prompt : prompts_) {
    if (prompt->waiting) return false;
    if (prompt->done() || prompt->branches.front().tokens.empty()) continue;
    if (prompt->fresh || !prompt->mask.empty()) return false;
    for (size_t i = 0; i < prompt->branches.size(); ++i) {
      const bool lives = prompt->branches[i].reason == FinishReason::none;
      // The sequences of a prompt stay together.
      if (!lives && prompt->branches.size() > 1) {
        const bool was_there = std::ranges::any_of(ahead.rows, [&](const Ahead::Row& other) {
          return other.prompt == prompt.get() && other.branch == i;
        });
        if (was_there) return false;
      }
      if (!lives) continue;
      while (row < ahead.rows.size() &&
             (ahead.rows[row].prompt != prompt.get() || ahead.rows[row].branch != i)) {
        ++row;
      }
      if (row == ahead.rows.size()) return false;
      kept[row++] = true;
    }
  }
  return true;
}

// Makes the step's logits those of its prompts; others keep a copy of theirs.
void Generator::keep_ahead(const Ahead& ahead, const std::vector<bool>& kept) {
  for (const auto& prompt : prompts_) {
    if (prompt->logits_at < 0) continue;
    bool served = false;
    for (size_t i = 0; i < kept.size(); ++i) {
      served = served || (kept[i] && ahead.rows[i].prompt == prompt.get());
    }
    if (!served) static_cast<void>(logits_of(*prompt));
    prompt->logits_at = -1;
  }
  std::swap(scratch_.logits, ahead.step->logits());
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    Prompt& prompt = *ahead.rows[i].prompt;
    if (prompt.logits_at < 0) {
      prompt.logits.clear();
      prompt.logits_at = static_cast<int64_t>(i);
      prompt.logits_count = 0;
      prompt.step = 1;
    }
    ++prompt.logits_count;
  }
}

// Waits for the step that was enqueued and adds its tokens, behind the next one.
void Generator::go_on_ahead(const std::vector<bool>& kept) {
  const std::unique_ptr<Ahead> current = std::move(ahead_);
  StartedStep& step = *current->step;
  const bool whole = std::ranges::find(kept, false) == kept.end();
  std::unique_ptr<Ahead> next;
  if (whole) step.commit();
  try {
    if (whole) next = next_ahead(current.get());
    scratch_.chosen = step.wait();
  } catch (...) {
    next = nullptr;
    if (whole) step.undo();
    throw;
  }
  if (!whole) step.commit(kept);
  tokens_run_ += std::ranges::count(kept, true);
  keep_ahead(*current, kept);
  const auto& rows = current->rows;
  // All before any token is added: after a failure they are chosen again.
  for (size_t i = 0; i < rows.size(); ++i) {
    if (kept[i]) rows[i].prompt->waiting = true;
  }
  size_t at = 0;
  while (at < rows.size()) {
    Prompt& prompt = *rows[at].prompt;
    size_t end = at;
    while (end < rows.size() && rows[end].prompt == &prompt) ++end;
    if (kept[at]) {
      for (size_t i = at; i < end; ++i) {
        TokenChooser::check_chosen(scratch_.chosen.tokens[i], current->choices[i].block);
      }
      add_chosen(prompt, at);
    }
    at = end;
  }
  if (done()) return;
  ahead_ = std::move(next);
  if (ahead_ == nullptr) begin_ahead();
}

}  // namespace lathe::llm
