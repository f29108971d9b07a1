/* Shifts the wall clock of one process, by the seconds in a file that others change meanwhile. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*next_clock_gettime)(clockid_t, struct timespec *);
static int (*next_gettimeofday)(struct timeval *, void *);
static int (*next_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static const volatile int64_t *shift_s;

__attribute__((constructor)) static void open_shift(void) {
  next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  next_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
  /* Without its version this would be the oldest one, whose conditions are others. */
  next_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (next_cond_timedwait == NULL) {
    next_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  }
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

/* The kernel knows nothing of the shift: who reckons "in a second" by the shifted clock would wait for a day and a second. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  if (next_cond_timedwait == NULL) {
    open_shift();
  }
  struct timespec wall;
  struct timespec monotonic;
  next_clock_gettime(CLOCK_REALTIME, &wall);
  next_clock_gettime(CLOCK_MONOTONIC, &monotonic);
  struct timespec real = *until;
  /* The condition does not say which clock it goes by; they lie decades apart. */
  if (until->tv_sec > monotonic.tv_sec + (wall.tv_sec - monotonic.tv_sec) / 2) {
    real.tv_sec -= shift();
  }
  return next_cond_timedwait(condition, mutex, &real);
}
