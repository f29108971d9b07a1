/* The module: its functions, its types, and the Python objects that all of it knows. */
#include "_core.h"

#include "_crc32c.h"
#include "_encoding.h"
#include "_tensors.h"

PyObject *session_error;
PyObject *invalid_argument;
PyObject *statuses[KVTIER_STATUS_COUNT];
PyObject *tiers[KVTIER_TIER_COUNT];
PyTypeObject *session_type;
PyTypeObject *slab_type;
PyTypeObject *tensors_type;
static const char *crc32c_name;
static const char *encoding_name;

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

static PyObject *core_crc32c_choose(PyObject *module, PyObject *name) {
  (void)module;
  const char *chosen = PyUnicode_AsUTF8AndSize(name, NULL);
  return chosen == NULL ? NULL : PyBool_FromLong(kvtier_crc32c_choose(chosen));
}

static PyMethodDef functions[] = {
    {"monotonic_ns", core_monotonic_ns, METH_NOARGS, "CLOCK_MONOTONIC, in nanoseconds."},
    {"crc32c", core_crc32c, METH_VARARGS, "The CRC32C of a buffer, continued from that of the data before it."},
    {"copy_crc32c", core_copy_crc32c, METH_VARARGS,
        "Copies a buffer to another of its size; the CRC32C of the copy, continued from that of the data before it."},
    {"joined_crc32c", core_joined_crc32c, METH_VARARGS,
        "A head, a copy of a buffer, and a tail that is followed by the CRC32C of the copy; and that CRC32C. An empty tail: "
        "neither tail nor CRC32C follow."},
    {"crc32c_choose", core_crc32c_choose, METH_O, "Chooses an implementation of CRC32C by name; False: not here."},
    {"encoding_choose", core_encoding_choose, METH_O, "Chooses an implementation of the encodings by name; False: not here."},
    {"granule_bytes", core_granule_bytes, METH_VARARGS,
        "The bytes of a granule of so many elements in an encoding; 0: there is no such encoding, or no granule has them."},
    {"encode", core_encode, METH_VARARGS,
        "Encodes granules of so many elements; how many fitted, from the first, and the CRC32C of their encoded bytes."},
    {"decode", core_decode, METH_VARARGS,
        "Decodes granules; how many were sound, from the first, and the CRC32C of the encoded bytes up to there."},
    {"short_statuses", core_short_statuses, METH_O, "The statuses of short results."},
    {"short_tiers", core_short_tiers, METH_O, "The tiers of short results."},
    {"long_statuses", core_long_statuses, METH_O, "The statuses of long results."},
    {"long_results", core_long_results, METH_O,
        "Long results: tuples (status, tier, flags, crc32c, id, slab, length, offset)."},
    {"granted_ids", core_granted_ids, METH_O, "The ids of the long results that are OK, 8 bytes each."},
    {"granted_slabs", core_granted_slabs, METH_O, "The set of slabs that the long results that are OK lie in."},
    {"keys_of_digits", core_keys_of_digits, METH_O,
        "The keys that a list or tuple has as hexadecimal digits; None: one of them is something else."},
    {"check_memory", core_check_memory, METH_VARARGS,
        "Raises for a buffer of the wrong size; the place of the first thing that is none, in a list or tuple or alone; else -1."},
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
  encoding_name = kvtier_encoding_initialise();
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
  int loaded = load_members(protocol, "Status", statuses, KVTIER_STATUS_COUNT) == 0
      && load_members(protocol, "Tier", tiers, KVTIER_TIER_COUNT) == 0;
  Py_DECREF(protocol);
  PyObject *module = loaded ? PyModule_Create(&definition) : NULL;
  if (module == NULL) {
    return NULL;
  }
  session_type = (PyTypeObject *)PyType_FromSpec(&session_spec);
  slab_type = (PyTypeObject *)PyType_FromSpec(&slab_spec);
  tensors_type = (PyTypeObject *)PyType_FromSpec(&tensors_spec);
  if (session_type == NULL || slab_type == NULL || tensors_type == NULL
      || PyModule_AddObjectRef(module, "Session", (PyObject *)session_type) < 0
      || PyModule_AddObjectRef(module, "Slab", (PyObject *)slab_type) < 0
      || PyModule_AddObjectRef(module, "Tensors", (PyObject *)tensors_type) < 0
      || PyModule_AddStringConstant(module, "CRC32C", crc32c_name) < 0
      || PyModule_AddStringConstant(module, "ENCODING", encoding_name) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
