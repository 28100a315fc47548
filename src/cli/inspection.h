#pragma once

// Purpose:    what `octavo inspect` reports on one file: metadata, tensors, model, KV bytes per
//             token, and the memory that an engine with default options plans for it here.
// Ownership:  borrows the GgufFile.
// Threading:  immutable after it is made.
// Invariants: no weight is read; a file that octavo can read but not run is reported with the
//             reason.

#include <boost/json/object.hpp>
#include <string>

#include "engine/memory_planner.h"
#include "formats/gguf_file.h"
#include "model/model_config.h"
#include "octavo/status.h"

namespace octavo::cli {

class Inspection {
 public:
  explicit Inspection(const formats::GgufFile& file);

  boost::json::object Json() const;
  std::string Text() const;

 private:
  boost::json::object FileJson() const;
  void AddModel(boost::json::object* object) const;
  void AddMemory(boost::json::object* object) const;
  std::string ModelText() const;
  std::string MemoryText() const;

  const formats::GgufFile& file_;
  Result<model::ModelConfig> config_;
  Result<engine::EnginePlan> plan_;
};

}  // namespace octavo::cli
