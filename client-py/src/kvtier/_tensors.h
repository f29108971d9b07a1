/* Blocks scattered over tensors. A tensor is a plane: a block's cells in it are runs of bytes, as many as the axes
 * count, and stand in the block one behind the other. */
#ifndef KVTIER_TENSORS_H
#define KVTIER_TENSORS_H

#include "_core.h"

typedef struct {
  PyObject_HEAD
  Plane *planes;
  Py_ssize_t plane_count;
  int64_t *ids;
  Py_ssize_t count;
  uint64_t block_bytes;
  int is_whole;
} Tensors;

extern PyType_Spec tensors_spec;
extern PyTypeObject *tensors_type;

uint32_t tensors_into_slot(const Tensors *tensors, Py_ssize_t index, uint8_t *slot);
int tensors_from_slot(const Tensors *tensors, Py_ssize_t index, const uint8_t *slot, const uint32_t *expected);

#endif
