// SPDX-License-Identifier: MIT
// What a program that was read from a compiled file knows of it.
#pragma once

#include <memory>
#include <string>

namespace lathe {

class Program;
class ThreadPool;

class CompiledSource {
 public:
  virtual ~CompiledSource() = default;
  // What the program was lowered for: its target, that target's machine and the compute type.
  virtual const std::string& target() const = 0;
  virtual const std::string& machine() const = 0;
  virtual const std::string& compute() const = 0;
  virtual const std::string& file() const = 0;
  // Measured choices, as text of Tuning; empty: none.
  virtual const std::string& tuned() const = 0;
  // This program before it was lowered, with all of its constants present.
  virtual std::unique_ptr<Program> portable() const = 0;
  // Checks the parts of the file that plans use and that no run has checked yet. InvalidModel.
  virtual void check_requested(ThreadPool* pool) const = 0;
};

// The file of a program; null: the program is not from a compiled file.
const CompiledSource* compiled_source(const Program& program);
// The file of a program that is as it was lowered; null: the program is another one.
const CompiledSource* lowered_source(const Program& program);

}  // namespace lathe
