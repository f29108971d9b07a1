/* Calls: submitting, waiting for a completion as leader or follower, and letting go of one. */
#include "_core.h"

/* How late the end of a daemon that was killed is noticed. */
#define SLICE_NS 40000000
/* A full ring has no wake-up of its own. */
#define FULL_RING_NAP_NS 50000

/* After so many spins in vain only every sixteenth is a full one: a tier is slow, or the daemon waits for the very core
 * that is spun on. */
enum { SPIN_FAILURES_MAX = 3, SPIN_TRIAL_EVERY = 16, SPIN_BRIEFER = 8 };

static int has_news(Session *self, uint64_t seen) {
  return load64(self->base + KVTIER_SESSION_COMPLETION_TAIL_OFFSET) != seen
      || load32(self->base + KVTIER_SESSION_END_REASON_OFFSET) != 0;
}

/* Without the GIL: waits for completions or the session's end, at most until the deadline and one slice. Returns 1
 * when the daemon is gone. */
static int await_ring(Session *self, uint64_t seen, int64_t deadline_ns) {
  int64_t started_ns = now_ns();
  int is_full = self->spin_failures < SPIN_FAILURES_MAX || ++self->spin_brief % SPIN_TRIAL_EVERY == 0;
  int64_t spin_ns = is_full ? self->spin_ns : self->spin_ns / SPIN_BRIEFER;
  if (is_index_here(self)) {
    /* The index can't answer until this thread sleeps. What came of such a wait says nothing about spinning elsewhere. */
    is_full = 0;
    spin_ns = 0;
  }
  int64_t spin_until_ns = started_ns + spin_ns;
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
  if (has_news(self, seen)) {
    self->spin_failures = 0;
  } else if (is_full && self->spin_failures < SPIN_FAILURES_MAX) {
    self->spin_failures++;
  }
  if (!has_news(self, seen) && time_ns < deadline_ns) {
    if (is_hung_up(self->socket)) {
      /* What was answered before the end still counts. */
      return !has_news(self, seen);
    }
    int64_t timeout_ns = deadline_ns - time_ns < SLICE_NS ? deadline_ns - time_ns : SLICE_NS;
    _Atomic uint32_t *waiting = (_Atomic uint32_t *)(self->base + KVTIER_SESSION_CLIENT_WAITING_OFFSET);
    store32(self->base + KVTIER_SESSION_CLIENT_CPU_OFFSET, this_cpu());
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
int wait_and_drain(Session *self, int64_t deadline_ns) {
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

PyObject *made_here(unsigned status) {
  PyObject *code = status_object(status);
  return Py_BuildValue("(NIKy#Oi)", code, 0u, 0ULL, "", (Py_ssize_t)0, Py_False, 0);
}

/* The request's correlation id; 0 with the status that says why not in `refusal`; -1 for a Python error. */
int64_t submit_until(Session *self, PyObject *tuple, int64_t deadline_ns, PyObject *context, unsigned *refusal) {
  Request request;
  return parse_request(tuple, &request) < 0 ? -1 : submit_request(self, &request, deadline_ns, context, refusal);
}

/* As `submit_until`, of a request that was parsed. */
int64_t submit_request(Session *self, Request *request, int64_t deadline_ns, PyObject *context, unsigned *refusal) {
  if (parse_context(context, &request->context) < 0) {
    return -1;
  }
  if (request->context != NULL) {
    request->header.flags |= KVTIER_REQUEST_FLAG_CONTEXT;
    request->bytes += KVTIER_REQUEST_CONTEXT_BYTES;
  }
  uint8_t *at;
  for (;;) {
    if (is_over(self)) {
      *refusal = KVTIER_STATUS_UNAVAILABLE;
      return 0;
    }
    at = claim(self, request->bytes);
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
  if (write_body(at + KVTIER_REQUEST_HEADER_BYTES, request) < 0) {
    return -1;
  }
  if (request->context != NULL) {
    write_context(at + request->bytes - KVTIER_REQUEST_CONTEXT_BYTES, request->context);
  }
  int64_t correlation = (int64_t)++self->next_correlation;
  request->header.correlation = (uint64_t)correlation;
  write_header(at, &request->header, request->bytes);
  if (!(request->header.flags & KVTIER_REQUEST_FLAG_SILENT)) {
    PyObject *key = PyLong_FromLongLong(correlation);
    PyObject *verb = PyLong_FromLong(request->header.verb);
    int stored = key == NULL || verb == NULL ? -1 : PyDict_SetItem(self->expected, key, verb);
    Py_XDECREF(key);
    Py_XDECREF(verb);
    if (stored < 0) {
      return -1;
    }
  }
  publish(self, request->bytes, wants_bell(&request->header));
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

/* Has the daemon give up what nobody waits for any more; where it has granted something meanwhile, it takes that back at once,
 * also when this client never looks for answers again. In a full ring, what is granted waits for the next drain. */
static void cancel(Session *self, uint64_t correlation) {
  uint8_t *at = is_over(self) ? NULL : claim(self, KVTIER_REQUEST_HEADER_BYTES);
  if (at == NULL) {
    return;
  }
  RequestHeader header = {
      .verb = KVTIER_VERB_CANCEL,
      .flags = KVTIER_REQUEST_FLAG_SILENT,
      .priority = KVTIER_REQUEST_PRIORITY_NORMAL,
      .correlation = ++self->next_correlation,
      .argument = correlation,
  };
  write_header(at, &header, KVTIER_REQUEST_HEADER_BYTES);
  publish(self, KVTIER_REQUEST_HEADER_BYTES, wants_bell(&header));
}

/* From now on nobody waits for this correlation id. */
int forget(Session *self, PyObject *correlation) {
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
  if (stored == 0 && has_long_results((int)verb)) {
    cancel(self, (uint64_t)PyLong_AsLongLong(correlation));
  }
  return stored;
}

/* What arrives by the deadline. UNAVAILABLE at once where nothing will: it was taken already. */
PyObject *take_until(Session *self, PyObject *correlation, int64_t deadline_ns) {
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
    int expected = PyDict_Contains(self->expected, correlation);
    if (expected < 0) {
      break;
    }
    if (!expected) {
      return made_here(KVTIER_STATUS_UNAVAILABLE);
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

/* 1: there is an answer to take, or will be none, as after another thread has taken it; 0: not by the deadline; -1: a Python
 * error. Lets go of nothing. */
int await_arrival(Session *self, PyObject *correlation, int64_t deadline_ns) {
  int drained = drain(self);
  for (;;) {
    int arrived = drained < 0 ? -1 : PyDict_Contains(self->arrived, correlation);
    if (arrived != 0) {
      return arrived;
    }
    if (is_over(self)) {
      return 1;
    }
    int expected = PyDict_Contains(self->expected, correlation);
    if (expected <= 0) {
      return expected < 0 ? -1 : 1;
    }
    if (now_ns() >= deadline_ns) {
      return 0;
    }
    drained = wait_and_drain(self, deadline_ns);
  }
}
