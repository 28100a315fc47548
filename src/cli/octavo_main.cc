#include "cli/command_line.h"

int main(int argc, char** argv) { return octavo::cli::RunCommandLine(argc, argv); }
