/* The hot path of the client: a session's rings, its slabs, copying and checksums. What its parts share.
 *
 * The GIL is this module's lock: requests are written and completions drained while it is held, both short. It is
 * released for waiting and for copying. Of the threads that wait in one session one, the leader, watches the ring and
 * drains it; the others sleep on a private word until the leader has drained something or has gone.
 *
 * Nothing read from shared memory is trusted: a record is copied out once, and then checked. A bad one ends the
 * session. */
#ifndef KVTIER_CORE_H
#define KVTIER_CORE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "_protocol.h"

#if !(defined(__x86_64__) || defined(__aarch64__)) || !defined(__LP64__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kvtier runs on Linux on x86-64 and on 64-bit Arm, little-endian: build it for one of them"
#endif

/* ---- _module.c: the Python objects that all parts know ---- */

extern PyObject *session_error;
extern PyObject *invalid_argument;
extern PyObject *statuses[KVTIER_STATUS_COUNT];
extern PyObject *tiers[KVTIER_TIER_COUNT];
extern PyTypeObject *session_type;
extern PyTypeObject *slab_type;

/* ---- words, time ---- */

static inline uint64_t load64(const void *at) {
  return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_acquire);
}

static inline uint32_t load32(const void *at) {
  return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire);
}

static inline void store32(void *at, uint32_t value) {
  atomic_store_explicit((_Atomic uint32_t *)at, value, memory_order_release);
}

static inline void store64(void *at, uint64_t value) {
  atomic_store_explicit((_Atomic uint64_t *)at, value, memory_order_release);
}

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

static inline void futex_wait(void *word, uint32_t expected, int64_t timeout_ns, int operation) {
  struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  syscall(SYS_futex, word, operation, expected, &timeout, NULL, 0);
}

static inline void futex_wake(void *word, int operation) { syscall(SYS_futex, word, operation, INT_MAX, NULL, NULL, 0); }

/* ---- _slab.c ---- */

typedef struct {
  PyObject_HEAD
  uint8_t *base;
  uint64_t bytes;
  int writable;
  pid_t owner; /* the process that mapped it */
} Slab;

extern PyType_Spec slab_spec;

/* ---- _session.c ---- */

typedef struct Guard Guard;

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
  unsigned spin_failures; /* in a row; the leader's, as the next */
  unsigned spin_brief;
  _Atomic uint32_t announce_bytes; /* what is copied while the daemon wakes up; 0: nothing was copied yet */
  atomic_int ended; /* changes with the GIL only; read without it too */
  int end_status;
  char end_text[192];
  int writers; /* who write to slots: while there are any, the connection stays */
  int leader;
  int followers;
  _Atomic uint32_t turn; /* changes when followers should look again */
  Guard *guard;          /* NULL: no stream has waited for a word yet */
  PyObject *expected;    /* correlation -> verb; -verb: nobody waits for it any more */
  PyObject *arrived;     /* correlation -> completion */
  PyObject *orphans;     /* [(verb, ids, whether their bytes are corrupt, context)]: to be given back when there is room */
} Session;

extern PyType_Spec session_spec;

void end_session(Session *self, int status, const char *format, ...);
int is_over(Session *self);
int holds_leases(Session *self, int64_t end_ns);
int is_cut_off(Session *self);
void end_by_daemon(Session *self);
int is_hung_up(int socket);
long progress_word(PyObject *number);

/* ---- _guard.c ---- */

PyObject *session_guard(PyObject *object, PyObject *const *arguments, Py_ssize_t count);
int guard_gave_up(const Guard *guard);
int guard_is_overdue(const Guard *guard);
void guard_abandon(Guard *guard);
void guard_drop(Guard *guard);

/* ---- _digits.c ---- */

size_t key_of_digits(PyObject *digits, uint8_t *key);
PyObject *core_keys_of_digits(PyObject *module, PyObject *digits);

/* ---- _request.c ---- */

typedef struct {
  uint16_t verb;
  uint16_t flags;
  uint8_t priority;
  uint8_t key_bytes;
  uint64_t correlation;
  uint64_t deadline_ns;
  uint32_t namespace_id;
  uint16_t group;
  uint32_t count;
  uint32_t depth;
  uint64_t argument;
  uint32_t region;
  uint16_t first_layer;
  uint16_t end_layer;
  uint32_t event;
  uint32_t progress;
  uint32_t shard;
} RequestHeader;

/* Trace id, span id and flags, as Python hands them over. */
enum { CONTEXT_GIVEN_BYTES = 25 };

/* A request as Python hands it over: the body is borrowed. */
typedef struct {
  RequestHeader header;
  Body kind;
  PyObject *body;
  PyObject *parent;
  PyObject *blocks;
  const char *context; /* CONTEXT_GIVEN_BYTES; NULL: none */
  int are_digits;      /* whether the keys of the body are in text */
  Py_ssize_t start;
  size_t stride;
  size_t bytes;
} Request;

static inline int has_long_results(int verb) {
  return verb == KVTIER_VERB_ACQUIRE || verb == KVTIER_VERB_RESERVE;
}

void write_header(uint8_t *at, const RequestHeader *header, size_t bytes);
int wants_bell(const RequestHeader *header);
PyObject *item_of(PyObject *sequence, Py_ssize_t index);
int parse_request(PyObject *tuple, Request *request);
int parse_context(PyObject *context, const char **given);
void write_context(uint8_t *at, const char *given);
/* -1 without a Python error: a key in text is no digits, or has another length than the first. */
int write_body(uint8_t *at, const Request *request);
int lookup_of_digits(PyObject *digits, Request *request);

/* ---- _ring.c ---- */

uint8_t *claim(Session *self, size_t bytes);
void publish(Session *self, size_t bytes, int bell);
void ring_bell(Session *self);
uint32_t this_cpu(void);
int is_index_here(const Session *self);
int give_back(Session *self, int verb, PyObject *ids, int corrupt, PyObject *context);
int give_back_orphans(Session *self);
int keep_orphan(Session *self, int verb, PyObject *body);
int drain(Session *self);

/* ---- _calls.c ---- */

PyObject *made_here(unsigned status);
int64_t submit_until(Session *self, PyObject *tuple, int64_t deadline_ns, PyObject *context, unsigned *refusal);
int64_t submit_request(Session *self, Request *request, int64_t deadline_ns, PyObject *context, unsigned *refusal);
PyObject *take_until(Session *self, PyObject *correlation, int64_t deadline_ns);
int await_arrival(Session *self, PyObject *correlation, int64_t deadline_ns);
int wait_and_drain(Session *self, int64_t deadline_ns);
int forget(Session *self, PyObject *correlation);

/* ---- _results.c ---- */

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

static inline Result result_at(const char *results, Py_ssize_t index) {
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

static inline PyObject *status_object(unsigned code) {
  PyObject *status = statuses[code < KVTIER_STATUS_COUNT ? code : KVTIER_STATUS_INTERNAL];
  Py_INCREF(status);
  return status;
}

int results_of(PyObject *object, Py_ssize_t unit, char **results, Py_ssize_t *count);
PyObject *granted_ids(const uint8_t *results, size_t count);
PyObject *core_short_statuses(PyObject *module, PyObject *body);
PyObject *core_long_statuses(PyObject *module, PyObject *body);
PyObject *core_short_tiers(PyObject *module, PyObject *body);
PyObject *core_long_results(PyObject *module, PyObject *body);
PyObject *core_granted_ids(PyObject *module, PyObject *body);
PyObject *core_granted_slabs(PyObject *module, PyObject *body);

/* ---- _message.c ---- */

PyObject *core_copy_crc32c(PyObject *module, PyObject *arguments);
PyObject *core_joined_crc32c(PyObject *module, PyObject *arguments);

/* ---- _granules.c ---- */

PyObject *core_encoding_choose(PyObject *module, PyObject *name);
PyObject *core_granule_bytes(PyObject *module, PyObject *arguments);
PyObject *core_encode(PyObject *module, PyObject *arguments);
PyObject *core_decode(PyObject *module, PyObject *arguments);

/* ---- _copy.c ---- */

PyObject *core_check_memory(PyObject *module, PyObject *arguments);
PyObject *core_gather(PyObject *module, PyObject *arguments);
PyObject *core_scatter(PyObject *module, PyObject *arguments);

#endif
