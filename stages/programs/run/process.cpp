#include "stages/programs/run/process.h"

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "common/base/output_file.h"

namespace specdec {
namespace {

// Opens closed standard streams. Writing to a closed stdout still fails, as it should; a closed
// stderr swallows everything.
void fill_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened < 0) return;
  }
}

void on_end(int signal) {
  remove_partial_files();
  ::raise(signal);  // takes the default action when this handler returns
}

void clean_up_on(int signal) {
  struct sigaction before {};
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;  // as under nohup
  struct sigaction action {};
  action.sa_handler = on_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void guard_process() {
  fill_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGABRT}) clean_up_on(signal);
}

}  // namespace specdec
