/* Requests: from the tuple that Python hands over to the record of the ring. */
#include "_core.h"

#define PUT(type, at, offset, value)           \
  do {                                         \
    type put_value = (type)(value);            \
    memcpy((at) + (offset), &put_value, sizeof put_value); \
  } while (0)

void write_header(uint8_t *at, const RequestHeader *header, size_t bytes) {
  memset(at, 0, KVTIER_REQUEST_HEADER_BYTES);
  PUT(uint32_t, at, KVTIER_REQUEST_RECORD_BYTES_OFFSET, bytes);
  PUT(uint16_t, at, KVTIER_REQUEST_VERB_OFFSET, header->verb);
  PUT(uint16_t, at, KVTIER_REQUEST_FLAGS_OFFSET, header->flags);
  PUT(uint8_t, at, KVTIER_REQUEST_PRIORITY_OFFSET, header->priority);
  PUT(uint8_t, at, KVTIER_REQUEST_KEY_BYTES_OFFSET, header->key_bytes);
  PUT(uint64_t, at, KVTIER_REQUEST_CORRELATION_OFFSET, header->correlation);
  PUT(uint64_t, at, KVTIER_REQUEST_DEADLINE_OFFSET, header->deadline_ns);
  PUT(uint32_t, at, KVTIER_REQUEST_NAMESPACE_OFFSET, header->namespace_id);
  PUT(uint16_t, at, KVTIER_REQUEST_GROUP_OFFSET, header->group);
  PUT(uint32_t, at, KVTIER_REQUEST_COUNT_OFFSET, header->count);
  PUT(uint32_t, at, KVTIER_REQUEST_DEPTH_OFFSET, header->depth);
  PUT(uint64_t, at, KVTIER_REQUEST_ARGUMENT_OFFSET, header->argument);
  PUT(uint32_t, at, KVTIER_REQUEST_REGION_OFFSET, header->region);
  PUT(uint16_t, at, KVTIER_REQUEST_FIRST_LAYER_OFFSET, header->first_layer);
  PUT(uint16_t, at, KVTIER_REQUEST_END_LAYER_OFFSET, header->end_layer);
  PUT(uint32_t, at, KVTIER_REQUEST_EVENT_OFFSET, header->event);
  PUT(uint32_t, at, KVTIER_REQUEST_PROGRESS_OFFSET, header->progress);
  PUT(uint32_t, at, KVTIER_REQUEST_SHARD_OFFSET, header->shard);
}

/* What a request is made in: bytes, or None. */
int parse_context(PyObject *context, const char **given) {
  *given = NULL;
  if (context == NULL || context == Py_None) {
    return 0;
  }
  if (!PyBytes_Check(context) || PyBytes_Size(context) != CONTEXT_GIVEN_BYTES) {
    PyErr_Format(PyExc_TypeError, "a context is %.80R; expected %d bytes, or None", context, CONTEXT_GIVEN_BYTES);
    return -1;
  }
  *given = PyBytes_AsString(context);
  return 0;
}

void write_context(uint8_t *at, const char *given) {
  memset(at, 0, KVTIER_REQUEST_CONTEXT_BYTES);
  memcpy(at + KVTIER_REQUEST_CONTEXT_TRACE_OFFSET, given, 16);
  memcpy(at + KVTIER_REQUEST_CONTEXT_SPAN_OFFSET, given + 16, 8);
  PUT(uint64_t, at, KVTIER_REQUEST_CONTEXT_WRITTEN_OFFSET, now_ns());
  PUT(uint8_t, at, KVTIER_REQUEST_CONTEXT_FLAGS_OFFSET, given[24]);
}

/* Nobody waits for a silent RELEASE: a daemon that sleeps takes it when it next looks, within milliseconds. Damage is
 * told at once. */
int wants_bell(const RequestHeader *header) {
  return header->verb != KVTIER_VERB_RELEASE || !(header->flags & KVTIER_REQUEST_FLAG_SILENT)
      || (header->flags & KVTIER_REQUEST_FLAG_CORRUPT);
}

PyObject *item_of(PyObject *sequence, Py_ssize_t index) {
  return PyList_Check(sequence) ? PyList_GetItem(sequence, index) : PyTuple_GetItem(sequence, index);
}

static void refuse_key(PyObject *key) {
  PyErr_Format(PyExc_TypeError, "a key is %.80R; expected bytes, 1 to %d of them", key, KVTIER_KEY_BYTES_MAX);
}

static int key_of(PyObject *key, size_t bytes, const char **data) {
  char *at;
  Py_ssize_t length;
  if (!PyBytes_Check(key)) {
    refuse_key(key);
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

static int unsigned_field(PyObject *tuple, Py_ssize_t index, const char *name, uint64_t limit, uint64_t *value) {
  PyObject *item = PyTuple_GetItem(tuple, index);
  if (item == NULL) {
    return -1;
  }
  *value = PyLong_AsUnsignedLongLong(item);
  if (*value == (uint64_t)-1 && PyErr_Occurred()) {
    int is_number = PyErr_ExceptionMatches(PyExc_OverflowError);
    PyErr_Clear();
    PyErr_Format(is_number ? invalid_argument : PyExc_TypeError, "%s is %.80R; expected a whole number from 0 to %llu",
        name, item, (unsigned long long)limit);
    return -1;
  }
  if (*value > limit) {
    PyErr_Format(invalid_argument, "%s is %llu; expected a whole number from 0 to %llu", name,
        (unsigned long long)*value, (unsigned long long)limit);
    return -1;
  }
  return 0;
}

/* (region, first layer, end of layers, event, progress word, blocks: 4 bytes each) */
static int parse_device(PyObject *tuple, uint64_t count, Request *request) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != 6 || !PyBytes_Check(PyTuple_GetItem(tuple, 5))) {
    PyErr_SetString(PyExc_TypeError, "the region of a request is a tuple of 5 numbers and bytes");
    return -1;
  }
  static const uint64_t limits[] = {UINT32_MAX, UINT16_MAX, UINT16_MAX, UINT32_MAX, KVTIER_SESSION_PROGRESS_WORDS};
  static const char *const names[] = {"the region", "the first layer", "the end of the layers", "the event",
      "the progress word"};
  uint64_t fields[5];
  for (Py_ssize_t i = 0; i < 5; i++) {
    if (unsigned_field(tuple, i, names[i], limits[i], &fields[i]) < 0) {
      return -1;
    }
  }
  request->blocks = PyTuple_GetItem(tuple, 5);
  if ((uint64_t)PyBytes_Size(request->blocks) != 4 * count) {
    PyErr_Format(invalid_argument, "%zd bytes do not hold the blocks of %llu keys", PyBytes_Size(request->blocks),
        (unsigned long long)count);
    return -1;
  }
  request->header.region = (uint32_t)fields[0];
  request->header.first_layer = (uint16_t)fields[1];
  request->header.end_layer = (uint16_t)fields[2];
  request->header.event = (uint32_t)fields[3];
  request->header.progress = (uint32_t)fields[4];
  return 0;
}

/* (verb, flags, priority, deadline_ns, namespace, group, depth, argument, body, start, count, parent); for blocks of a
 * region one more, and for a shard of blocks the number of its region. */
int parse_request(PyObject *tuple, Request *request) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < 12 || PyTuple_Size(tuple) > 13) {
    PyErr_SetString(PyExc_TypeError, "a request is a tuple of 12 or 13 fields");
    return -1;
  }
  static const uint64_t limits[] = {
      UINT16_MAX, KVTIER_REQUEST_FLAGS_ALL, KVTIER_REQUEST_PRIORITY_LOW, INT64_MAX, UINT32_MAX, UINT16_MAX,
      UINT32_MAX, UINT64_MAX};
  static const char *const names[] = {
      "verb", "flags", "priority", "deadline_ns", "the namespace", "group", "depth", "the argument"};
  uint64_t fields[8];
  for (Py_ssize_t i = 0; i < 8; i++) {
    if (unsigned_field(tuple, i, names[i], limits[i], &fields[i]) < 0) {
      return -1;
    }
  }
  if (fields[1] & KVTIER_REQUEST_FLAG_CONTEXT) {
    PyErr_Format(invalid_argument, "flags is %llu; the flag of a trace context comes with the context",
        (unsigned long long)fields[1]);
    return -1;
  }
  uint64_t start;
  uint64_t count;
  if (unsigned_field(tuple, 9, "the first key", PY_SSIZE_T_MAX, &start) < 0
      || unsigned_field(tuple, 10, "the count",
             fields[0] == KVTIER_VERB_REGISTER_REGION ? KVTIER_REGION_TEXT_BYTES_MAX : KVTIER_TEXT_BYTES_MAX, &count)
          < 0) {
    return -1;
  }
  RequestHeader *header = &request->header;
  memset(request, 0, sizeof *request);
  header->verb = (uint16_t)fields[0];
  header->flags = (uint16_t)fields[1];
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
    case BODY_KEYS:
    case BODY_KEYS_AND_BLOCKS: {
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
        refuse_key(first);
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
      if (request->kind == BODY_KEYS && PyTuple_Size(tuple) == 13) {
        uint64_t shard;
        if (unsigned_field(tuple, 12, "the shard", UINT32_MAX, &shard) < 0) {
          return -1;
        }
        header->shard = (uint32_t)shard;
      }
      if (request->kind == BODY_KEYS_AND_BLOCKS) {
        if (PyTuple_Size(tuple) != 13) {
          PyErr_SetString(PyExc_TypeError, "this request names a region");
          return -1;
        }
        if (parse_device(PyTuple_GetItem(tuple, 12), header->count, request) < 0) {
          return -1;
        }
        body_bytes += ((size_t)PyBytes_Size(request->blocks) + 7) & ~(size_t)7;
      }
      break;
    }
  }
  request->bytes = KVTIER_REQUEST_HEADER_BYTES + body_bytes;
  return 0;
}

/* LOOKUP of keys in text. 0: there is none, there are too many for a request, or the first is no digits. Writing the others shows whether
 * they are digits. */
int lookup_of_digits(PyObject *digits, Request *request) {
  if (!PyList_Check(digits) && !PyTuple_Check(digits)) {
    return 0;
  }
  Py_ssize_t count = PyList_Check(digits) ? PyList_Size(digits) : PyTuple_Size(digits);
  uint8_t first[KVTIER_KEY_BYTES_MAX];
  size_t key_bytes = count < 1 || count > KVTIER_KEYS_MAX ? 0 : key_of_digits(item_of(digits, 0), first);
  if (key_bytes == 0) {
    return 0;
  }
  memset(request, 0, sizeof *request);
  request->header.verb = KVTIER_VERB_LOOKUP;
  request->header.priority = KVTIER_REQUEST_PRIORITY_NORMAL;
  request->header.key_bytes = (uint8_t)key_bytes;
  request->header.count = (uint32_t)count;
  request->kind = BODY_KEYS;
  request->body = digits;
  request->parent = Py_None;
  request->are_digits = 1;
  request->stride = (key_bytes + 7) & ~(size_t)7;
  request->bytes = KVTIER_REQUEST_HEADER_BYTES + (size_t)count * request->stride;
  return 1;
}

static int write_digits(uint8_t *at, PyObject *digits, const Request *request) {
  uint8_t key[KVTIER_KEY_BYTES_MAX] = {0};
  if (digits == NULL || key_of_digits(digits, key) != request->header.key_bytes) {
    return -1;
  }
  memcpy(at, key, request->stride);
  return 0;
}

static int write_key(uint8_t *at, PyObject *key, const Request *request) {
  if (request->are_digits) {
    return write_digits(at, key, request);
  }
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

int write_body(uint8_t *at, const Request *request) {
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
    case BODY_KEYS_AND_BLOCKS:
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
      if (request->kind == BODY_KEYS_AND_BLOCKS) {
        size_t bytes = (size_t)PyBytes_Size(request->blocks);
        memset(at + (bytes & ~(size_t)7), 0, ((bytes + 7) & ~(size_t)7) - (bytes & ~(size_t)7));
        memcpy(at, PyBytes_AsString(request->blocks), bytes);
      }
      return 0;
  }
  return 0;
}
