/* Messages of gRPC with the bytes of a block: each byte is copied once, and its checksum is made of the copy on the way. */
#include "_core.h"

#include "_crc32c.h"

/* Small enough that the checksum reads the copy from the nearest cache. */
enum { PIECE_BYTES = 16 * 1024 };

/* From here up other threads may run meanwhile. */
enum { LONG_BYTES = 4096 };

static unsigned copy_pieces(unsigned crc, char *to, const char *from, Py_ssize_t bytes) {
  for (Py_ssize_t at = 0; at < bytes; at += PIECE_BYTES) {
    size_t piece = (size_t)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
    memcpy(to + at, from + at, piece);
    crc = kvtier_crc32c(crc, to + at, piece);
  }
  return crc;
}

static unsigned copy(unsigned crc, char *to, const Py_buffer *from) {
  if (from->len < LONG_BYTES) {
    return copy_pieces(crc, to, from->buf, from->len);
  }
  Py_BEGIN_ALLOW_THREADS;
  crc = copy_pieces(crc, to, from->buf, from->len);
  Py_END_ALLOW_THREADS;
  return crc;
}

PyObject *core_copy_crc32c(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer to;
  Py_buffer from;
  unsigned crc;
  if (!PyArg_ParseTuple(arguments, "w*y*I", &to, &from, &crc)) {
    return NULL;
  }
  PyObject *result = NULL;
  if (to.len == from.len) {
    result = PyLong_FromUnsignedLong(copy(crc, to.buf, &from));
  } else {
    PyErr_Format(PyExc_ValueError, "%zd bytes do not fit %zd", from.len, to.len);
  }
  PyBuffer_Release(&from);
  PyBuffer_Release(&to);
  return result;
}

PyObject *core_joined_crc32c(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *head;
  Py_ssize_t head_bytes;
  Py_buffer data;
  const char *tail;
  Py_ssize_t tail_bytes;
  unsigned crc;
  if (!PyArg_ParseTuple(arguments, "y#y*y#I", &head, &head_bytes, &data, &tail, &tail_bytes, &crc)) {
    return NULL;
  }
  Py_ssize_t crc_bytes = tail_bytes == 0 ? 0 : (Py_ssize_t)sizeof(uint32_t);
  PyObject *message = PyBytes_FromStringAndSize(NULL, head_bytes + data.len + tail_bytes + crc_bytes);
  if (message != NULL) {
    char *to = PyBytes_AsString(message);
    memcpy(to, head, (size_t)head_bytes);
    crc = copy(crc, to + head_bytes, &data);
    to += head_bytes + data.len;
    memcpy(to, tail, (size_t)tail_bytes);
    for (Py_ssize_t i = 0; i < crc_bytes; i++) {
      to[tail_bytes + i] = (char)(crc >> (8 * i));
    }
  }
  PyBuffer_Release(&data);
  return message == NULL ? NULL : Py_BuildValue("(NI)", message, crc);
}
