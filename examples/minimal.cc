#include <cstdio>

#include "octavo/engine.h"

int main(int argc, char** argv) {
  octavo::EngineOptions options;
  options.model.path = argc > 1 ? argv[1] : "model.gguf";
  auto engine = octavo::Engine::Create(options);
  if (!engine.ok()) return std::fprintf(stderr, "%s\n", engine.status().message().c_str()), 1;
  octavo::SamplingParams params;
  params.temperature = 0.0f;
  auto output = (*engine)->Generate("The capital of France is", params);
  if (!output.ok()) return std::fprintf(stderr, "%s\n", output.status().message().c_str()), 1;
  std::printf("%s\n", output->outputs[0].text.c_str());
}
