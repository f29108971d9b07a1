/* Blocks scattered over tensors. A tensor is a Plane, as _protocol.h has it. */
#ifndef KVTIER_TENSORS_H
#define KVTIER_TENSORS_H

#include "_core.h"

enum { PLANE_AXES_MAX = sizeof(((Plane *)0)->counts) / sizeof(uint64_t) };

typedef struct {
  PyObject_HEAD
  Plane *planes;
  Py_ssize_t plane_count;
  int64_t *ids;
  Py_ssize_t count;
  uint64_t block_bytes;
  int is_whole; /* the planes' parts fill a block, one behind the other */
  int is_shard; /* the planes have a part of the block, which is put as it is */
} Tensors;

extern PyType_Spec tensors_spec;
extern PyTypeObject *tensors_type;

uint32_t tensors_into_slot(const Tensors *tensors, Py_ssize_t index, uint8_t *slot);
int tensors_from_slot(const Tensors *tensors, Py_ssize_t index, const uint8_t *slot, const uint32_t *expected);

#endif
