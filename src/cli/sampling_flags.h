#pragma once

// Purpose:    the options of SamplingParams, under vLLM's names.
// Ownership:  the CLI::App keeps references to this object, which must outlive the parsing.
// Threading:  the main thread.
// Invariants: ranges are checked by SamplingParams::Validate, which names the field.

#include <CLI/CLI.hpp>

#include "octavo/sampling_params.h"

namespace octavo::cli {

class SamplingFlags {
 public:
  explicit SamplingFlags(const SamplingParams& defaults) : params_(defaults) {}

  void AddTo(CLI::App& app);
  // -n, for commands that show more than one completion.
  void AddCompletionsTo(CLI::App& app);
  // What the answer must look like, for commands that give one answer.
  void AddStructureTo(CLI::App& app);

  const SamplingParams& params() const { return params_; }

 private:
  StructuredOutputs& structure();
  void AddChoosing(CLI::App& app);
  void AddEnding(CLI::App& app);

  SamplingParams params_;
};

}  // namespace octavo::cli
