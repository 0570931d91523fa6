/* Makes time pass SLOWCLOCK times slower for a process in which it is preloaded, as slow as valgrind makes the process.
 * Otherwise the work that the process does every so many seconds would take a share of its instructions that is too
 * large by that factor, and that grows with whatever else the machine does. Waits still last as long as they are asked
 * to: who waits for a time of this clock finds that it has not come, and waits again.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static long long begins[CLOCK_TAI + 1];
static long long slowness = 1;

static long long nanoseconds(clockid_t id) {
  struct timespec now;
  syscall(SYS_clock_gettime, id, &now);
  return now.tv_sec * SECOND + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
  const char *given = getenv("SLOWCLOCK");
  for (clockid_t id = 0; id <= CLOCK_TAI; id++) begins[id] = nanoseconds(id);
  if (given && atoll(given) > 0) slowness = atoll(given);
}

int clock_gettime(clockid_t id, struct timespec *time) {
  if (id < 0 || id > CLOCK_TAI || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
    return (int)syscall(SYS_clock_gettime, id, time); /* a processor's time is none of a clock's */
  long long now = begins[id] + (nanoseconds(id) - begins[id]) / slowness;
  time->tv_sec = now / SECOND;
  time->tv_nsec = now % SECOND;
  return 0;
}
