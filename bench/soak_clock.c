/* Shifts the wall clock of one process, by the seconds in a file that others change meanwhile. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*next_clock_gettime)(clockid_t, struct timespec *);
static int (*next_gettimeofday)(struct timeval *, void *);
static const volatile int64_t *shift_s;

__attribute__((constructor)) static void open_shift(void) {
  next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  next_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
  const char *path = getenv("KVTIER_SOAK_CLOCK");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    void *mapped = mmap(NULL, sizeof *shift_s, PROT_READ, MAP_SHARED, file, 0);
    shift_s = mapped == MAP_FAILED ? NULL : mapped;
    close(file);
  }
}

static time_t shift(void) { return shift_s == NULL ? 0 : (time_t)*shift_s; }

int clock_gettime(clockid_t clock, struct timespec *at) {
  /* Others' constructors may ask before ours has run. */
  if (next_clock_gettime == NULL) {
    open_shift();
  }
  int result = next_clock_gettime(clock, at);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    at->tv_sec += shift();
  }
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  if (next_gettimeofday == NULL) {
    open_shift();
  }
  int result = next_gettimeofday(at, zone);
  if (result == 0) {
    at->tv_sec += shift();
  }
  return result;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != NULL) {
    *at = now.tv_sec;
  }
  return now.tv_sec;
}
