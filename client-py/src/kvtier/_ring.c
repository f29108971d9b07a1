/* The two rings: records out, completions in, and what is given back in silence. All of it with the GIL. */
#include "_core.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* A span of the request ring, or NULL when there is no room or the session ended. */
uint8_t *claim(Session *self, size_t bytes) {
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

/* Wakes the daemon if it sleeps; needs no GIL. */
void ring_bell(Session *self) {
  atomic_thread_fence(memory_order_seq_cst);
  if (load32(self->daemon + KVTIER_DAEMON_INDEX_WAITING_OFFSET) == 1) {
    const uint64_t one = 1;
    ssize_t ignored = write(self->doorbell, &one, sizeof one);
    (void)ignored; /* a full counter rings all the same */
  }
}

/* The processor of the calling thread, as the protocol's words say it. */
uint32_t this_cpu(void) {
  return (uint32_t)(sched_getcpu() + 1);
}

/* Whether the index was last on the processor of the calling thread: it can't run there until this thread sleeps. */
int is_index_here(const Session *self) {
  uint32_t cpu = load32(self->daemon + KVTIER_DAEMON_INDEX_CPU_OFFSET);
  return cpu != 0 && cpu == this_cpu();
}

void publish(Session *self, size_t bytes, int bell) {
  self->tail += bytes;
  store64(self->base + KVTIER_SESSION_REQUEST_TAIL_OFFSET, self->tail);
  if (bell) {
    ring_bell(self);
  }
}

/* Gives back what an ACQUIRE or RESERVE granted, in silence; `corrupt`: what was read did not match its checksum. 0 when
 * the ring has no room now. */
int give_back(Session *self, int verb, PyObject *ids, int corrupt, PyObject *context) {
  const char *given;
  if (parse_context(context, &given) < 0) {
    PyErr_Clear(); /* it was looked at when it was handed over */
  }
  size_t id_bytes = (size_t)PyBytes_Size(ids);
  size_t bytes = KVTIER_REQUEST_HEADER_BYTES + id_bytes + (given == NULL ? 0 : KVTIER_REQUEST_CONTEXT_BYTES);
  uint8_t *at = claim(self, bytes);
  if (at == NULL) {
    return self->ended;
  }
  RequestHeader header = {
      .verb = verb == KVTIER_VERB_ACQUIRE ? KVTIER_VERB_RELEASE : KVTIER_VERB_ABORT,
      .flags = KVTIER_REQUEST_FLAG_SILENT | (corrupt ? KVTIER_REQUEST_FLAG_CORRUPT : 0)
          | (given == NULL ? 0 : KVTIER_REQUEST_FLAG_CONTEXT),
      .priority = KVTIER_REQUEST_PRIORITY_NORMAL,
      .correlation = ++self->next_correlation,
      .count = (uint32_t)(id_bytes / 8),
  };
  write_header(at, &header, bytes);
  memcpy(at + KVTIER_REQUEST_HEADER_BYTES, PyBytes_AsString(ids), id_bytes);
  if (given != NULL) {
    write_context(at + KVTIER_REQUEST_HEADER_BYTES + id_bytes, given);
  }
  publish(self, bytes, wants_bell(&header));
  return 1;
}

int give_back_orphans(Session *self) {
  Py_ssize_t count;
  while ((count = PyList_Size(self->orphans)) > 0) {
    PyObject *orphan = PyList_GetItem(self->orphans, count - 1);
    if (orphan == NULL) {
      return -1;
    }
    long verb = PyLong_AsLong(PyTuple_GetItem(orphan, 0));
    if (!give_back(self, (int)verb, PyTuple_GetItem(orphan, 1), PyTuple_GetItem(orphan, 2) == Py_True,
            PyTuple_GetItem(orphan, 3))) {
      return 0;
    }
    if (PyList_SetSlice(self->orphans, count - 1, count, NULL) < 0) {
      return -1;
    }
  }
  return 0;
}

int keep_orphan(Session *self, int verb, PyObject *body) {
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
  PyObject *orphan = Py_BuildValue("iNOO", verb, ids, Py_False, Py_None);
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
  int verb = get16(header + KVTIER_COMPLETION_VERB_OFFSET);
  uint32_t count = get32(header + KVTIER_COMPLETION_COUNT_OFFSET);
  uint32_t run = get32(header + KVTIER_COMPLETION_RUN_OFFSET);
  int flags = get16(header + KVTIER_COMPLETION_FLAGS_OFFSET);
  int is_text = flags & KVTIER_COMPLETION_FLAG_TEXT;
  uint64_t unit = is_text                ? 1
      : has_long_results(verb)           ? KVTIER_COMPLETION_LONG_RESULT_BYTES
                                         : KVTIER_COMPLETION_SHORT_RESULT_BYTES;
  uint64_t body_bytes = count * unit;
  /* Whose prefix is the longest stands behind the results, and is given to Python with them. */
  uint64_t peers_bytes = flags & KVTIER_COMPLETION_FLAG_PEERS ? KVTIER_COMPLETION_PEERS_BYTES : 0;
  uint64_t peers_at = (body_bytes + 7) & ~(uint64_t)7;
  if (bytes < sizeof header || bytes > available || bytes % KVTIER_SESSION_RECORD_ALIGNMENT != 0
      || body_bytes > bytes - sizeof header || (!is_text && run > count)
      || (peers_bytes != 0 && (is_text || peers_at + peers_bytes > bytes - sizeof header))) {
    end_session(self, KVTIER_STATUS_INTERNAL,
        "completion of %u bytes with %u results of %u bytes, run %u, in a ring of %llu bytes", bytes, count,
        (unsigned)unit, run, (unsigned long long)available);
    return 0;
  }
  PyObject *correlation = PyLong_FromUnsignedLongLong(get64(header + KVTIER_COMPLETION_CORRELATION_OFFSET));
  PyObject *body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(body_bytes + peers_bytes));
  int64_t taken = -1;
  if (correlation == NULL || body == NULL) {
    goto done;
  }
  char *copied = PyBytes_AsString(body);
  memcpy(copied, shared + sizeof header, body_bytes);
  memcpy(copied + body_bytes, shared + sizeof header + peers_at, peers_bytes);
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
int drain(Session *self) {
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
  /* Until 3.12 a collection runs inside of what allocates, and in it anybody's finalizers, which may come here again, or
   * let another thread do so, while a record is half taken. */
  int collects = PyGC_Disable();
  int64_t bytes = 1;
  while (self->head != tail && bytes > 0) {
    bytes = take_record(self);
    self->head += bytes > 0 ? (uint64_t)bytes : 0;
  }
  if (collects) {
    PyGC_Enable();
  }
  if (bytes < 0) {
    /* Out of memory: the record stays, and this session is of no use any more. */
    end_session(self, KVTIER_STATUS_INTERNAL, "a completion could not be taken");
    return -1;
  }
  if (bytes == 0) {
    return 0;
  }
  store64(self->base + KVTIER_SESSION_COMPLETION_HEAD_OFFSET, self->head);
  return give_back_orphans(self);
}
