#include "cli/profile_flag.h"

#include <fmt/format.h>

#include "bench/profile_picture.h"
#include "bench/profile_report.h"
#include "bench/profile_trace.h"
#include "cli/streams.h"

namespace octavo::cli {

void ProfileFlag::AddTo(CLI::App& app) {
  app.add_option_function<std::string>(
         "--profile",
         [this](const std::string& file) {
           asked_ = true;
           if (file.empty()) return;
           if (!file.ends_with(".json") && !file.ends_with(".svg")) {
             throw CLI::ValidationError("--profile", "'" + file +
                                                         "' ends with neither .json (a trace) nor "
                                                         ".svg (a picture)");
           }
           file_ = file;
         },
         "Show on stderr where the time of the steps goes, and write it as a trace (.json, for "
         "Perfetto and chrome://tracing) or a picture (.svg)")
      ->type_name("[FILE]")
      ->expected(0, 1)
      ->default_str("")
      ->group("Reports");
}

Status ProfileFlag::Start(EngineFlags& flags) {
  if (!asked_) return Status::Ok();
  if (!file_.empty()) {
    if (Status status = CheckWritable(file_); !status.ok()) return status;
  }
  flags.RecordInto(&profiler_.emplace());
  return Status::Ok();
}

void ProfileFlag::NoteEngine(const ModelInfo& info) {
  if (profiler_) engine_ = fmt::format(": {}, {} threads, {}", info.name, info.threads, info.simd);
}

Status ProfileFlag::Finish(Status ended, std::string_view command) {
  if (!profiler_) return ended;
  WriteStderr(bench::ProfileTable(*profiler_));
  if (file_.empty()) return ended;
  const std::string text = file_.ends_with(".svg")
                               ? bench::ProfilePicture(*profiler_, std::string(command) + engine_)
                               : bench::ProfileTraceJson(*profiler_);
  const Status written = WriteFile(file_, text);
  return ended.ok() ? written : ended;
}

}  // namespace octavo::cli
