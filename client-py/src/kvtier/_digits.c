/* Keys that an engine has as hexadecimal digits. */
#include "_core.h"

#define DECIMAL(first) first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6, first + 7, first + 8, first + 9
#define LETTERS 11, 12, 13, 14, 15, 16

/* The value of each hexadecimal digit, plus one; 0: it is none. */
static const uint8_t values[256] = {['0'] = DECIMAL(1), ['A'] = LETTERS, ['a'] = LETTERS};

/* Writes the key that these digits are to `key`, of KVTIER_KEY_BYTES_MAX bytes. Its length; 0: they are none. */
size_t key_of_digits(PyObject *digits, uint8_t *key) {
  Py_ssize_t count;
  const char *text = PyUnicode_Check(digits) ? PyUnicode_AsUTF8AndSize(digits, &count) : NULL;
  if (text == NULL) {
    PyErr_Clear(); /* half of a surrogate pair is no digit */
    return 0;
  }
  if (count < 2 || count % 2 != 0 || count > 2 * KVTIER_KEY_BYTES_MAX) {
    return 0;
  }
  int are_digits = 1;
  for (Py_ssize_t i = 0; i < count; i += 2) {
    int high = values[(uint8_t)text[i]];
    int low = values[(uint8_t)text[i + 1]];
    are_digits &= high != 0 && low != 0;
    key[i / 2] = (uint8_t)((high - 1) << 4 | (low - 1));
  }
  return are_digits ? (size_t)count / 2 : 0;
}

PyObject *core_keys_of_digits(PyObject *module, PyObject *digits) {
  (void)module;
  if (!PyList_Check(digits) && !PyTuple_Check(digits)) {
    return Py_NewRef(Py_None);
  }
  Py_ssize_t count = PySequence_Size(digits);
  PyObject *keys = PyList_New(count);
  for (Py_ssize_t i = 0; keys != NULL && i < count; i++) {
    PyObject *one = item_of(digits, i);
    uint8_t bytes[KVTIER_KEY_BYTES_MAX];
    size_t length = one == NULL ? 0 : key_of_digits(one, bytes);
    PyObject *key = length == 0 ? NULL : PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)length);
    if (key == NULL || PyList_SetItem(keys, i, key) < 0) {
      Py_DECREF(keys);
      return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
  }
  return keys;
}
