#pragma once

// Purpose:    how one call of the API is answered: as one object, or as events while it runs.
// Ownership:  owns the parsed call.
// Threading:  made on a worker, used on the I/O thread.
// Invariants: either Whole, once, or Events any number of times and LastEvents once.

#include <span>
#include <string>

#include "octavo/request_output.h"
#include "server/api_call.h"
#include "server/generation.h"

namespace octavo::server {

class Answer {
 public:
  virtual ~Answer() = default;

  virtual ApiCall& call() = 0;
  virtual std::string Whole(std::span<const RequestOutput> outputs) = 0;
  // For pieces that came together; may be empty.
  virtual std::string Events(std::span<const Generation::Piece> pieces) = 0;
  // What comes after the last piece: the usage, if asked for, and the end.
  virtual std::string LastEvents(std::span<const RequestOutput> outputs) = 0;
};

}  // namespace octavo::server
