/* The hot path of the client: a session's rings, its slabs, copying and checksums.
 *
 * The GIL is this module's lock: requests are written and completions drained while it is held, both short. It is
 * released for waiting and for copying. Of the threads that wait in one session one, the leader, watches the ring and
 * drains it; the others sleep on a private word until the leader has drained something or has gone.
 *
 * Nothing read from shared memory is trusted: a record is copied out once, and then checked. A bad one ends the
 * session. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "_crc32c.h"
#include "_protocol.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the protocol is little-endian, and so must the machine be"
#endif

#ifndef POLLRDHUP
#define POLLRDHUP 0x2000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The peer may need the core that we spin on: a wake-up costs about as much as this. */
#define SPIN_NS 15000
/* How late the end of a daemon that was killed is noticed. */
#define SLICE_NS 40000000
/* A full ring has no wake-up of its own. */
#define FULL_RING_NAP_NS 50000
#define STATUS_COUNT 20
#define TIER_COUNT 5

static PyObject *session_error;
static PyObject *invalid_argument;
static PyObject *statuses[STATUS_COUNT];
static PyObject *tiers[TIER_COUNT];
static const char *crc32c_name;

/* ---- words, time ---- */

static inline uint64_t load64(const void *at) {
  return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_acquire);
}

static inline uint32_t load32(const void *at) {
  return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire);
}

static inline void store64(void *at, uint64_t value) {
  atomic_store_explicit((_Atomic uint64_t *)at, value, memory_order_release);
}

#define PUT(type, at, offset, value)           \
  do {                                         \
    type put_value = (type)(value);            \
    memcpy((at) + (offset), &put_value, sizeof put_value); \
  } while (0)

static inline uint16_t get16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint32_t get32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint64_t get64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futex_wait(void *word, uint32_t expected, int64_t timeout_ns, int operation) {
  struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  syscall(SYS_futex, word, operation, expected, &timeout, NULL, 0);
}

static void futex_wake(void *word, int operation) { syscall(SYS_futex, word, operation, INT_MAX, NULL, NULL, 0); }

/* ---- Slab: a mapped slab, a buffer ---- */

typedef struct {
  PyObject_HEAD
  uint8_t *base;
  uint64_t bytes;
  int writable;
} Slab;

static PyTypeObject *slab_type;
static PyTypeObject *session_type;

static PyObject *slab_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"fd", "nbytes", "writable", NULL};
  int fd;
  unsigned long long bytes;
  int writable;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "iKp", names, &fd, &bytes, &writable)) {
    return NULL;
  }
  struct stat file;
  if (fstat(fd, &file) < 0) {
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  if (bytes == 0 || bytes > (uint64_t)PY_SSIZE_T_MAX || (uint64_t)file.st_size < bytes) {
    return PyErr_Format(session_error, "the slab's file has %lld bytes, expected at least %llu",
        (long long)file.st_size, bytes);
  }
  /* The daemon took all pages at its start: enter them now rather than by a fault each. */
  void *base = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) {
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Slab *self = (Slab *)allocate(type, 0);
  if (self == NULL) {
    munmap(base, bytes);
    return NULL;
  }
  self->base = base;
  self->bytes = bytes;
  self->writable = writable;
  return (PyObject *)self;
}

static void slab_dealloc(PyObject *object) {
  Slab *self = (Slab *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->base != NULL) {
    munmap(self->base, self->bytes);
  }
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static int slab_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  Slab *self = (Slab *)object;
  return PyBuffer_FillInfo(view, object, self->base, (Py_ssize_t)self->bytes, !self->writable, flags);
}

static Py_ssize_t slab_length(PyObject *object) { return (Py_ssize_t)((Slab *)object)->bytes; }

static PyType_Slot slab_slots[] = {
    {Py_tp_doc, "A slab of the daemon, mapped: a buffer of bytes."},
    {Py_tp_new, slab_new},
    {Py_tp_dealloc, slab_dealloc},
    {Py_bf_getbuffer, slab_getbuffer},
    {Py_sq_length, slab_length},
    {0, NULL},
};

static PyType_Spec slab_spec = {"kvtier._core.Slab", sizeof(Slab), 0, Py_TPFLAGS_DEFAULT, slab_slots};

/* ---- Session ---- */

typedef struct {
  PyObject_HEAD
  uint8_t *base;
  size_t mapped_bytes;
  const uint8_t *daemon;
  uint32_t *fork_marker; /* reads 0 in a forked child */
  uint8_t *requests;
  uint8_t *completions;
  uint64_t request_bytes;
  uint64_t completion_bytes;
  uint64_t tail; /* of requests: private, the shared word only follows it */
  uint64_t head_seen;
  uint64_t head; /* of completions: private */
  uint64_t tail_seen;
  int doorbell;
  int socket;
  uint64_t session_id;
  uint64_t next_correlation;
  int64_t spin_ns;
  atomic_int ended; /* changes with the GIL only; read without it too */
  int end_status;
  char end_text[192];
  int writers; /* who write to slots: while there are any, the connection stays */
  int leader;
  int followers;
  _Atomic uint32_t turn; /* changes when followers should look again */
  PyObject *expected;    /* correlation -> verb; -verb: nobody waits for it any more */
  PyObject *arrived;     /* correlation -> completion */
  PyObject *orphans;     /* [(verb, ids, whether their bytes are corrupt)]: to be given back when there is room */
} Session;

static void end_session(Session *self, int status, const char *format, ...) {
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
static int is_over(Session *self) {
  if (self->ended) {
    return 1;
  }
  if (load32(self->fork_marker) != 1) {
    end_session(self, KVTIER_STATUS_SESSION_ENDED, "the process forked: the session is its parent's");
    return 1;
  }
  return 0;
}

/* Whether what was read until now, under leases that last until `end_ns`, counts: not once they or the session have
 * ended, for their slots may hold other blocks since. The one rule for all readers; needs no GIL. */
static int holds_leases(Session *self, int64_t end_ns) {
  /* The bytes were read before the words that vouch for them; the daemon says that the session ended before it gives what
   * that held to others. */
  atomic_thread_fence(memory_order_acquire);
  return now_ns() < end_ns && !self->ended && load32(self->fork_marker) == 1
      && load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) == 0;
}

static void end_by_daemon(Session *self) {
  uint32_t reason = load32(self->base + KVTIER_SESSION_END_REASON_OFFSET);
  if (reason != 0) {
    end_session(self, (int)(reason - 1), "the daemon ended the session");
  } else {
    end_session(self, KVTIER_STATUS_UNAVAILABLE, "the daemon closed the connection: it ended or was killed");
  }
}

static int is_hung_up(int socket) {
  struct pollfd poller = {.fd = socket, .events = POLLRDHUP};
  return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
}

static int is_ring_size(uint64_t bytes) {
  return bytes >= KVTIER_RING_BYTES_MIN && bytes <= KVTIER_RING_BYTES_MAX && (bytes & (bytes - 1)) == 0;
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
  if (!is_ring_size(requests) || !is_ring_size(completions)
      || (uint64_t)file.st_size < KVTIER_SESSION_HEADER_BYTES + requests + completions) {
    PyErr_Format(session_error, "rings of %llu and %llu bytes do not fit the session's memory of %lld bytes",
        (unsigned long long)requests, (unsigned long long)completions, (long long)file.st_size);
    return -1;
  }
  size_t total = KVTIER_SESSION_HEADER_BYTES + 2 * requests + 2 * completions;
  uint8_t *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  self->base = base;
  self->mapped_bytes = total;
  self->requests = base + KVTIER_SESSION_HEADER_BYTES;
  self->completions = self->requests + 2 * requests;
  self->request_bytes = requests;
  self->completion_bytes = completions;
  const struct {
    uint8_t *at;
    uint64_t bytes;
    uint64_t offset;
  } parts[] = {
      {base, KVTIER_SESSION_HEADER_BYTES, 0},
      {self->requests, requests, KVTIER_SESSION_HEADER_BYTES},
      {self->requests + requests, requests, KVTIER_SESSION_HEADER_BYTES},
      {self->completions, completions, KVTIER_SESSION_HEADER_BYTES + requests},
      {self->completions + completions, completions, KVTIER_SESSION_HEADER_BYTES + requests},
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

/* ---- requests ---- */

/* A span of the request ring, or NULL when there is no room or the session ended. */
static uint8_t *claim(Session *self, size_t bytes) {
  if (self->request_bytes - (self->tail - self->head_seen) < bytes) {
    uint64_t head = load64(self->base + KVTIER_SESSION_REQUEST_HEAD_OFFSET);
    if (head < self->head_seen || head > self->tail) {
      end_session(self, KVTIER_STATUS_INTERNAL, "request ring head is %llu, expected a value from %llu to %llu",
          (unsigned long long)head, (unsigned long long)self->head_seen, (unsigned long long)self->tail);
      return NULL;
    }
    self->head_seen = head;
    if (self->request_bytes - (self->tail - head) < bytes) {
      return NULL;
    }
  }
  return self->requests + (self->tail & (self->request_bytes - 1));
}

static void publish(Session *self, size_t bytes, int wants_bell) {
  self->tail += bytes;
  store64(self->base + KVTIER_SESSION_REQUEST_TAIL_OFFSET, self->tail);
  if (!wants_bell) {
    return;
  }
  atomic_thread_fence(memory_order_seq_cst);
  if (load32(self->daemon + KVTIER_DAEMON_INDEX_WAITING_OFFSET) == 1) {
    const uint64_t one = 1;
    ssize_t ignored = write(self->doorbell, &one, sizeof one);
    (void)ignored; /* a full counter rings all the same */
  }
}

typedef struct {
  uint8_t verb;
  uint8_t flags;
  uint8_t priority;
  uint8_t key_bytes;
  uint64_t correlation;
  uint64_t deadline_ns;
  uint32_t namespace_id;
  uint16_t group;
  uint32_t count;
  uint32_t depth;
  uint64_t argument;
} RequestHeader;

static void write_header(uint8_t *at, const RequestHeader *header, size_t bytes) {
  memset(at, 0, KVTIER_REQUEST_HEADER_BYTES);
  PUT(uint32_t, at, KVTIER_REQUEST_RECORD_BYTES_OFFSET, bytes);
  PUT(uint8_t, at, KVTIER_REQUEST_VERB_OFFSET, header->verb);
  PUT(uint8_t, at, KVTIER_REQUEST_FLAGS_OFFSET, header->flags);
  PUT(uint8_t, at, KVTIER_REQUEST_PRIORITY_OFFSET, header->priority);
  PUT(uint8_t, at, KVTIER_REQUEST_KEY_BYTES_OFFSET, header->key_bytes);
  PUT(uint64_t, at, KVTIER_REQUEST_CORRELATION_OFFSET, header->correlation);
  PUT(uint64_t, at, KVTIER_REQUEST_DEADLINE_OFFSET, header->deadline_ns);
  PUT(uint32_t, at, KVTIER_REQUEST_NAMESPACE_OFFSET, header->namespace_id);
  PUT(uint16_t, at, KVTIER_REQUEST_GROUP_OFFSET, header->group);
  PUT(uint32_t, at, KVTIER_REQUEST_COUNT_OFFSET, header->count);
  PUT(uint32_t, at, KVTIER_REQUEST_DEPTH_OFFSET, header->depth);
  PUT(uint64_t, at, KVTIER_REQUEST_ARGUMENT_OFFSET, header->argument);
}

/* Nobody waits for a silent RELEASE: a daemon that sleeps takes it when it next looks, within milliseconds. Damage is
 * told at once. */
static int wants_bell(const RequestHeader *header) {
  return header->verb != KVTIER_VERB_RELEASE || !(header->flags & KVTIER_REQUEST_FLAG_SILENT)
      || (header->flags & KVTIER_REQUEST_FLAG_CORRUPT);
}

typedef enum { BODY_NONE, BODY_KEYS, BODY_IDS, BODY_TEXT } Body;

static Body body_of(int verb) {
  switch (verb) {
    case KVTIER_VERB_LOOKUP:
    case KVTIER_VERB_RESERVE:
    case KVTIER_VERB_ACQUIRE:
    case KVTIER_VERB_PREFETCH:
    case KVTIER_VERB_PIN:
    case KVTIER_VERB_UNPIN:
    case KVTIER_VERB_DELETE:
      return BODY_KEYS;
    case KVTIER_VERB_COMMIT:
    case KVTIER_VERB_ABORT:
    case KVTIER_VERB_RELEASE:
      return BODY_IDS;
    case KVTIER_VERB_REGISTER:
      return BODY_TEXT;
    default:
      return BODY_NONE;
  }
}

static inline int has_long_results(int verb) {
  return verb == KVTIER_VERB_ACQUIRE || verb == KVTIER_VERB_RESERVE;
}

/* A request as Python hands it over: the body is borrowed. */
typedef struct {
  RequestHeader header;
  Body kind;
  PyObject *body;
  PyObject *parent;
  Py_ssize_t start;
  size_t stride;
  size_t bytes;
} Request;

static PyObject *item_of(PyObject *sequence, Py_ssize_t index) {
  return PyList_Check(sequence) ? PyList_GetItem(sequence, index) : PyTuple_GetItem(sequence, index);
}

static int key_of(PyObject *key, size_t bytes, const char **data) {
  char *at;
  Py_ssize_t length;
  if (!PyBytes_Check(key)) {
    PyErr_SetString(PyExc_TypeError, "a key is bytes");
    return -1;
  }
  if (PyBytes_AsStringAndSize(key, &at, &length) < 0) {
    return -1;
  }
  if ((size_t)length != bytes) {
    PyErr_Format(invalid_argument, "a key has %zd bytes and another one %zu: all must be equal", length, bytes);
    return -1;
  }
  *data = at;
  return 0;
}

static int unsigned_field(PyObject *tuple, Py_ssize_t index, uint64_t limit, uint64_t *value) {
  PyObject *item = PyTuple_GetItem(tuple, index);
  if (item == NULL) {
    return -1;
  }
  *value = PyLong_AsUnsignedLongLong(item);
  if (*value == (uint64_t)-1 && PyErr_Occurred()) {
    return -1;
  }
  if (*value > limit) {
    PyErr_Format(invalid_argument, "field %zd of the request is %llu, at most %llu is possible", index,
        (unsigned long long)*value, (unsigned long long)limit);
    return -1;
  }
  return 0;
}

/* (verb, flags, priority, deadline_ns, namespace, group, depth, argument, body, start, count, parent) */
static int parse_request(PyObject *tuple, Request *request) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != 12) {
    PyErr_SetString(PyExc_TypeError, "a request is a tuple of 12 fields");
    return -1;
  }
  static const uint64_t limits[] = {
      UINT8_MAX, KVTIER_REQUEST_FLAGS_ALL, KVTIER_REQUEST_PRIORITY_LOW, INT64_MAX, UINT32_MAX, UINT16_MAX,
      UINT32_MAX, UINT64_MAX};
  uint64_t fields[8];
  for (Py_ssize_t i = 0; i < 8; i++) {
    if (unsigned_field(tuple, i, limits[i], &fields[i]) < 0) {
      return -1;
    }
  }
  uint64_t start;
  uint64_t count;
  if (unsigned_field(tuple, 9, PY_SSIZE_T_MAX, &start) < 0
      || unsigned_field(tuple, 10, KVTIER_TEXT_BYTES_MAX, &count) < 0) {
    return -1;
  }
  RequestHeader *header = &request->header;
  memset(request, 0, sizeof *request);
  header->verb = (uint8_t)fields[0];
  header->flags = (uint8_t)fields[1];
  header->priority = (uint8_t)fields[2];
  header->deadline_ns = fields[3];
  header->namespace_id = (uint32_t)fields[4];
  header->group = (uint16_t)fields[5];
  header->depth = (uint32_t)fields[6];
  header->argument = fields[7];
  header->count = (uint32_t)count;
  request->kind = body_of(header->verb);
  request->body = PyTuple_GetItem(tuple, 8);
  request->start = (Py_ssize_t)start;
  request->parent = PyTuple_GetItem(tuple, 11);
  size_t body_bytes = 0;
  switch (request->kind) {
    case BODY_NONE:
      header->count = 0;
      break;
    case BODY_TEXT:
    case BODY_IDS: {
      if (!PyBytes_Check(request->body)) {
        PyErr_SetString(PyExc_TypeError, "the body of this request is bytes");
        return -1;
      }
      size_t id_bytes = header->flags & KVTIER_REQUEST_FLAG_CHECKSUMS ? 16 : 8;
      size_t unit = request->kind == BODY_IDS ? id_bytes : 1;
      if ((uint64_t)PyBytes_Size(request->body) != unit * count
          || (request->kind == BODY_IDS && count > KVTIER_KEYS_MAX)) {
        PyErr_Format(invalid_argument, "a body of %zd bytes does not hold %llu items",
            PyBytes_Size(request->body), (unsigned long long)count);
        return -1;
      }
      body_bytes = (unit * count + 7) & ~(size_t)7;
      break;
    }
    case BODY_KEYS: {
      if (!PyList_Check(request->body) && !PyTuple_Check(request->body)) {
        PyErr_SetString(PyExc_TypeError, "keys are a list or a tuple of bytes");
        return -1;
      }
      Py_ssize_t length =
          PyList_Check(request->body) ? PyList_Size(request->body) : PyTuple_Size(request->body);
      if (count == 0 || count > KVTIER_KEYS_MAX || start > (uint64_t)length || count > (uint64_t)length - start) {
        PyErr_Format(invalid_argument, "%llu keys from %llu on, of %zd: expected 1 to %d",
            (unsigned long long)count, (unsigned long long)start, length, KVTIER_KEYS_MAX);
        return -1;
      }
      PyObject *first = item_of(request->body, request->start);
      if (!PyBytes_Check(first)) {
        PyErr_SetString(PyExc_TypeError, "a key is bytes");
        return -1;
      }
      Py_ssize_t key_bytes = PyBytes_Size(first);
      if (key_bytes < 1 || key_bytes > KVTIER_KEY_BYTES_MAX) {
        PyErr_Format(invalid_argument, "a key has %zd bytes, expected 1 to %d", key_bytes, KVTIER_KEY_BYTES_MAX);
        return -1;
      }
      header->key_bytes = (uint8_t)key_bytes;
      request->stride = ((size_t)key_bytes + 7) & ~(size_t)7;
      if (request->parent != Py_None) {
        header->flags |= KVTIER_REQUEST_FLAG_PARENT;
        count++;
      }
      body_bytes = count * request->stride;
      break;
    }
  }
  request->bytes = KVTIER_REQUEST_HEADER_BYTES + body_bytes;
  return 0;
}

static int write_key(uint8_t *at, PyObject *key, const Request *request) {
  const char *data;
  if (key == NULL || key_of(key, request->header.key_bytes, &data) < 0) {
    return -1;
  }
  if (request->stride != request->header.key_bytes) {
    memset(at + request->stride - 8, 0, 8);
  }
  memcpy(at, data, request->header.key_bytes);
  return 0;
}

static int write_body(uint8_t *at, const Request *request) {
  switch (request->kind) {
    case BODY_NONE:
      return 0;
    case BODY_IDS:
    case BODY_TEXT: {
      size_t bytes = (size_t)PyBytes_Size(request->body);
      memset(at + (bytes & ~(size_t)7), 0, ((bytes + 7) & ~(size_t)7) - (bytes & ~(size_t)7));
      memcpy(at, PyBytes_AsString(request->body), bytes);
      return 0;
    }
    case BODY_KEYS:
      if (request->parent != Py_None) {
        if (write_key(at, request->parent, request) < 0) {
          return -1;
        }
        at += request->stride;
      }
      for (uint32_t i = 0; i < request->header.count; i++, at += request->stride) {
        if (write_key(at, item_of(request->body, request->start + i), request) < 0) {
          return -1;
        }
      }
      return 0;
  }
  return 0;
}

/* ---- completions ---- */

static PyObject *status_object(unsigned code) {
  PyObject *status = statuses[code < STATUS_COUNT ? code : KVTIER_STATUS_INTERNAL];
  Py_INCREF(status);
  return status;
}

/* Gives back what an ACQUIRE or RESERVE granted, in silence; `corrupt`: what was read did not match its checksum. 0 when
 * the ring has no room now. */
static int give_back(Session *self, int verb, PyObject *ids, int corrupt) {
  size_t bytes = (size_t)PyBytes_Size(ids);
  uint8_t *at = claim(self, KVTIER_REQUEST_HEADER_BYTES + bytes);
  if (at == NULL) {
    return self->ended;
  }
  RequestHeader header = {
      .verb = verb == KVTIER_VERB_ACQUIRE ? KVTIER_VERB_RELEASE : KVTIER_VERB_ABORT,
      .flags = KVTIER_REQUEST_FLAG_SILENT | (corrupt ? KVTIER_REQUEST_FLAG_CORRUPT : 0),
      .priority = KVTIER_REQUEST_PRIORITY_NORMAL,
      .correlation = ++self->next_correlation,
      .count = (uint32_t)(bytes / 8),
  };
  write_header(at, &header, KVTIER_REQUEST_HEADER_BYTES + bytes);
  memcpy(at + KVTIER_REQUEST_HEADER_BYTES, PyBytes_AsString(ids), bytes);
  publish(self, KVTIER_REQUEST_HEADER_BYTES + bytes, wants_bell(&header));
  return 1;
}

static int give_back_orphans(Session *self) {
  Py_ssize_t count;
  while ((count = PyList_Size(self->orphans)) > 0) {
    PyObject *orphan = PyList_GetItem(self->orphans, count - 1);
    if (orphan == NULL) {
      return -1;
    }
    long verb = PyLong_AsLong(PyTuple_GetItem(orphan, 0));
    if (!give_back(self, (int)verb, PyTuple_GetItem(orphan, 1), PyTuple_GetItem(orphan, 2) == Py_True)) {
      return 0;
    }
    if (PyList_SetSlice(self->orphans, count - 1, count, NULL) < 0) {
      return -1;
    }
  }
  return 0;
}

/* The ids of the blocks that are OK, 8 bytes each. */
static PyObject *granted_ids(const uint8_t *results, size_t count) {
  size_t granted = 0;
  for (size_t i = 0; i < count; i++) {
    granted += get16(results + i * KVTIER_COMPLETION_LONG_RESULT_BYTES) == KVTIER_STATUS_OK;
  }
  PyObject *ids = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(granted * 8));
  if (ids == NULL) {
    return NULL;
  }
  char *at = PyBytes_AsString(ids);
  for (size_t i = 0; i < count; i++) {
    const uint8_t *result = results + i * KVTIER_COMPLETION_LONG_RESULT_BYTES;
    if (get16(result) == KVTIER_STATUS_OK) {
      memcpy(at, result + KVTIER_COMPLETION_BLOCK_ID_OFFSET, 8);
      at += 8;
    }
  }
  return ids;
}

static int keep_orphan(Session *self, int verb, PyObject *body) {
  if (!has_long_results(verb)) {
    return 0;
  }
  PyObject *ids = granted_ids(
      (const uint8_t *)PyBytes_AsString(body), (size_t)PyBytes_Size(body) / KVTIER_COMPLETION_LONG_RESULT_BYTES);
  if (ids == NULL) {
    return -1;
  }
  if (PyBytes_Size(ids) == 0) {
    Py_DECREF(ids);
    return 0;
  }
  PyObject *orphan = Py_BuildValue("iNO", verb, ids, Py_False);
  if (orphan == NULL) {
    return -1;
  }
  int appended = PyList_Append(self->orphans, orphan);
  Py_DECREF(orphan);
  return appended;
}

/* Takes one record, checked, into `arrived`. Returns its length, 0 after ending the session, -1 for a Python error. */
static int64_t take_record(Session *self) {
  const uint8_t *shared = self->completions + (self->head & (self->completion_bytes - 1));
  uint64_t available = self->tail_seen - self->head;
  uint8_t header[KVTIER_COMPLETION_HEADER_BYTES];
  if (available < sizeof header) {
    end_session(self, KVTIER_STATUS_INTERNAL, "%llu bytes in the completion ring are no record",
        (unsigned long long)available);
    return 0;
  }
  memcpy(header, shared, sizeof header);
  uint32_t bytes = get32(header + KVTIER_COMPLETION_RECORD_BYTES_OFFSET);
  int verb = header[KVTIER_COMPLETION_VERB_OFFSET];
  uint32_t count = get32(header + KVTIER_COMPLETION_COUNT_OFFSET);
  uint32_t run = get32(header + KVTIER_COMPLETION_RUN_OFFSET);
  int is_text = header[KVTIER_COMPLETION_FLAGS_OFFSET] & KVTIER_COMPLETION_FLAG_TEXT;
  uint64_t unit = is_text                ? 1
      : has_long_results(verb)           ? KVTIER_COMPLETION_LONG_RESULT_BYTES
                                         : KVTIER_COMPLETION_SHORT_RESULT_BYTES;
  uint64_t body_bytes = count * unit;
  if (bytes < sizeof header || bytes > available || bytes % KVTIER_SESSION_RECORD_ALIGNMENT != 0
      || body_bytes > bytes - sizeof header || (!is_text && run > count)) {
    end_session(self, KVTIER_STATUS_INTERNAL,
        "completion of %u bytes with %u results of %u bytes, run %u, in a ring of %llu bytes", bytes, count,
        (unsigned)unit, run, (unsigned long long)available);
    return 0;
  }
  PyObject *correlation = PyLong_FromUnsignedLongLong(get64(header + KVTIER_COMPLETION_CORRELATION_OFFSET));
  PyObject *body = PyBytes_FromStringAndSize((const char *)shared + sizeof header, (Py_ssize_t)body_bytes);
  int64_t taken = -1;
  if (correlation == NULL || body == NULL) {
    goto done;
  }
  PyObject *expected = PyDict_GetItemWithError(self->expected, correlation);
  if (expected == NULL) {
    /* Not asked for, or answered before: nothing in it can be trusted. */
    taken = PyErr_Occurred() ? -1 : (int64_t)bytes;
    goto done;
  }
  long expected_verb = PyLong_AsLong(expected);
  if (labs(expected_verb) != verb) {
    end_session(self, KVTIER_STATUS_INTERNAL, "completion of verb %d for a request of verb %ld", verb,
        labs(expected_verb));
    taken = 0;
    goto done;
  }
  if (expected_verb < 0) {
    if ((is_text || keep_orphan(self, verb, body) == 0) && PyDict_DelItem(self->expected, correlation) == 0) {
      taken = bytes;
    }
    goto done;
  }
  PyObject *completion = Py_BuildValue("(NIKOOO)", status_object(get16(header + KVTIER_COMPLETION_STATUS_OFFSET)),
      run, (unsigned long long)get64(header + KVTIER_COMPLETION_VALUE_OFFSET), body, is_text ? Py_True : Py_False,
      expected);
  if (completion == NULL) {
    goto done;
  }
  if (PyDict_SetItem(self->arrived, correlation, completion) == 0
      && PyDict_DelItem(self->expected, correlation) == 0) {
    taken = bytes;
  }
  Py_DECREF(completion);
done:
  Py_XDECREF(correlation);
  Py_XDECREF(body);
  return taken;
}

/* Takes every record that is there. */
static int drain(Session *self) {
  if (is_over(self)) {
    return 0;
  }
  uint64_t tail = load64(self->base + KVTIER_SESSION_COMPLETION_TAIL_OFFSET);
  if (tail == self->head) {
    return give_back_orphans(self);
  }
  if (tail < self->tail_seen || tail - self->head > self->completion_bytes
      || tail % KVTIER_SESSION_RECORD_ALIGNMENT != 0) {
    end_session(self, KVTIER_STATUS_INTERNAL, "completion ring tail is %llu, expected a multiple of 8 from %llu to %llu",
        (unsigned long long)tail, (unsigned long long)self->tail_seen,
        (unsigned long long)(self->head + self->completion_bytes));
    return 0;
  }
  self->tail_seen = tail;
  while (self->head != tail) {
    int64_t bytes = take_record(self);
    if (bytes < 0) {
      /* Out of memory: the record stays, and this session is of no use any more. */
      end_session(self, KVTIER_STATUS_INTERNAL, "a completion could not be taken");
      return -1;
    }
    if (bytes == 0) {
      return 0;
    }
    self->head += (uint64_t)bytes;
  }
  store64(self->base + KVTIER_SESSION_COMPLETION_HEAD_OFFSET, self->head);
  return give_back_orphans(self);
}

/* ---- waiting ---- */

static int has_news(Session *self, uint64_t seen) {
  return load64(self->base + KVTIER_SESSION_COMPLETION_TAIL_OFFSET) != seen
      || load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) != 0;
}

/* Without the GIL: waits for completions or the session's end, at most until the deadline and one slice. Returns 1
 * when the daemon is gone. */
static int await_ring(Session *self, uint64_t seen, int64_t deadline_ns) {
  int64_t started_ns = now_ns();
  int64_t spin_until_ns = started_ns + self->spin_ns;
  if (spin_until_ns > deadline_ns) {
    spin_until_ns = deadline_ns;
  }
  int64_t time_ns = started_ns;
  while (!has_news(self, seen)) {
    if (time_ns >= spin_until_ns) {
      break;
    }
    for (int i = 0; i < 8; i++) {
      relax();
    }
    time_ns = now_ns();
  }
  if (!has_news(self, seen) && time_ns < deadline_ns) {
    if (is_hung_up(self->socket)) {
      /* What was answered before the end still counts. */
      return !has_news(self, seen);
    }
    int64_t timeout_ns = deadline_ns - time_ns < SLICE_NS ? deadline_ns - time_ns : SLICE_NS;
    _Atomic uint32_t *waiting = (_Atomic uint32_t *)(self->base + KVTIER_SESSION_CLIENT_WAITING_OFFSET);
    atomic_store(waiting, 1);
    /* Acquire loads may be moved before a store to another word, however strong that store is. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!has_news(self, seen)) {
      futex_wait(waiting, 1, timeout_ns, FUTEX_WAIT);
    }
    atomic_store(waiting, 0);
  }
  return load64(self->base + KVTIER_SESSION_COMPLETION_TAIL_OFFSET) == seen
      && (load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) != 0 || is_hung_up(self->socket));
}

static void call_followers(Session *self) {
  if (self->followers > 0) {
    atomic_fetch_add(&self->turn, 1);
    futex_wake(&self->turn, FUTEX_WAKE_PRIVATE);
  }
}

/* Waits for one slice, as leader or follower, and drains. -1: a Python error. */
static int wait_and_drain(Session *self, int64_t deadline_ns) {
  if (self->leader) {
    uint32_t turn = atomic_load(&self->turn);
    int64_t timeout_ns = deadline_ns - now_ns();
    if (timeout_ns > 0) {
      self->followers++;
      Py_BEGIN_ALLOW_THREADS;
      futex_wait(&self->turn, turn, timeout_ns < SLICE_NS ? timeout_ns : SLICE_NS, FUTEX_WAIT_PRIVATE);
      Py_END_ALLOW_THREADS;
      self->followers--;
    }
  } else {
    int gone;
    uint64_t seen = self->head;
    self->leader = 1;
    Py_BEGIN_ALLOW_THREADS;
    gone = await_ring(self, seen, deadline_ns);
    Py_END_ALLOW_THREADS;
    self->leader = 0;
    if (gone) {
      end_by_daemon(self);
    }
  }
  int drained = drain(self);
  call_followers(self);
  return drained < 0 ? -1 : PyErr_CheckSignals();
}

static PyObject *made_here(unsigned status) {
  PyObject *code = status_object(status);
  return Py_BuildValue("(NIKy#Oi)", code, 0u, 0ULL, "", (Py_ssize_t)0, Py_False, 0);
}

/* The request's correlation id; 0 with the status that says why not in `refusal`; -1 for a Python error. */
static int64_t submit_until(Session *self, PyObject *tuple, int64_t deadline_ns, unsigned *refusal) {
  Request request;
  if (parse_request(tuple, &request) < 0) {
    return -1;
  }
  uint8_t *at;
  for (;;) {
    if (is_over(self)) {
      *refusal = KVTIER_STATUS_UNAVAILABLE;
      return 0;
    }
    at = claim(self, request.bytes);
    if (at != NULL) {
      break;
    }
    if (self->ended) {
      continue;
    }
    int64_t remaining_ns = deadline_ns - now_ns();
    if (remaining_ns <= 0) {
      *refusal = KVTIER_STATUS_BUSY;
      return 0;
    }
    int gone;
    Py_BEGIN_ALLOW_THREADS;
    struct timespec nap = {.tv_nsec = remaining_ns < FULL_RING_NAP_NS ? remaining_ns : FULL_RING_NAP_NS};
    nanosleep(&nap, NULL);
    gone = is_hung_up(self->socket);
    Py_END_ALLOW_THREADS;
    if (drain(self) < 0 || PyErr_CheckSignals() < 0) {
      return -1;
    }
    call_followers(self);
    if (gone) {
      end_by_daemon(self);
    }
  }
  if (write_body(at + KVTIER_REQUEST_HEADER_BYTES, &request) < 0) {
    return -1;
  }
  int64_t correlation = (int64_t)++self->next_correlation;
  request.header.correlation = (uint64_t)correlation;
  write_header(at, &request.header, request.bytes);
  if (!(request.header.flags & KVTIER_REQUEST_FLAG_SILENT)) {
    PyObject *key = PyLong_FromLongLong(correlation);
    PyObject *verb = PyLong_FromLong(request.header.verb);
    int stored = key == NULL || verb == NULL ? -1 : PyDict_SetItem(self->expected, key, verb);
    Py_XDECREF(key);
    Py_XDECREF(verb);
    if (stored < 0) {
      return -1;
    }
  }
  publish(self, request.bytes, wants_bell(&request.header));
  return correlation;
}

/* What arrived for a correlation id, removed: a new reference, or NULL without an error. */
static PyObject *pop_arrived(Session *self, PyObject *correlation) {
  PyObject *completion = PyDict_GetItemWithError(self->arrived, correlation);
  if (completion == NULL) {
    return NULL;
  }
  Py_INCREF(completion);
  if (PyDict_DelItem(self->arrived, correlation) < 0) {
    Py_DECREF(completion);
    return NULL;
  }
  return completion;
}

/* From now on nobody waits for this correlation id. */
static int forget(Session *self, PyObject *correlation) {
  PyObject *completion = pop_arrived(self, correlation);
  if (completion != NULL) {
    int kept = 0;
    if (PyTuple_GetItem(completion, 4) == Py_False) {
      kept = keep_orphan(self, (int)PyLong_AsLong(PyTuple_GetItem(completion, 5)), PyTuple_GetItem(completion, 3));
    }
    Py_DECREF(completion);
    return kept < 0 ? -1 : give_back_orphans(self);
  }
  if (PyErr_Occurred()) {
    return -1;
  }
  PyObject *expected = PyDict_GetItemWithError(self->expected, correlation);
  long verb = expected == NULL ? 0 : PyLong_AsLong(expected);
  if (verb <= 0) {
    return PyErr_Occurred() ? -1 : 0;
  }
  PyObject *forgotten = PyLong_FromLong(-verb);
  int stored = forgotten == NULL ? -1 : PyDict_SetItem(self->expected, correlation, forgotten);
  Py_XDECREF(forgotten);
  return stored;
}

static PyObject *take_until(Session *self, PyObject *correlation, int64_t deadline_ns) {
  int drained = drain(self);
  for (;;) {
    PyObject *completion = drained < 0 ? NULL : pop_arrived(self, correlation);
    if (completion != NULL) {
      return completion;
    }
    if (PyErr_Occurred()) {
      break;
    }
    if (is_over(self)) {
      return forget(self, correlation) < 0 ? NULL : made_here(KVTIER_STATUS_UNAVAILABLE);
    }
    if (now_ns() >= deadline_ns) {
      return forget(self, correlation) < 0 ? NULL : made_here(KVTIER_STATUS_DEADLINE);
    }
    drained = wait_and_drain(self, deadline_ns);
  }
  /* An interrupt: the answer, when it comes, is given back. */
  PyObject *type;
  PyObject *value;
  PyObject *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (forget(self, correlation) < 0) {
    PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
  return NULL;
}

/* ---- Session, for Python ---- */

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

static PyObject *session_call(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  int64_t deadline_ns;
  unsigned refusal;
  if (!has_arguments(count, 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  int64_t correlation = submit_until(self, arguments[0], deadline_ns, &refusal);
  if (correlation <= 0) {
    return correlation < 0 ? NULL : made_here(refusal);
  }
  PyObject *key = PyLong_FromLongLong(correlation);
  PyObject *completion = key == NULL ? NULL : take_until(self, key, deadline_ns);
  Py_XDECREF(key);
  return completion;
}

static PyObject *session_submit(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  int64_t deadline_ns;
  unsigned refusal;
  if (!has_arguments(count, 2) || deadline_of(arguments[1], &deadline_ns) < 0) {
    return NULL;
  }
  int64_t correlation = submit_until((Session *)object, arguments[0], deadline_ns, &refusal);
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

/* give_back(verb, ids, corrupt=False): releases leases of ACQUIRE or aborts reservations of RESERVE, now or when there is
 * room. */
static PyObject *session_give_back(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Session *self = (Session *)object;
  if (!has_arguments(count, count == 3 ? 3 : 2)) {
    return NULL;
  }
  long verb = PyLong_AsLong(arguments[0]);
  int corrupt = count == 3 ? PyObject_IsTrue(arguments[2]) : 0;
  if ((verb == -1 && PyErr_Occurred()) || corrupt < 0) {
    return NULL;
  }
  if (!PyBytes_Check(arguments[1]) || PyBytes_Size(arguments[1]) % 8 != 0
      || PyBytes_Size(arguments[1]) > 8 * KVTIER_KEYS_MAX || !has_long_results((int)verb)
      || (corrupt && verb != KVTIER_VERB_ACQUIRE)) {
    PyErr_SetString(invalid_argument, "expected ACQUIRE or RESERVE, and at most 2048 ids of 8 bytes");
    return NULL;
  }
  if (is_over(self) || PyBytes_Size(arguments[1]) == 0 || give_back(self, (int)verb, arguments[1], corrupt)) {
    Py_RETURN_NONE;
  }
  PyObject *orphan = Py_BuildValue("(iOO)", (int)verb, arguments[1], corrupt ? Py_True : Py_False);
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
  return PyBool_FromLong(holds_leases((Session *)object, end_ns));
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
    {"submit", (PyCFunction)(void (*)(void))session_submit, METH_FASTCALL,
        "Submits a request: its correlation id, or the negative status that says why not."},
    {"take", (PyCFunction)(void (*)(void))session_take, METH_FASTCALL, "Waits for the completion of a correlation id."},
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

static PyType_Spec session_spec = {"kvtier._core.Session", sizeof(Session), 0, Py_TPFLAGS_DEFAULT, session_slots};

/* ---- results ---- */

typedef struct {
  uint16_t status;
  uint8_t tier;
  uint8_t flags;
  uint32_t crc32c;
  uint64_t id;
  uint32_t slab;
  uint32_t length;
  uint64_t offset;
} Result;

static Result result_at(const char *results, Py_ssize_t index) {
  const uint8_t *at = (const uint8_t *)results + index * KVTIER_COMPLETION_LONG_RESULT_BYTES;
  Result result = {
      .status = get16(at + KVTIER_COMPLETION_BLOCK_STATUS_OFFSET),
      .tier = at[KVTIER_COMPLETION_BLOCK_TIER_OFFSET],
      .flags = at[KVTIER_COMPLETION_BLOCK_FLAGS_OFFSET],
      .crc32c = get32(at + KVTIER_COMPLETION_BLOCK_CHECKSUM_OFFSET),
      .id = get64(at + KVTIER_COMPLETION_BLOCK_ID_OFFSET),
      .slab = get32(at + KVTIER_COMPLETION_BLOCK_SLAB_OFFSET),
      .length = get32(at + KVTIER_COMPLETION_BLOCK_LENGTH_OFFSET),
      .offset = get64(at + KVTIER_COMPLETION_BLOCK_OFFSET_OFFSET),
  };
  return result;
}

/* The results of a body, whose length must be a multiple of a result's. */
static int results_of(PyObject *object, Py_ssize_t unit, char **results, Py_ssize_t *count) {
  Py_ssize_t bytes;
  if (PyBytes_AsStringAndSize(object, results, &bytes) < 0) {
    return -1;
  }
  if (bytes % unit != 0) {
    PyErr_Format(invalid_argument, "%zd bytes are no results of %zd bytes", bytes, unit);
    return -1;
  }
  *count = bytes / unit;
  return 0;
}

static PyObject *status_list(PyObject *body, Py_ssize_t unit) {
  char *results;
  Py_ssize_t count;
  if (results_of(body, unit, &results, &count) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    PyList_SetItem(list, i, status_object(get16((const uint8_t *)results + i * unit)));
  }
  return list;
}

static PyObject *core_short_statuses(PyObject *module, PyObject *body) {
  (void)module;
  return status_list(body, KVTIER_COMPLETION_SHORT_RESULT_BYTES);
}

static PyObject *core_long_statuses(PyObject *module, PyObject *body) {
  (void)module;
  return status_list(body, KVTIER_COMPLETION_LONG_RESULT_BYTES);
}

static PyObject *core_short_tiers(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_SHORT_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    unsigned tier = (uint8_t)results[i * KVTIER_COMPLETION_SHORT_RESULT_BYTES + KVTIER_COMPLETION_BLOCK_TIER_OFFSET];
    PyObject *object = tiers[tier < TIER_COUNT ? tier : 0];
    Py_INCREF(object);
    PyList_SetItem(list, i, object);
  }
  return list;
}

static PyObject *core_long_results(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    Result result = result_at(results, i);
    PyObject *tier = tiers[result.tier < TIER_COUNT ? result.tier : 0];
    PyObject *tuple = Py_BuildValue("(NOiIKIIK)", status_object(result.status), tier, (int)result.flags, result.crc32c,
        (unsigned long long)result.id, result.slab, result.length, (unsigned long long)result.offset);
    if (tuple == NULL || PyList_SetItem(list, i, tuple) < 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *core_granted_ids(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  return granted_ids((const uint8_t *)results, (size_t)count);
}

static PyObject *core_granted_slabs(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  PyObject *slabs = PySet_New(NULL);
  int64_t last = -1;
  for (Py_ssize_t i = 0; slabs != NULL && i < count; i++) {
    Result result = result_at(results, i);
    if (result.status == KVTIER_STATUS_OK && (int64_t)result.slab != last) {
      PyObject *index = PyLong_FromUnsignedLong(result.slab);
      if (index == NULL || PySet_Add(slabs, index) < 0) {
        Py_XDECREF(index);
        Py_DECREF(slabs);
        return NULL;
      }
      Py_DECREF(index);
      last = result.slab;
    }
  }
  return slabs;
}

/* ---- copying ---- */

typedef struct {
  uint8_t *destination;
  const uint8_t *source;
  PyObject *slab;
  uint32_t crc32c;
  int verify;
  uint16_t status;
} Copy;

/* The blocks of one completion and the caller's memory for them: one buffer for all, or one for each. */
typedef struct {
  Copy *copies;
  Py_ssize_t count;
  Py_buffer *buffers;
  Py_ssize_t buffer_count;
} Batch;

static void batch_release(Batch *batch) {
  for (Py_ssize_t i = 0; i < batch->buffer_count; i++) {
    PyBuffer_Release(&batch->buffers[i]);
  }
  for (Py_ssize_t i = 0; batch->copies != NULL && i < batch->count; i++) {
    Py_XDECREF(batch->copies[i].slab);
  }
  free(batch->buffers);
  free(batch->copies);
}

static uint8_t *caller_memory(
    Batch *batch, PyObject *memory, Py_ssize_t index, uint64_t block_bytes, int flags) {
  int is_sequence = PyList_Check(memory) || PyTuple_Check(memory);
  if (is_sequence || batch->buffer_count == 0) {
    PyObject *object = is_sequence ? item_of(memory, index) : memory;
    Py_buffer *buffer = &batch->buffers[batch->buffer_count];
    if (object == NULL || PyObject_GetBuffer(object, buffer, flags) < 0) {
      return NULL;
    }
    batch->buffer_count++;
    if (is_sequence) {
      if ((uint64_t)buffer->len != block_bytes) {
        PyErr_Format(invalid_argument, "the buffer of block %zd has %zd bytes, a block has %llu", index, buffer->len,
            (unsigned long long)block_bytes);
        return NULL;
      }
      return buffer->buf;
    }
  }
  Py_buffer *whole = &batch->buffers[0];
  if (((uint64_t)index + 1) * block_bytes > (uint64_t)whole->len) {
    PyErr_Format(invalid_argument, "a buffer of %zd bytes does not reach to the end of block %zd of %llu bytes",
        whole->len, index, (unsigned long long)block_bytes);
    return NULL;
  }
  return (uint8_t *)whole->buf + (uint64_t)index * block_bytes;
}

/* Checks each granted block against its slab and pairs it with the caller's memory. */
static int batch_prepare(Batch *batch, PyObject *slabs, PyObject *body, Py_ssize_t first, PyObject *memory,
    uint64_t block_bytes, int into_slab) {
  char *results;
  memset(batch, 0, sizeof *batch);
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &batch->count) < 0) {
    return -1;
  }
  if (block_bytes == 0 || block_bytes > UINT32_MAX || first < 0) {
    PyErr_SetString(invalid_argument, "a block has 1 byte to 4 GiB");
    return -1;
  }
  batch->copies = calloc((size_t)batch->count + 1, sizeof *batch->copies);
  batch->buffers = calloc((size_t)batch->count + 1, sizeof *batch->buffers);
  if (batch->copies == NULL || batch->buffers == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  int64_t last_index = -1;
  PyObject *last = NULL;
  for (Py_ssize_t i = 0; i < batch->count; i++) {
    Result result = result_at(results, i);
    Copy *copy = &batch->copies[i];
    copy->status = result.status;
    if (result.status != KVTIER_STATUS_OK) {
      continue;
    }
    if ((int64_t)result.slab != last_index) {
      PyObject *index = PyLong_FromUnsignedLong(result.slab);
      last = index == NULL ? NULL : PyDict_GetItemWithError(slabs, index);
      Py_XDECREF(index);
      if (last == NULL) {
        if (PyErr_Occurred()) {
          return -1;
        }
        copy->status = KVTIER_STATUS_STALE; /* the daemon would not let us map it */
        last_index = -1;
        continue;
      }
      if (Py_TYPE(last) != slab_type) {
        PyErr_SetString(PyExc_TypeError, "expected a dict of slabs");
        return -1;
      }
      last_index = result.slab;
    }
    Slab *slab = (Slab *)last;
    if (result.length != block_bytes || result.offset > slab->bytes || slab->bytes - result.offset < result.length
        || (into_slab && !slab->writable)) {
      PyErr_Format(session_error, "block of %u bytes at offset %llu of slab %u of %llu bytes, expected %llu bytes",
          result.length, (unsigned long long)result.offset, result.slab, (unsigned long long)slab->bytes,
          (unsigned long long)block_bytes);
      return -1;
    }
    uint8_t *ours = caller_memory(batch, memory, first + i, block_bytes, into_slab ? PyBUF_SIMPLE : PyBUF_WRITABLE);
    if (ours == NULL) {
      return -1;
    }
    Py_INCREF(last);
    copy->slab = last;
    copy->destination = into_slab ? slab->base + result.offset : ours;
    copy->source = into_slab ? ours : slab->base + result.offset;
    copy->crc32c = result.crc32c;
    copy->verify = result.flags & KVTIER_COMPLETION_BLOCK_FLAG_VERIFY;
  }
  return 0;
}

static PyObject *batch_statuses(const Batch *batch) {
  PyObject *list = PyList_New(batch->count);
  for (Py_ssize_t i = 0; list != NULL && i < batch->count; i++) {
    PyList_SetItem(list, i, status_object(batch->copies[i].status));
  }
  return list;
}

/* gather(session, slabs, body, first, into, block_bytes, lease_end_ns, verify_all) -> statuses */
static PyObject *core_gather(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *session;
  PyObject *slabs;
  PyObject *body;
  PyObject *into;
  Py_ssize_t first;
  unsigned long long block_bytes;
  long long lease_end_ns;
  int verify_all;
  if (!PyArg_ParseTuple(arguments, "O!O!O!nOKLp", session_type, &session, &PyDict_Type, &slabs, &PyBytes_Type, &body,
          &first, &into, &block_bytes, &lease_end_ns, &verify_all)) {
    return NULL;
  }
  Batch batch;
  PyObject *list = NULL;
  if (batch_prepare(&batch, slabs, body, first, into, block_bytes, 0) == 0) {
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < batch.count; i++) {
      Copy *copy = &batch.copies[i];
      if (copy->slab == NULL) {
        continue;
      }
      int matches = 1;
      if (copy->verify || verify_all) {
        matches = kvtier_copy_crc32c(0, copy->destination, copy->source, block_bytes) == copy->crc32c;
      } else {
        kvtier_copy(copy->destination, copy->source, block_bytes);
      }
      if (!holds_leases((Session *)session, lease_end_ns)) {
        copy->status = KVTIER_STATUS_STALE;
      } else if (!matches) {
        copy->status = KVTIER_STATUS_CORRUPT;
      }
    }
    Py_END_ALLOW_THREADS;
    list = batch_statuses(&batch);
  }
  batch_release(&batch);
  return list;
}

/* scatter(slabs, body, first, source, block_bytes) -> (statuses, id and CRC32C of each block that was written) */
static PyObject *core_scatter(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *slabs;
  PyObject *body;
  PyObject *source;
  Py_ssize_t first;
  unsigned long long block_bytes;
  if (!PyArg_ParseTuple(arguments, "O!O!nOK", &PyDict_Type, &slabs, &PyBytes_Type, &body, &first, &source,
          &block_bytes)) {
    return NULL;
  }
  Batch batch;
  PyObject *answer = NULL;
  if (batch_prepare(&batch, slabs, body, first, source, block_bytes, 1) == 0) {
    size_t written = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < batch.count; i++) {
      Copy *copy = &batch.copies[i];
      if (copy->slab != NULL) {
        copy->crc32c = kvtier_copy_crc32c(0, copy->destination, copy->source, block_bytes);
        written++;
      }
    }
    Py_END_ALLOW_THREADS;
    PyObject *ids = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(written * 16));
    if (ids != NULL) {
      char *at = PyBytes_AsString(ids);
      const char *results = PyBytes_AsString(body);
      for (Py_ssize_t i = 0; i < batch.count; i++) {
        if (batch.copies[i].slab != NULL) {
          uint64_t id = result_at(results, i).id;
          uint64_t checksum = batch.copies[i].crc32c;
          memcpy(at, &id, sizeof id);
          memcpy(at + sizeof id, &checksum, sizeof checksum);
          at += sizeof id + sizeof checksum;
        }
      }
      answer = Py_BuildValue("(NN)", batch_statuses(&batch), ids);
    }
  }
  batch_release(&batch);
  return answer;
}

/* ---- functions ---- */

static PyObject *core_monotonic_ns(PyObject *module, PyObject *ignored) {
  (void)module;
  (void)ignored;
  return PyLong_FromLongLong(now_ns());
}

static PyObject *core_crc32c(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer data;
  unsigned int crc = 0;
  if (!PyArg_ParseTuple(arguments, "y*|I", &data, &crc)) {
    return NULL;
  }
  if (data.len < 4096) {
    crc = kvtier_crc32c(crc, data.buf, (size_t)data.len);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    crc = kvtier_crc32c(crc, data.buf, (size_t)data.len);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&data);
  return PyLong_FromUnsignedLong(crc);
}

static PyObject *copy_buffers(PyObject *arguments, int with_crc) {
  Py_buffer to;
  Py_buffer from;
  if (!PyArg_ParseTuple(arguments, "w*y*", &to, &from)) {
    return NULL;
  }
  uint32_t crc = 0;
  PyObject *answer = NULL;
  if (to.len != from.len) {
    PyErr_Format(invalid_argument, "the destination has %zd bytes and the source %zd", to.len, from.len);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    if (with_crc) {
      crc = kvtier_copy_crc32c(0, to.buf, from.buf, (size_t)to.len);
    } else {
      memmove(to.buf, from.buf, (size_t)to.len);
    }
    Py_END_ALLOW_THREADS;
    answer = with_crc ? PyLong_FromUnsignedLong(crc) : PyLong_FromSsize_t(to.len);
  }
  PyBuffer_Release(&to);
  PyBuffer_Release(&from);
  return answer;
}

static PyObject *core_copy(PyObject *module, PyObject *arguments) {
  (void)module;
  return copy_buffers(arguments, 0);
}

static PyObject *core_copy_crc32c(PyObject *module, PyObject *arguments) {
  (void)module;
  return copy_buffers(arguments, 1);
}

static PyObject *core_crc32c_choose(PyObject *module, PyObject *name) {
  (void)module;
  const char *chosen = PyUnicode_AsUTF8AndSize(name, NULL);
  return chosen == NULL ? NULL : PyBool_FromLong(kvtier_crc32c_choose(chosen));
}

static PyMethodDef functions[] = {
    {"monotonic_ns", core_monotonic_ns, METH_NOARGS, "CLOCK_MONOTONIC, in nanoseconds."},
    {"crc32c", core_crc32c, METH_VARARGS, "The CRC32C of a buffer, continued from that of the data before it."},
    {"copy", core_copy, METH_VARARGS, "Copies a buffer into another of the same length, without the GIL."},
    {"copy_crc32c", core_copy_crc32c, METH_VARARGS, "Copies, and returns the CRC32C of what arrived."},
    {"crc32c_choose", core_crc32c_choose, METH_O, "Chooses an implementation of CRC32C by name; False: not here."},
    {"short_statuses", core_short_statuses, METH_O, "The statuses of short results."},
    {"short_tiers", core_short_tiers, METH_O, "The tiers of short results."},
    {"long_statuses", core_long_statuses, METH_O, "The statuses of long results."},
    {"long_results", core_long_results, METH_O,
        "Long results: tuples (status, tier, flags, crc32c, id, slab, length, offset)."},
    {"granted_ids", core_granted_ids, METH_O, "The ids of the long results that are OK, 8 bytes each."},
    {"granted_slabs", core_granted_slabs, METH_O, "The set of slabs that the long results that are OK lie in."},
    {"gather", core_gather, METH_VARARGS, "Copies leased blocks out of slabs; their statuses."},
    {"scatter", core_scatter, METH_VARARGS, "Copies blocks into reserved slots; their statuses and the written ids."},
    {NULL, NULL, 0, NULL},
};

static int load_members(PyObject *protocol, const char *name, PyObject **members, int count) {
  PyObject *type = PyObject_GetAttrString(protocol, name);
  for (int i = 0; type != NULL && i < count; i++) {
    members[i] = PyObject_CallFunction(type, "i", i);
    if (members[i] == NULL) {
      Py_DECREF(type);
      return -1;
    }
  }
  Py_XDECREF(type);
  return type == NULL ? -1 : 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kvtier._core", "The hot path of the client.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
  crc32c_name = kvtier_crc32c_initialise();
  PyObject *errors = PyImport_ImportModule("kvtier._errors");
  if (errors == NULL) {
    return NULL;
  }
  invalid_argument = PyObject_GetAttrString(errors, "InvalidArgument");
  session_error = PyObject_GetAttrString(errors, "SessionError");
  Py_DECREF(errors);
  PyObject *protocol = PyImport_ImportModule("kvtier._protocol");
  if (protocol == NULL || invalid_argument == NULL || session_error == NULL) {
    Py_XDECREF(protocol);
    return NULL;
  }
  int loaded = load_members(protocol, "Status", statuses, STATUS_COUNT) == 0
      && load_members(protocol, "Tier", tiers, TIER_COUNT) == 0;
  Py_DECREF(protocol);
  PyObject *module = loaded ? PyModule_Create(&definition) : NULL;
  if (module == NULL) {
    return NULL;
  }
  session_type = (PyTypeObject *)PyType_FromSpec(&session_spec);
  slab_type = (PyTypeObject *)PyType_FromSpec(&slab_spec);
  if (session_type == NULL || slab_type == NULL
      || PyModule_AddObjectRef(module, "Session", (PyObject *)session_type) < 0
      || PyModule_AddObjectRef(module, "Slab", (PyObject *)slab_type) < 0
      || PyModule_AddStringConstant(module, "CRC32C", crc32c_name) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
