/* Encoded granules, for Python. */
#include "_core.h"

#include "_encoding.h"

/* From here up other threads may run meanwhile. */
enum { LONG_BYTES = 4096 };

PyObject *core_encoding_choose(PyObject *module, PyObject *name) {
  (void)module;
  const char *chosen = PyUnicode_AsUTF8AndSize(name, NULL);
  return chosen == NULL ? NULL : PyBool_FromLong(kvtier_encoding_choose(chosen));
}

/* granule_bytes(kind, elements) -> bytes */
PyObject *core_granule_bytes(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *kind;
  Py_ssize_t elements;
  if (!PyArg_ParseTuple(arguments, "sn", &kind, &elements)) {
    return NULL;
  }
  return PyLong_FromSize_t(elements < 0 ? 0 : kvtier_granule_bytes(kvtier_encoding_kind(kind), (size_t)elements));
}

/* The granules that both buffers have; 0: they do not have the same. */
static size_t granules_of(EncodingKind kind, const Py_buffer *raw, const Py_buffer *encoded, Py_ssize_t elements) {
  size_t bytes = elements > 0 ? kvtier_granule_bytes(kind, (size_t)elements) : 0;
  if (bytes == 0 || (size_t)encoded->len % bytes != 0 || (size_t)raw->len != (size_t)encoded->len / bytes * 2 * (size_t)elements) {
    PyErr_Format(invalid_argument, "%zd bytes and %zd encoded bytes are not granules of %zd elements", raw->len, encoded->len,
        elements);
    return 0;
  }
  return (size_t)encoded->len / bytes;
}

typedef size_t transcoder(EncodingKind kind, uint32_t *crc, void *to, const void *from, size_t granules, size_t elements);

/* transcode(kind, to, from, elements) -> (how many granules were encoded or decoded, CRC32C of the encoded ones) */
static PyObject *transcode(PyObject *arguments, transcoder *all, int encodes) {
  const char *name;
  Py_buffer to;
  Py_buffer from;
  Py_ssize_t elements;
  if (!PyArg_ParseTuple(arguments, "sw*y*n", &name, &to, &from, &elements)) {
    return NULL;
  }
  EncodingKind kind = kvtier_encoding_kind(name);
  const Py_buffer *raw = encodes ? &from : &to;
  size_t granules = granules_of(kind, raw, encodes ? &to : &from, elements);
  uint32_t crc = 0;
  size_t done = 0;
  if (raw->len < LONG_BYTES) {
    done = all(kind, &crc, to.buf, from.buf, granules, (size_t)elements);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    done = all(kind, &crc, to.buf, from.buf, granules, (size_t)elements);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&from);
  PyBuffer_Release(&to);
  return PyErr_Occurred() ? NULL : Py_BuildValue("(nI)", (Py_ssize_t)done, crc);
}

PyObject *core_encode(PyObject *module, PyObject *arguments) {
  (void)module;
  return transcode(arguments, kvtier_encode, 1);
}

PyObject *core_decode(PyObject *module, PyObject *arguments) {
  (void)module;
  return transcode(arguments, kvtier_decode, 0);
}
