#include "base/self_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "base/check.h"

extern char** environ;  // NOLINT: POSIX asks the program to declare it

namespace octavo::base {
namespace {

Status SystemError(const std::string& what, int error) {
  return Status::Unavailable(what + ": " + std::generic_category().message(error));
}

// Reads to the end, and closes it.
std::string ReadAll(int descriptor) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  close(descriptor);
  return text;
}

// Starts the program with `output` as its standard output; 0 or an errno.
int Spawn(const std::string& path, const std::vector<std::string>& arguments, int output,
          pid_t* process) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const int error = posix_spawn(process, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<std::string> RunProgram(const std::string& path, const std::vector<std::string>& arguments) {
  OCTAVO_CHECK(!arguments.empty(), "a program has a name");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot make a pipe", errno);
  pid_t process = 0;
  const int error = Spawn(path, arguments, ends[1], &process);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return SystemError(path + ": cannot start it", error);
  }
  std::string output = ReadAll(ends[0]);
  int ended = 0;
  while (waitpid(process, &ended, 0) < 0) {
    if (errno != EINTR) return SystemError(path + ": cannot wait for it", errno);
  }
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return output;
  const bool exited = WIFEXITED(ended);
  return Status::Unavailable(path + ": ended with " + (exited ? "exit code " : "signal ") +
                             std::to_string(exited ? WEXITSTATUS(ended) : WTERMSIG(ended)));
}

Result<std::string> RunSelfAgain(const std::vector<std::string>& more) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  if (arguments.empty()) {
    return Status::Unavailable("/proc/self/cmdline does not tell this program's arguments");
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram("/proc/self/exe", arguments);
}

}  // namespace octavo::base
