/* Sees to it that no stream of a GPU waits for ever for a word that counts layers.
 *
 * The daemon brings each word to its end before it answers, whatever came of the copy. When it can't any more, this process
 * does: when the session ends, for any cause, and when a word has not got there in time, because the daemon hangs or its GPU
 * does. Nobody may be awake to notice: the threads that use the session can all stand in calls of the driver's that wait for
 * that very stream, also with the GIL, also while the interpreter shuts down. So a thread does it that needs nothing but this
 * file. It is made when the first stream waits, and goes with the session.
 *
 * What the daemon writes to a word afterwards does not take it back: it changes a word only from the value that it last
 * wrote. */
#include "_core.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef POLLRDHUP
#define POLLRDHUP 0x2000
#endif

/* How late a word is found that has not got to its end in time. The session's end wakes the thread. */
enum { TICK_MS = 1000 };

typedef struct {
  uint32_t end;
  int64_t by_ns; /* 0: no stream waits for it */
} Guarded;

struct Guard {
  pthread_mutex_t lock; /* of `words`, and of the change of `gave_up` */
  atomic_int users;     /* the session and the thread */
  int socket;
  uint8_t *header; /* of the session's memory, mapped once more */
  atomic_int gave_up;
  atomic_int overdue;
  Guarded words[KVTIER_SESSION_PROGRESS_WORDS];
};

static _Atomic uint32_t *word_of(Guard *guard, size_t index) {
  return (_Atomic uint32_t *)(guard->header + KVTIER_SESSION_PROGRESS_OFFSET + 4 * index);
}

/* As a stream compares them. */
static int is_there(uint32_t value, uint32_t end) { return (int32_t)(value - end) >= 0; }

static void drop(Guard *guard) {
  if (atomic_fetch_sub(&guard->users, 1) == 1) {
    if (guard->socket >= 0) {
      close(guard->socket);
    }
    munmap(guard->header, KVTIER_SESSION_HEADER_BYTES);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
  }
}

static int has_overdue(Guard *guard) {
  int found = 0;
  int64_t time_ns = now_ns();
  pthread_mutex_lock(&guard->lock);
  for (size_t i = 0; i < KVTIER_SESSION_PROGRESS_WORDS; i++) {
    Guarded *guarded = &guard->words[i];
    if (guarded->by_ns != 0 && is_there(atomic_load(word_of(guard, i)), guarded->end)) {
      guarded->by_ns = 0;
    }
    found |= guarded->by_ns != 0 && guarded->by_ns < time_ns;
  }
  pthread_mutex_unlock(&guard->lock);
  return found;
}

static void give_up(Guard *guard) {
  pthread_mutex_lock(&guard->lock);
  /* First: who sees a word there, and then a completion, must get to know by whom. */
  atomic_store(&guard->gave_up, 1);
  for (size_t i = 0; i < KVTIER_SESSION_PROGRESS_WORDS; i++) {
    Guarded *guarded = &guard->words[i];
    uint32_t value = atomic_load(word_of(guard, i));
    /* Until it is there: the daemon, if it lives, may be writing too. */
    while (guarded->by_ns != 0 && !is_there(value, guarded->end)
        && !atomic_compare_exchange_weak(word_of(guard, i), &value, guarded->end)) {
    }
  }
  pthread_mutex_unlock(&guard->lock);
}

static void *watch(void *argument) {
  Guard *guard = argument;
  int is_over = 0;
  while (!is_over) {
    struct pollfd poller = {.fd = guard->socket, .events = POLLRDHUP};
    int gone = poll(&poller, 1, TICK_MS) > 0 && (poller.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
    is_over = gone || load32(guard->header + KVTIER_SESSION_END_REASON_OFFSET) != 0;
    if (!is_over && has_overdue(guard)) {
      atomic_store(&guard->overdue, 1);
      is_over = 1;
    }
  }
  give_up(guard);
  drop(guard);
  return NULL;
}

static int start_thread(Guard *guard) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all;
  sigset_t before;
  /* Signals are for threads that run Python. */
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int problem = pthread_create(&thread, &attributes, watch, guard);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return problem;
}

static Guard *make_guard(Session *self) {
  Guard *guard = calloc(1, sizeof *guard);
  if (guard == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  pthread_mutex_init(&guard->lock, NULL);
  atomic_store(&guard->users, 1);
  guard->socket = -1;
  /* A shared mapping of which nothing is taken away is mapped at a second place. */
  guard->header = mremap(self->base, 0, KVTIER_SESSION_HEADER_BYTES, MREMAP_MAYMOVE);
  if (guard->header == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
    return NULL;
  }
  guard->socket = fcntl(self->socket, F_DUPFD_CLOEXEC, 0);
  int problem = guard->socket < 0 ? errno : 0;
  if (problem == 0) {
    atomic_store(&guard->users, 2);
    problem = start_thread(guard);
    if (problem != 0) {
      atomic_store(&guard->users, 1);
    }
  }
  if (problem != 0) {
    drop(guard);
    errno = problem;
    PyErr_SetFromErrno(PyExc_OSError);
    return NULL;
  }
  return guard;
}

/* guard(word, end, by_ns): from now on the word gets to this value in any case. False: the session is over. */
PyObject *session_guard(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  if (count != 3) {
    PyErr_Format(PyExc_TypeError, "expected 3 arguments, not %zd", count);
    return NULL;
  }
  long word = progress_word(arguments[0]);
  unsigned long end = word < 0 ? 0 : PyLong_AsUnsignedLong(arguments[1]);
  long long by_ns = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[2]);
  if (PyErr_Occurred()) {
    return NULL;
  }
  if (is_over(self)) {
    Py_RETURN_FALSE;
  }
  if (self->guard == NULL) {
    self->guard = make_guard(self);
    if (self->guard == NULL) {
      return NULL;
    }
  }
  Guard *guard = self->guard;
  pthread_mutex_lock(&guard->lock);
  int is_guarded = !atomic_load(&guard->gave_up);
  if (is_guarded) {
    guard->words[word - 1] = (Guarded){.end = (uint32_t)end, .by_ns = by_ns < 1 ? 1 : by_ns};
  }
  pthread_mutex_unlock(&guard->lock);
  return PyBool_FromLong(is_guarded);
}

/* Whether words were brought to their ends here. */
int guard_gave_up(const Guard *guard) { return guard != NULL && atomic_load(&guard->gave_up); }

/* Whether that was because of one that was overdue. */
int guard_is_overdue(const Guard *guard) { return guard != NULL && atomic_load(&guard->overdue); }

/* In a forked child, which has no such thread: held open here, the socket would keep the parent's session alive. */
void guard_abandon(Guard *guard) {
  if (guard != NULL && guard->socket >= 0) {
    close(guard->socket);
    guard->socket = -1;
    /* The thread's part in it is of no use here. */
    atomic_store(&guard->users, 1);
  }
}

/* The session's memory goes; its connection has ended. */
void guard_drop(Guard *guard) {
  if (guard != NULL) {
    drop(guard);
  }
}
