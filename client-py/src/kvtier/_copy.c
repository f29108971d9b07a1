/* Gather and scatter: copies between slabs and the caller's memory, without the GIL. */
#include "_core.h"

#include <stdlib.h>

#include "_crc32c.h"
#include "_encoding.h"
#include "_tensors.h"

typedef struct {
  uint8_t *destination;
  const uint8_t *source;
  PyObject *slab;
  uint32_t crc32c;
  int verify;
  int is_encoded; /* in the slab */
  uint16_t status;
} Copy;

/* How blocks of a namespace are encoded. */
typedef struct {
  EncodingKind kind; /* ENCODING_NONE: they are not */
  size_t elements;   /* of a granule */
  size_t granules;
  uint64_t block_bytes; /* of an encoded block */
} Encoding;

/* The blocks of one completion and the caller's memory for them: one buffer for all, one for each, or tensors. */
typedef struct {
  Copy *copies;
  Py_ssize_t count;
  Py_ssize_t first;
  const Tensors *tensors;
  Encoding encoding;
  uint8_t *raw; /* a block on its way between tensors and an encoded slot */
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
  free(batch->raw);
}

/* The buffer protocol's own words for read-only memory name neither the block nor what to give instead. */
static void explain_read_only(PyObject *object, Py_ssize_t index) {
  Py_buffer readable;
  PyErr_Clear();
  if (PyObject_GetBuffer(object, &readable, PyBUF_SIMPLE) == 0) {
    PyBuffer_Release(&readable);
    PyErr_Format(PyExc_BufferError,
        "the buffer of block %zd is read-only; expected writable memory, such as a bytearray", index);
  }
}

static uint8_t *caller_memory(
    Batch *batch, PyObject *memory, Py_ssize_t index, uint64_t block_bytes, int flags) {
  int is_sequence = PyList_Check(memory) || PyTuple_Check(memory);
  if (is_sequence || batch->buffer_count == 0) {
    PyObject *object = is_sequence ? item_of(memory, index) : memory;
    Py_buffer *buffer = &batch->buffers[batch->buffer_count];
    if (object == NULL) {
      return NULL;
    }
    if (PyObject_GetBuffer(object, buffer, flags) < 0) {
      if (flags == PyBUF_WRITABLE && PyErr_ExceptionMatches(PyExc_BufferError)) {
        explain_read_only(object, index);
      }
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

static int check_tensors(const Batch *batch, uint64_t block_bytes, int into_slab) {
  const Tensors *tensors = batch->tensors;
  if (tensors->block_bytes != block_bytes || batch->first + batch->count > tensors->count) {
    PyErr_Format(invalid_argument, "%zd blocks of %llu bytes in tensors, expected %zd of %llu", tensors->count,
        (unsigned long long)tensors->block_bytes, batch->first + batch->count, (unsigned long long)block_bytes);
    return -1;
  }
  if (into_slab && !tensors->is_whole && !tensors->is_shard) {
    PyErr_SetString(invalid_argument, "a part of the tensors: a block is put whole");
    return -1;
  }
  return 0;
}

static int check_buffer(PyObject *object, Py_ssize_t index, int is_sequence, Py_ssize_t count, uint64_t block_bytes,
    int is_written) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) < 0) {
    return -1;
  }
  Py_ssize_t bytes = buffer.len;
  if (is_written && buffer.readonly) {
    PyBuffer_Release(&buffer);
    if (is_sequence) {
      PyErr_Format(invalid_argument,
          "the buffer of block %zd is read-only; expected writable memory, such as a bytearray", index);
    } else {
      PyErr_SetString(
          invalid_argument, "the buffer of all blocks is read-only; expected writable memory, such as a bytearray");
    }
    return -1;
  }
  PyBuffer_Release(&buffer);
  if (is_sequence && (uint64_t)bytes != block_bytes) {
    PyErr_Format(invalid_argument, "the buffer of block %zd has %zd bytes, a block has %llu", index, bytes,
        (unsigned long long)block_bytes);
    return -1;
  }
  if (!is_sequence && (uint64_t)bytes < (uint64_t)count * block_bytes) {
    PyErr_Format(invalid_argument, "a buffer of %zd bytes for %zd blocks of %llu bytes each", bytes, count,
        (unsigned long long)block_bytes);
    return -1;
  }
  return 0;
}

/* check_memory(memory, blocks, block_bytes, is_written): the place of the first thing in a list or tuple that is no buffer;
 * -1: there is none. Another object, unless it is tensors, is its own first. Raises where a buffer has not the size that it
 * needs, or must be written and can't be, also for a block that would not be copied. */
PyObject *core_check_memory(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *memory;
  Py_ssize_t blocks;
  unsigned long long block_bytes;
  int is_written;
  if (!PyArg_ParseTuple(arguments, "OnKp", &memory, &blocks, &block_bytes, &is_written)) {
    return NULL;
  }
  int is_sequence = PyList_Check(memory) || PyTuple_Check(memory);
  Py_ssize_t count = !is_sequence ? 1 : PyList_Check(memory) ? PyList_Size(memory) : PyTuple_Size(memory);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *object = is_sequence ? item_of(memory, i) : memory;
    if (object == NULL) {
      return NULL;
    }
    if (PyObject_CheckBuffer(object)) {
      if (check_buffer(object, i, is_sequence, blocks, block_bytes, is_written) < 0) {
        return NULL;
      }
    } else if (is_sequence || Py_TYPE(object) != tensors_type) {
      return PyLong_FromSsize_t(i);
    }
  }
  return PyLong_FromSsize_t(-1);
}

/* kind: its name; empty: blocks are not encoded */
static int encoding_prepare(Encoding *encoding, uint64_t block_bytes, const char *kind, Py_ssize_t elements) {
  if (kind[0] == 0) {
    return 0;
  }
  encoding->kind = kvtier_encoding_kind(kind);
  size_t bytes = elements > 0 ? kvtier_granule_bytes(encoding->kind, (size_t)elements) : 0;
  if (bytes == 0 || block_bytes % (2 * (uint64_t)elements) != 0) {
    PyErr_Format(invalid_argument, "no block of %llu bytes has granules of %zd elements in the encoding '%s'",
        (unsigned long long)block_bytes, elements, kind);
    return -1;
  }
  encoding->elements = (size_t)elements;
  encoding->granules = (size_t)(block_bytes / (2 * (uint64_t)elements));
  encoding->block_bytes = encoding->granules * bytes;
  return 0;
}

/* Checks each granted block against its slab and pairs it with the caller's memory. */
static int batch_prepare(Batch *batch, PyObject *slabs, PyObject *body, Py_ssize_t first, PyObject *memory,
    uint64_t block_bytes, const char *kind, Py_ssize_t elements, int into_slab) {
  char *results;
  memset(batch, 0, sizeof *batch);
  if (encoding_prepare(&batch->encoding, block_bytes, kind, elements) < 0) {
    return -1;
  }
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &batch->count) < 0) {
    return -1;
  }
  if (block_bytes == 0 || block_bytes > UINT32_MAX || first < 0) {
    PyErr_SetString(invalid_argument, "a block has 1 byte to 4 GiB");
    return -1;
  }
  batch->first = first;
  if (Py_TYPE(memory) == tensors_type) {
    batch->tensors = (const Tensors *)memory;
    if (check_tensors(batch, block_bytes, into_slab) < 0) {
      return -1;
    }
  }
  batch->copies = calloc((size_t)batch->count + 1, sizeof *batch->copies);
  batch->buffers = calloc((size_t)batch->count + 1, sizeof *batch->buffers);
  int has_raw = batch->tensors != NULL && batch->encoding.kind != ENCODING_NONE;
  batch->raw = has_raw ? malloc((size_t)block_bytes) : NULL;
  if (batch->copies == NULL || batch->buffers == NULL || (has_raw && batch->raw == NULL)) {
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
    copy->is_encoded = (result.flags & KVTIER_COMPLETION_BLOCK_FLAG_ENCODED) != 0;
    uint64_t stored_bytes = copy->is_encoded ? batch->encoding.block_bytes : block_bytes;
    if (result.length != stored_bytes || result.offset > slab->bytes || slab->bytes - result.offset < result.length
        || (into_slab && !slab->writable)) {
      PyErr_Format(session_error, "block of %u bytes at offset %llu of slab %u of %llu bytes, expected %llu bytes",
          result.length, (unsigned long long)result.offset, result.slab, (unsigned long long)slab->bytes,
          (unsigned long long)stored_bytes);
      return -1;
    }
    uint8_t *ours = NULL;
    if (batch->tensors == NULL) {
      ours = caller_memory(batch, memory, first + i, block_bytes, into_slab ? PyBUF_SIMPLE : PyBUF_WRITABLE);
      if (ours == NULL) {
        return -1;
      }
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

/* Decodes a block; 0: it is damaged. */
static int decode_block(const Batch *batch, Py_ssize_t index, int verify) {
  const Copy *copy = &batch->copies[index];
  const Encoding *encoding = &batch->encoding;
  uint8_t *to = batch->tensors == NULL ? copy->destination : batch->raw;
  uint32_t crc = 0;
  size_t decoded = kvtier_decode(
      encoding->kind, verify ? &crc : NULL, to, copy->source, encoding->granules, encoding->elements);
  if (decoded != encoding->granules || (verify && crc != copy->crc32c)) {
    return 0;
  }
  return batch->tensors == NULL || tensors_from_slot(batch->tensors, batch->first + index, to, NULL);
}

/* Encodes a block into its slot; 0: it does not fit. */
static int encode_block(Batch *batch, Py_ssize_t index) {
  Copy *copy = &batch->copies[index];
  const Encoding *encoding = &batch->encoding;
  const uint8_t *from = copy->source;
  if (batch->tensors != NULL) {
    tensors_into_slot(batch->tensors, batch->first + index, batch->raw);
    from = batch->raw;
  }
  size_t encoded = kvtier_encode(
      encoding->kind, &copy->crc32c, copy->destination, from, encoding->granules, encoding->elements);
  return encoded == encoding->granules;
}

/* gather(session, slabs, body, first, into, block_bytes, lease_end_ns, verify_all[, encoding, elements of a granule]) ->
 * statuses */
PyObject *core_gather(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *session;
  PyObject *slabs;
  PyObject *body;
  PyObject *into;
  Py_ssize_t first;
  unsigned long long block_bytes;
  long long lease_end_ns;
  int verify_all;
  const char *kind = "";
  Py_ssize_t elements = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!O!nOKLp|sn", session_type, &session, &PyDict_Type, &slabs, &PyBytes_Type, &body,
          &first, &into, &block_bytes, &lease_end_ns, &verify_all, &kind, &elements)) {
    return NULL;
  }
  Batch batch;
  PyObject *list = NULL;
  if (batch_prepare(&batch, slabs, body, first, into, block_bytes, kind, elements, 0) == 0) {
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < batch.count; i++) {
      Copy *copy = &batch.copies[i];
      if (copy->slab == NULL) {
        continue;
      }
      int matches = 1;
      int verify = copy->verify || verify_all;
      if (copy->is_encoded) {
        matches = decode_block(&batch, i, verify);
      } else if (batch.tensors != NULL) {
        const uint32_t *expected = verify ? &copy->crc32c : NULL;
        matches = tensors_from_slot(batch.tensors, batch.first + i, copy->source, expected);
      } else if (verify) {
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
    if (is_cut_off((Session *)session)) {
      for (Py_ssize_t i = 0; i < batch.count; i++) {
        if (batch.copies[i].slab != NULL) {
          batch.copies[i].status = KVTIER_STATUS_STALE;
        }
      }
    }
    Py_END_ALLOW_THREADS;
    list = batch_statuses(&batch);
  }
  batch_release(&batch);
  return list;
}

/* A sleeping daemon takes 30 to 80 us to wake up, and then spins for 100 us for what was announced. What is copied
 * meanwhile is told by the last copies that were long enough to tell. */
enum {
  ANNOUNCE_US = 80,
  ANNOUNCE_BYTES_FIRST = 512 * 1024,
  ANNOUNCE_BYTES_MIN = 128 * 1024,
  ANNOUNCE_BYTES_MAX = 4 * 1024 * 1024,
  TELLING_BYTES_MIN = 1024 * 1024
};

static uint64_t announce_bytes(const Session *self) {
  uint32_t bytes = atomic_load_explicit(&self->announce_bytes, memory_order_relaxed);
  return bytes == 0 ? ANNOUNCE_BYTES_FIRST : bytes;
}

static void note_speed(Session *self, uint64_t bytes, int64_t ns) {
  if (bytes < TELLING_BYTES_MIN || ns <= 0) {
    return;
  }
  uint64_t now = bytes * (ANNOUNCE_US * 1000) / (uint64_t)ns;
  uint64_t next = (3 * announce_bytes(self) + now) / 4;
  next = next < ANNOUNCE_BYTES_MIN ? ANNOUNCE_BYTES_MIN : next > ANNOUNCE_BYTES_MAX ? ANNOUNCE_BYTES_MAX : next;
  atomic_store_explicit(&self->announce_bytes, (uint32_t)next, memory_order_relaxed);
}

/* Copies all blocks into their slots. A block that does not fit its encoded slot is TOO_LARGE.
 *
 * announced: the session, if somebody waits for the commit that follows: the copies wake its daemon in time for the commit */
static size_t copy_in(Batch *batch, uint64_t block_bytes, Session *announced) {
  uint64_t ahead = announced == NULL ? 0 : announce_bytes(announced);
  int64_t begun_ns = now_ns();
  size_t written = 0;
  for (Py_ssize_t i = 0; i < batch->count; i++) {
    written += batch->copies[i].slab != NULL;
  }
  uint64_t bytes = written * block_bytes;
  uint64_t left = bytes;
  for (Py_ssize_t i = 0; i < batch->count; i++) {
    Copy *copy = &batch->copies[i];
    if (copy->slab == NULL) {
      continue;
    }
    size_t first = 0;
    copy->crc32c = 0;
    int is_copied_in_parts = batch->tensors == NULL && !copy->is_encoded;
    if (announced != NULL && left > ahead && left - block_bytes <= ahead) {
      if (is_copied_in_parts) {
        first = left - ahead;
        copy->crc32c = kvtier_copy_crc32c(0, copy->destination, copy->source, first);
      }
      /* An index that wakes up on this processor would only delay the copies. */
      if (!announced->ended && load32(announced->fork_marker) == 1 && !is_index_here(announced)) {
        ring_bell(announced);
      }
    }
    if (copy->is_encoded) {
      if (!encode_block(batch, i)) {
        copy->status = KVTIER_STATUS_TOO_LARGE;
        written--;
      }
    } else if (batch->tensors != NULL) {
      copy->crc32c = tensors_into_slot(batch->tensors, batch->first + i, copy->destination);
    } else {
      copy->crc32c = kvtier_copy_crc32c(copy->crc32c, copy->destination + first, copy->source + first, block_bytes - first);
    }
    left -= block_bytes;
  }
  if (announced != NULL) {
    note_speed(announced, bytes, now_ns() - begun_ns);
  }
  return written;
}

/* scatter(slabs, body, first, source, block_bytes[, session to announce the commit in or None[, encoding, elements of a granule]])
 * -> (statuses, id and CRC32C of each block that was written) */
PyObject *core_scatter(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *slabs;
  PyObject *body;
  PyObject *source;
  Py_ssize_t first;
  PyObject *announced = Py_None;
  unsigned long long block_bytes;
  const char *kind = "";
  Py_ssize_t elements = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!nOK|Osn", &PyDict_Type, &slabs, &PyBytes_Type, &body, &first, &source,
          &block_bytes, &announced, &kind, &elements)) {
    return NULL;
  }
  if (announced != Py_None && Py_TYPE(announced) != session_type) {
    PyErr_SetString(PyExc_TypeError, "expected a session, or None");
    return NULL;
  }
  Batch batch;
  PyObject *answer = NULL;
  if (batch_prepare(&batch, slabs, body, first, source, block_bytes, kind, elements, 1) == 0) {
    size_t written;
    Py_BEGIN_ALLOW_THREADS;
    written = copy_in(&batch, block_bytes, announced == Py_None ? NULL : (Session *)announced);
    Py_END_ALLOW_THREADS;
    PyObject *ids = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(written * 16));
    if (ids != NULL) {
      char *at = PyBytes_AsString(ids);
      const char *results = PyBytes_AsString(body);
      for (Py_ssize_t i = 0; i < batch.count; i++) {
        if (batch.copies[i].slab != NULL && batch.copies[i].status == KVTIER_STATUS_OK) {
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
