// SPDX-License-Identifier: MIT
// Mean times of instructions and ops over profiled runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/profiler.h"

namespace lathe::cli {

// Time of an instruction or op in one run, without the launches inside its bodies.
struct ProfileRow {
  std::string name;
  std::string op;
  std::string result;  // type
  std::string where;   // target of the kernel: "cpu", "ref"; or "view", "executor"
  int64_t calls = 0;   // in one run
  double milliseconds = 0;
};

struct Profile {
  std::vector<ProfileRow> instructions;  // slowest first
  std::vector<ProfileRow> ops;
  std::map<std::string, double> places;  // milliseconds by `where`
  double products_ms = 0;                // matrix multiplications with constant weights
  double total_ms = 0;                   // of one profiled run
  double overhead_ms = 0;                // part of it between instructions
};

class ProfileSum {
 public:
  void add(const Profiler& profiler, double run_ms);
  Profile mean() const;

 private:
  struct Entry {
    int64_t calls = 0;
    double milliseconds = 0;
  };
  std::map<const Launch*, Entry> entries_;
  std::vector<const Launch*> order_;  // by first call
  double total_ms_ = 0;
  int64_t runs_ = 0;
};

}  // namespace lathe::cli
