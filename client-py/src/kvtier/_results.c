/* The results in a completion's body, for Python. */
#include "_core.h"

/* The results of a body, whose length must be a multiple of a result's. */
int results_of(PyObject *object, Py_ssize_t unit, char **results, Py_ssize_t *count) {
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

/* The ids of the blocks that are OK, 8 bytes each. */
PyObject *granted_ids(const uint8_t *results, size_t count) {
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

PyObject *core_short_statuses(PyObject *module, PyObject *body) {
  (void)module;
  return status_list(body, KVTIER_COMPLETION_SHORT_RESULT_BYTES);
}

PyObject *core_long_statuses(PyObject *module, PyObject *body) {
  (void)module;
  return status_list(body, KVTIER_COMPLETION_LONG_RESULT_BYTES);
}

PyObject *core_short_tiers(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_SHORT_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    unsigned tier = (uint8_t)results[i * KVTIER_COMPLETION_SHORT_RESULT_BYTES + KVTIER_COMPLETION_BLOCK_TIER_OFFSET];
    PyObject *object = tiers[tier < KVTIER_TIER_COUNT ? tier : 0];
    Py_INCREF(object);
    PyList_SetItem(list, i, object);
  }
  return list;
}

PyObject *core_long_results(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    Result result = result_at(results, i);
    PyObject *tier = tiers[result.tier < KVTIER_TIER_COUNT ? result.tier : 0];
    PyObject *tuple = Py_BuildValue("(NOiIKIIK)", status_object(result.status), tier, (int)result.flags, result.crc32c,
        (unsigned long long)result.id, result.slab, result.length, (unsigned long long)result.offset);
    if (tuple == NULL || PyList_SetItem(list, i, tuple) < 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

PyObject *core_granted_ids(PyObject *module, PyObject *body) {
  (void)module;
  char *results;
  Py_ssize_t count;
  if (results_of(body, KVTIER_COMPLETION_LONG_RESULT_BYTES, &results, &count) < 0) {
    return NULL;
  }
  return granted_ids((const uint8_t *)results, (size_t)count);
}

PyObject *core_granted_slabs(PyObject *module, PyObject *body) {
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
