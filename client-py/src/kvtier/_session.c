/* One session with the daemon, from the mapping of its memory to its end, and what of it Python sees. */
#include "_core.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef POLLRDHUP
#define POLLRDHUP 0x2000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* About a sleep and its wake-up: spinning longer loses more than it can win. */
#define SPIN_NS 100000

void end_session(Session *self, int status, const char *format, ...) {
  if (self->ended) {
    return;
  }
  self->ended = 1;
  self->end_status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(self->end_text, sizeof self->end_text, format, arguments);
  va_end(arguments);
  if (load32(self->fork_marker) == 1) {
    /* The socket belongs to the parent of a forked child: only its owner may end it for both. Its end gives the slots
     * to others: it waits for those who write to them. */
    if (self->writers == 0) {
      shutdown(self->socket, SHUT_RDWR);
    }
    atomic_store((_Atomic uint32_t *)(self->base + KVTIER_SESSION_CLIENT_WAITING_OFFSET), 0);
    futex_wake(self->base + KVTIER_SESSION_CLIENT_WAITING_OFFSET, FUTEX_WAKE);
    atomic_fetch_add(&self->turn, 1);
    futex_wake(&self->turn, FUTEX_WAKE_PRIVATE);
  }
}

/* Whether the session is over; notices a fork. */
int is_over(Session *self) {
  if (self->ended) {
    return 1;
  }
  if (load32(self->fork_marker) != 1) {
    end_session(self, KVTIER_STATUS_SESSION_ENDED, "the process forked: the session is its parent's");
    return 1;
  }
  if (guard_is_overdue(self->guard)) {
    end_session(self, KVTIER_STATUS_UNAVAILABLE, "the daemon hangs, or its GPU: a copy did not end that a stream waits for");
    return 1;
  }
  return 0;
}

/* Whether what was read until now, under leases that last until `end_ns`, counts as far as words tell: not once they or
 * the session have ended, for their slots may hold other blocks since. What of it counts in the end `is_cut_off` says.
 * Both are the one rule for all readers; they need no GIL. */
int holds_leases(Session *self, int64_t end_ns) {
  /* The bytes were read before the words that vouch for them; the daemon says that the session ended before it gives
   * what that held to others. */
  atomic_thread_fence(memory_order_acquire);
  return now_ns() < end_ns && !self->ended && load32(self->fork_marker) == 1
      && load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) == 0;
}

/* Whether the daemon that gave the leases may be gone: one that was killed says nothing, and the next one, which goes on
 * with its memory, knows nothing of them. A call to the kernel: once for all that was read. */
int is_cut_off(Session *self) {
  atomic_thread_fence(memory_order_acquire);
  return is_hung_up(self->socket);
}

void end_by_daemon(Session *self) {
  uint32_t reason = load32(self->base + KVTIER_SESSION_END_REASON_OFFSET);
  if (reason != 0) {
    end_session(self, (int)(reason - 1), "the daemon ended the session");
  } else {
    end_session(self, KVTIER_STATUS_UNAVAILABLE, "the daemon closed the connection: it ended or was killed");
  }
}

int is_hung_up(int socket) {
  struct pollfd poller = {.fd = socket, .events = POLLRDHUP};
  return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
}

static int is_ring_size(uint64_t bytes) {
  return bytes >= KVTIER_RING_BYTES_MIN && bytes <= KVTIER_RING_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/* Where the rings begin: they are mapped, so at the first byte of a page. */
static size_t rings_offset(void) {
  long page = sysconf(_SC_PAGESIZE);
  return page > KVTIER_SESSION_HEADER_BYTES ? (size_t)page : KVTIER_SESSION_HEADER_BYTES;
}

static int map_session(Session *self, int fd) {
  struct stat file;
  if (fstat(fd, &file) < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  if (file.st_size < KVTIER_SESSION_HEADER_BYTES) {
    PyErr_Format(session_error, "the session's memory has only %lld bytes", (long long)file.st_size);
    return -1;
  }
  uint8_t *header = mmap(NULL, KVTIER_SESSION_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  if (header == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  uint32_t ready = load32(header + KVTIER_SESSION_READY_OFFSET);
  uint64_t magic = get64(header + KVTIER_SESSION_MAGIC_OFFSET);
  uint32_t version = get32(header + KVTIER_SESSION_VERSION_OFFSET);
  uint64_t requests = get64(header + KVTIER_SESSION_REQUEST_RING_BYTES_OFFSET);
  uint64_t completions = get64(header + KVTIER_SESSION_COMPLETION_RING_BYTES_OFFSET);
  self->session_id = get64(header + KVTIER_SESSION_SESSION_ID_OFFSET);
  munmap(header, KVTIER_SESSION_HEADER_BYTES);
  if (ready != 1 || magic != KVTIER_SESSION_MAGIC || version >> 16 != KVTIER_VERSION_MAJOR) {
    PyErr_Format(session_error, "the session's memory is not a region of layout %d.x", KVTIER_VERSION_MAJOR);
    return -1;
  }
  size_t rings_at = rings_offset();
  if (!is_ring_size(requests) || !is_ring_size(completions)
      || (uint64_t)file.st_size < rings_at + requests + completions) {
    PyErr_Format(session_error, "rings of %llu and %llu bytes do not fit the session's memory of %lld bytes",
        (unsigned long long)requests, (unsigned long long)completions, (long long)file.st_size);
    return -1;
  }
  size_t total = rings_at + 2 * requests + 2 * completions;
  uint8_t *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  self->base = base;
  self->mapped_bytes = total;
  self->requests = base + rings_at;
  self->completions = self->requests + 2 * requests;
  self->request_bytes = requests;
  self->completion_bytes = completions;
  const struct {
    uint8_t *at;
    uint64_t bytes;
    uint64_t offset;
  } parts[] = {
      {base, rings_at, 0},
      {self->requests, requests, rings_at},
      {self->requests + requests, requests, rings_at},
      {self->completions, completions, rings_at + requests},
      {self->completions + completions, completions, rings_at + requests},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (mmap(parts[i].at, parts[i].bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
            (off_t)parts[i].offset) == MAP_FAILED) {
      PyErr_SetFromErrno(PyExc_OSError);
      return -1;
    }
  }
  return 0;
}

static int map_daemon(Session *self, int fd) {
  struct stat file;
  if (fstat(fd, &file) < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  if (file.st_size < KVTIER_DAEMON_REGION_BYTES) {
    PyErr_Format(session_error, "the daemon's memory has only %lld bytes", (long long)file.st_size);
    return -1;
  }
  void *daemon = mmap(NULL, KVTIER_DAEMON_REGION_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  if (daemon == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  self->daemon = daemon;
  if (load32(self->daemon + KVTIER_DAEMON_READY_OFFSET) != 1
      || get64(self->daemon + KVTIER_DAEMON_MAGIC_OFFSET) != KVTIER_DAEMON_MAGIC
      || get32(self->daemon + KVTIER_DAEMON_VERSION_OFFSET) >> 16 != KVTIER_VERSION_MAJOR) {
    PyErr_Format(session_error, "the daemon's memory is not a region of layout %d.x", KVTIER_VERSION_MAJOR);
    return -1;
  }
  return 0;
}

static int open_session(Session *self, int memory, int doorbell, int daemon, int socket) {
  if (map_session(self, memory) < 0 || map_daemon(self, daemon) < 0) {
    return -1;
  }
  void *marker = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (marker == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  self->fork_marker = marker;
  if (madvise(marker, 4096, MADV_WIPEONFORK) < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  *self->fork_marker = 1;
  self->doorbell = fcntl(doorbell, F_DUPFD_CLOEXEC, 0);
  self->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (self->doorbell < 0 || self->socket < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  self->expected = PyDict_New();
  self->arrived = PyDict_New();
  self->orphans = PyList_New(0);
  if (self->expected == NULL || self->arrived == NULL || self->orphans == NULL) {
    return -1;
  }
  cpu_set_t cores;
  /* On a single core the daemon cannot answer while we spin. */
  self->spin_ns = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) == 1 ? 0 : SPIN_NS;
  return 0;
}

static PyObject *session_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"memory_fd", "doorbell_fd", "daemon_fd", "socket_fd", NULL};
  int memory;
  int doorbell;
  int daemon;
  int socket;
  if (!PyArg_ParseTupleAndKeywords(
          arguments, keywords, "iiii", names, &memory, &doorbell, &daemon, &socket)) {
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Session *self = (Session *)allocate(type, 0);
  if (self == NULL) {
    return NULL;
  }
  self->doorbell = -1;
  self->socket = -1;
  if (open_session(self, memory, doorbell, daemon, socket) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

static void session_dealloc(PyObject *object) {
  Session *self = (Session *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->guard != NULL && load32(self->fork_marker) == 1) {
    shutdown(self->socket, SHUT_RDWR);
  } else {
    guard_abandon(self->guard);
  }
  guard_drop(self->guard);
  if (self->base != NULL) {
    munmap(self->base, self->mapped_bytes);
  }
  if (self->daemon != NULL) {
    munmap((void *)self->daemon, KVTIER_DAEMON_REGION_BYTES);
  }
  if (self->fork_marker != NULL) {
    munmap(self->fork_marker, 4096);
  }
  if (self->doorbell >= 0) {
    close(self->doorbell);
  }
  if (self->socket >= 0) {
    close(self->socket);
  }
  Py_XDECREF(self->expected);
  Py_XDECREF(self->arrived);
  Py_XDECREF(self->orphans);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static int deadline_of(PyObject *object, int64_t *deadline_ns) {
  *deadline_ns = PyLong_AsLongLong(object);
  return *deadline_ns == -1 && PyErr_Occurred() ? -1 : 0;
}

static int has_arguments(Py_ssize_t given, Py_ssize_t expected) {
  if (given != expected) {
    PyErr_Format(PyExc_TypeError, "expected %zd arguments, not %zd", expected, given);
    return 0;
  }
  return 1;
}

static PyObject *taken(Session *self, int64_t correlation, int64_t deadline_ns) {
  PyObject *key = PyLong_FromLongLong(correlation);
  PyObject *completion = key == NULL ? NULL : take_until(self, key, deadline_ns);
  Py_XDECREF(key);
  return completion;
}

static PyObject *session_call(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  int64_t deadline_ns;
  unsigned refusal;
  if (!has_arguments(count, count == 3 ? 3 : 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  int64_t correlation = submit_until(self, arguments[0], deadline_ns, count == 3 ? arguments[2] : Py_None, &refusal);
  if (correlation <= 0) {
    return correlation < 0 ? NULL : made_here(refusal);
  }
  return taken(self, correlation, deadline_ns);
}

/* lookup_digits(digits, namespace, deadline_ns, answer_by_ns, context): the completion of a LOOKUP; None: these are not the digits of one
 * request's keys. */
static PyObject *session_lookup_digits(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  Request request;
  int64_t told_ns;
  int64_t deadline_ns;
  unsigned refusal;
  if (!has_arguments(count, 5) || deadline_of(arguments[2], &told_ns) < 0 || deadline_of(arguments[3], &deadline_ns) < 0) {
    return NULL;
  }
  unsigned long namespace_id = PyLong_AsUnsignedLong(arguments[1]);
  if (PyErr_Occurred()) {
    return NULL;
  }
  if (namespace_id > UINT32_MAX || told_ns < 0) {
    PyErr_Format(invalid_argument, "the namespace is %lu and the deadline %lld ns; expected at most %lu, and no negative number",
        namespace_id, (long long)told_ns, (unsigned long)UINT32_MAX);
    return NULL;
  }
  if (!lookup_of_digits(arguments[0], &request)) {
    Py_RETURN_NONE;
  }
  request.header.namespace_id = (uint32_t)namespace_id;
  request.header.deadline_ns = (uint64_t)told_ns;
  int64_t correlation = submit_request(self, &request, deadline_ns, arguments[4], &refusal);
  if (correlation < 0) {
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
  }
  return correlation == 0 ? made_here(refusal) : taken(self, correlation, deadline_ns);
}

static PyObject *session_submit(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  int64_t deadline_ns;
  unsigned refusal;
  if (!has_arguments(count, count == 3 ? 3 : 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  int64_t correlation =
      submit_until((Session *)object, arguments[0], deadline_ns, count == 3 ? arguments[2] : Py_None, &refusal);
  if (correlation < 0) {
    return NULL;
  }
  return PyLong_FromLongLong(correlation > 0 ? correlation : -(int64_t)refusal);
}

static PyObject *session_take(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  int64_t deadline_ns;
  if (!has_arguments(count, 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  return take_until((Session *)object, arguments[0], deadline_ns);
}

/* has(correlation, deadline_ns): whether `take` would not wait any more. */
static PyObject *session_has(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  int64_t deadline_ns;
  if (!has_arguments(count, 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  int arrived = await_arrival((Session *)object, arguments[0], deadline_ns);
  return arrived < 0 ? NULL : PyBool_FromLong(arrived);
}

/* The word that counts the layers of a copy; -1 for a number that is none. */
long progress_word(PyObject *number) {
  long word = PyLong_AsLong(number);
  if (word == -1 && PyErr_Occurred()) {
    return -1;
  }
  if (word < 1 || word > KVTIER_SESSION_PROGRESS_WORDS) {
    PyErr_Format(invalid_argument, "progress word %ld: expected 1 to %d", word, KVTIER_SESSION_PROGRESS_WORDS);
    return -1;
  }
  return word;
}

static PyObject *session_progress(PyObject *object, PyObject *number) {
  long word = progress_word(number);
  if (word < 0) {
    return NULL;
  }
  return PyLong_FromUnsignedLong(
      load32(((Session *)object)->base + KVTIER_SESSION_PROGRESS_OFFSET + 4 * (size_t)(word - 1)));
}

static PyObject *session_poll(PyObject *object, PyObject *timeout) {
  Session *self = (Session *)object;
  int64_t timeout_ns;
  if (deadline_of(timeout, &timeout_ns) < 0) {
    return NULL;
  }
  int64_t deadline_ns = now_ns() + timeout_ns;
  if (drain(self) < 0) {
    return NULL;
  }
  while (PyDict_Size(self->arrived) == 0 && !is_over(self) && now_ns() < deadline_ns) {
    if (wait_and_drain(self, deadline_ns) < 0) {
      return NULL;
    }
  }
  /* A wait notices that the daemon is gone. A caller that never waits needs this test. */
  if (timeout_ns <= 0 && PyDict_Size(self->arrived) == 0 && !is_over(self) && is_hung_up(self->socket)) {
    /* The daemon may have answered before its end. */
    if (drain(self) < 0) {
      return NULL;
    }
    if (PyDict_Size(self->arrived) == 0) {
      end_by_daemon(self);
    }
  }
  PyObject *fresh = PyDict_New();
  if (fresh == NULL) {
    return NULL;
  }
  PyObject *arrived = self->arrived;
  self->arrived = fresh;
  return arrived;
}

static PyObject *session_forget(PyObject *object, PyObject *correlation) {
  if (forget((Session *)object, correlation) < 0) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/* give_back(verb, ids, corrupt=False, context=None): releases leases of ACQUIRE or aborts reservations of RESERVE, now or
 * when there is room. */
static PyObject *session_give_back(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  if (!has_arguments(count, count == 3 || count == 4 ? count : 2)) {
    return NULL;
  }
  long verb = PyLong_AsLong(arguments[0]);
  if (verb == -1 && PyErr_Occurred()) {
    return NULL;
  }
  int corrupt = count >= 3 ? PyObject_IsTrue(arguments[2]) : 0;
  PyObject *context = count == 4 ? arguments[3] : Py_None;
  const char *given;
  if (corrupt < 0 || parse_context(context, &given) < 0) {
    return NULL;
  }
  if (!PyBytes_Check(arguments[1]) || PyBytes_Size(arguments[1]) % 8 != 0
      || PyBytes_Size(arguments[1]) > 8 * KVTIER_KEYS_MAX || !has_long_results((int)verb)
      || (corrupt && verb != KVTIER_VERB_ACQUIRE)) {
    PyErr_SetString(invalid_argument, "expected ACQUIRE or RESERVE, and at most 2048 ids of 8 bytes");
    return NULL;
  }
  if (is_over(self) || PyBytes_Size(arguments[1]) == 0 || give_back(self, (int)verb, arguments[1], corrupt, context)) {
    Py_RETURN_NONE;
  }
  PyObject *orphan = Py_BuildValue("(iOOO)", (int)verb, arguments[1], corrupt ? Py_True : Py_False, context);
  int appended = orphan == NULL ? -1 : PyList_Append(self->orphans, orphan);
  Py_XDECREF(orphan);
  if (appended < 0) {
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *session_holds(PyObject *object, PyObject *end) {
  int64_t end_ns;
  if (deadline_of(end, &end_ns) < 0) {
    return NULL;
  }
  return PyBool_FromLong(holds_leases((Session *)object, end_ns) && !is_cut_off((Session *)object));
}

static PyObject *session_close(PyObject *object, PyObject *ignored) {
  (void)ignored;
  end_session((Session *)object, KVTIER_STATUS_SESSION_ENDED, "this client closed the session");
  Py_RETURN_NONE;
}

static PyObject *session_begin_writing(PyObject *object, PyObject *ignored) {
  (void)ignored;
  Session *self = (Session *)object;
  if (is_over(self)) {
    Py_RETURN_FALSE;
  }
  self->writers++;
  Py_RETURN_TRUE;
}

static PyObject *session_end_writing(PyObject *object, PyObject *ignored) {
  (void)ignored;
  Session *self = (Session *)object;
  if (--self->writers == 0 && self->ended && load32(self->fork_marker) == 1) {
    shutdown(self->socket, SHUT_RDWR);
  }
  Py_RETURN_NONE;
}

static PyObject *session_abandon(PyObject *object, PyObject *ignored) {
  (void)ignored;
  Session *self = (Session *)object;
  /* Held open here, the parent's socket would keep its session alive after the parent's end. */
  if (load32(self->fork_marker) != 1) {
    is_over(self);
    guard_abandon(self->guard);
    close(self->socket);
    close(self->doorbell);
    self->socket = -1;
    self->doorbell = -1;
  }
  Py_RETURN_NONE;
}

static PyObject *session_fail(PyObject *object, PyObject *text) {
  const char *reason = PyUnicode_AsUTF8AndSize(text, NULL);
  if (reason == NULL) {
    return NULL;
  }
  end_session((Session *)object, KVTIER_STATUS_INTERNAL, "%s", reason);
  Py_RETURN_NONE;
}

static PyObject *session_counters(PyObject *object, PyObject *ignored) {
  (void)ignored;
  const uint8_t *daemon = ((Session *)object)->daemon;
  uint32_t count = get32(daemon + KVTIER_DAEMON_COUNTER_COUNT_OFFSET);
  uint32_t most = (KVTIER_DAEMON_REGION_BYTES - KVTIER_DAEMON_COUNTERS_OFFSET) / 8;
  if (count > most) {
    count = most;
  }
  PyObject *counters = PyList_New((Py_ssize_t)count);
  for (uint32_t i = 0; counters != NULL && i < count; i++) {
    PyObject *value = PyLong_FromUnsignedLongLong(load64(daemon + KVTIER_DAEMON_COUNTERS_OFFSET + 8 * (size_t)i));
    if (value == NULL || PyList_SetItem(counters, (Py_ssize_t)i, value) < 0) {
      Py_DECREF(counters);
      return NULL;
    }
  }
  return counters;
}

static PyObject *session_get_ended(PyObject *object, void *closure) {
  (void)closure;
  Session *self = (Session *)object;
  if (!is_over(self) && load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) != 0) {
    end_by_daemon(self);
  }
  return PyBool_FromLong(self->ended);
}

static PyObject *session_get_end_status(PyObject *object, void *closure) {
  (void)closure;
  return status_object((unsigned)((Session *)object)->end_status);
}

static PyObject *session_get_end_text(PyObject *object, void *closure) {
  (void)closure;
  const char *text = ((Session *)object)->end_text;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *session_get_gave_up(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(guard_gave_up(((Session *)object)->guard));
}

static PyObject *session_get_outstanding(PyObject *object, void *closure) {
  (void)closure;
  Session *self = (Session *)object;
  return PyLong_FromSsize_t(
      PyDict_Size(self->expected) + PyDict_Size(self->arrived) + PyList_Size(self->orphans));
}

static PyObject *session_get_session_id(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(((Session *)object)->session_id);
}

static PyObject *session_get_generation(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(get64(((Session *)object)->daemon + KVTIER_DAEMON_GENERATION_OFFSET));
}

static PyObject *session_get_heartbeat(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(load64(((Session *)object)->daemon + KVTIER_DAEMON_HEARTBEAT_OFFSET));
}

static PyMethodDef session_methods[] = {
    {"call", (PyCFunction)(void (*)(void))session_call, METH_FASTCALL, "Submits a request and waits for its completion."},
    {"lookup_digits", (PyCFunction)(void (*)(void))session_lookup_digits, METH_FASTCALL,
        "Looks up keys in hexadecimal digits, and waits: the completion, or None where they are none."},
    {"submit", (PyCFunction)(void (*)(void))session_submit, METH_FASTCALL,
        "Submits a request: its correlation id, or the negative status that says why not."},
    {"take", (PyCFunction)(void (*)(void))session_take, METH_FASTCALL, "Waits for the completion of a correlation id."},
    {"has", (PyCFunction)(void (*)(void))session_has, METH_FASTCALL,
        "Waits until the completion of a correlation id can be taken; False: not by the deadline."},
    {"progress", session_progress, METH_O, "How many layers of a copy are done, by the word that counts them."},
    {"guard", (PyCFunction)(void (*)(void))session_guard, METH_FASTCALL,
        "Has such a word get to a value in any case, at the session's end or a point in time; False: the session is over."},
    {"poll", session_poll, METH_O, "Waits for any completions: a dict by correlation id."},
    {"forget", session_forget, METH_O, "Lets go of a correlation id: what its answer grants is given back."},
    {"give_back", (PyCFunction)(void (*)(void))session_give_back, METH_FASTCALL,
        "Releases leases (of ACQUIRE; corrupt or not) or aborts reservations (of RESERVE) in silence."},
    {"holds", session_holds, METH_O, "Whether what was read under leases with this end counts until now."},
    {"close", session_close, METH_NOARGS, "Ends the session; the daemon hears of it when nobody writes to slots any more."},
    {"begin_writing", session_begin_writing, METH_NOARGS,
        "Slots are going to be written: until end_writing they are nobody else's. False: the session is over."},
    {"end_writing", session_end_writing, METH_NOARGS, "What was written is written."},
    {"abandon", session_abandon, METH_NOARGS, "In a forked child, lets go of the parent's session."},
    {"fail", session_fail, METH_O, "Ends the session for a defect of the peer."},
    {"counters", session_counters, METH_NOARGS, "The daemon's counters, in the order of the protocol."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef session_properties[] = {
    {"ended", session_get_ended, NULL, "Whether the session is over.", NULL},
    {"end_status", session_get_end_status, NULL, "Why it is over.", NULL},
    {"end_text", session_get_end_text, NULL, "Why it is over, in words.", NULL},
    {"gave_up", session_get_gave_up, NULL, "Whether guarded words were brought to their ends here: what streams that waited for them did counts for nothing.", NULL},
    {"outstanding", session_get_outstanding, NULL, "Requests whose completion has not come or was not taken yet, and answers still to be given back.", NULL},
    {"session_id", session_get_session_id, NULL, "The session's number.", NULL},
    {"generation", session_get_generation, NULL, "A number that is new at every start of the daemon.", NULL},
    {"heartbeat_ns", session_get_heartbeat, NULL, "When the daemon's index last looked round, CLOCK_MONOTONIC.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_doc, "One session with the daemon: its rings, mapped."},
    {Py_tp_new, session_new},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_properties},
    {0, NULL},
};

PyType_Spec session_spec = {"kvtier._core.Session", sizeof(Session), 0, Py_TPFLAGS_DEFAULT, session_slots};
