#include <boost/json/serialize.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/inspection.h"
#include "cli/streams.h"
#include "formats/gguf_file.h"

namespace octavo::cli {
namespace {

constexpr char kInspectExamples[] =
    R"(The weights are not read. Long arrays (the vocabulary) are shortened to their first elements.

Examples:
  octavo inspect
  octavo inspect model.gguf --json | jq .kv_bytes_per_token
)";

class InspectCommand : public Command {
 public:
  explicit InspectCommand(CLI::App& app) {
    app.add_option("model", model_,
                   "GGUF file; without it $OCTAVO_MODEL, or else the default model")
        ->type_name("MODEL");
    app.add_flag("--json", json_, "Print one JSON object");
    app.footer(kInspectExamples);
  }

  Status Run() override {
    Result<std::string> path = FindModel(model_);
    if (!path.ok()) return path.status();
    Result<formats::GgufFile> file = formats::GgufFile::Open(*path);
    if (!file.ok()) return file.status();
    const Inspection inspection(*file);
    return WriteStdout(json_ ? boost::json::serialize(inspection.Json()) + "\n"
                             : inspection.Text());
  }

 private:
  std::string model_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddInspectCommand(CLI::App& app) {
  return std::make_unique<InspectCommand>(app);
}

}  // namespace octavo::cli
