/* Encoded granules, for Python. */
#include "_core.h"

#include "_exact.h"

/* From here up other threads may run meanwhile. */
enum { LONG_BYTES = 4096 };

PyObject *core_exact_choose(PyObject *module, PyObject *name) {
  (void)module;
  const char *chosen = PyUnicode_AsUTF8AndSize(name, NULL);
  return chosen == NULL ? NULL : PyBool_FromLong(kvtier_exact_choose(chosen));
}

PyObject *core_exact_granule_bytes(PyObject *module, PyObject *elements) {
  (void)module;
  long number = PyLong_AsLong(elements);
  if (number == -1 && PyErr_Occurred()) {
    return NULL;
  }
  return PyLong_FromSize_t(number < 0 ? 0 : kvtier_exact_granule_bytes((size_t)number));
}

/* The granules that both buffers have; 0: they do not have the same. */
static size_t granules_of(const Py_buffer *raw, const Py_buffer *encoded, Py_ssize_t elements) {
  size_t bytes = elements > 0 ? kvtier_exact_granule_bytes((size_t)elements) : 0;
  if (bytes == 0 || (size_t)encoded->len % bytes != 0 || (size_t)raw->len != (size_t)encoded->len / bytes * 2 * (size_t)elements) {
    PyErr_Format(invalid_argument, "%zd bytes and %zd encoded bytes are not granules of %zd elements", raw->len, encoded->len,
        elements);
    return 0;
  }
  return (size_t)encoded->len / bytes;
}

/* exact_encode(to, from, elements) -> (how many granules were encoded, CRC32C of them) */
PyObject *core_exact_encode(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer to;
  Py_buffer from;
  Py_ssize_t elements;
  if (!PyArg_ParseTuple(arguments, "w*y*n", &to, &from, &elements)) {
    return NULL;
  }
  size_t granules = granules_of(&from, &to, elements);
  uint32_t crc = 0;
  size_t encoded = 0;
  if (from.len < LONG_BYTES) {
    encoded = kvtier_exact_encode(&crc, to.buf, from.buf, granules, (size_t)elements);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    encoded = kvtier_exact_encode(&crc, to.buf, from.buf, granules, (size_t)elements);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&from);
  PyBuffer_Release(&to);
  return PyErr_Occurred() ? NULL : Py_BuildValue("(nI)", (Py_ssize_t)encoded, crc);
}

/* exact_decode(to, from, elements) -> (how many granules were decoded, CRC32C of what they were decoded from) */
PyObject *core_exact_decode(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer to;
  Py_buffer from;
  Py_ssize_t elements;
  if (!PyArg_ParseTuple(arguments, "w*y*n", &to, &from, &elements)) {
    return NULL;
  }
  size_t granules = granules_of(&to, &from, elements);
  uint32_t crc = 0;
  size_t decoded = 0;
  if (to.len < LONG_BYTES) {
    decoded = kvtier_exact_decode(&crc, to.buf, from.buf, granules, (size_t)elements);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    decoded = kvtier_exact_decode(&crc, to.buf, from.buf, granules, (size_t)elements);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&from);
  PyBuffer_Release(&to);
  return PyErr_Occurred() ? NULL : Py_BuildValue("(nI)", (Py_ssize_t)decoded, crc);
}
