/* Blocks scattered over tensors. A tensor is a plane: a block's cells in it are runs of bytes, as many as the axes
 * count, and stand in the block one behind the other. */
#ifndef KVTIER_TENSORS_H
#define KVTIER_TENSORS_H

#include "_core.h"

enum { KVTIER_PLANE_AXES_MAX = 4 };

/* As Python packs it: words of 64 bits. */
typedef struct {
  uint64_t address; /* of block 0 */
  uint64_t blocks;
  uint64_t block_stride;
  uint64_t offset; /* where the plane's part begins in a block */
  uint64_t run_bytes;
  uint64_t axes;
  uint64_t counts[KVTIER_PLANE_AXES_MAX]; /* the last axis moves fastest */
  uint64_t strides[KVTIER_PLANE_AXES_MAX];
} Plane;

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
