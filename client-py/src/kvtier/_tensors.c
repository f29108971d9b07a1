/* Blocks that lie scattered over tensors of this process: where they are, and copies between them and slots. */
#include "_tensors.h"

#include <stdlib.h>

#include "_crc32c.h"

/* Shorter runs are copied first, and their checksum is made of the piece that they make together. */
enum { RUN_BYTES_FUSED_MIN = 4096 };

/* `bytes`: of a block in this plane. `end`: where they end in the block. `is_dense`: whether nothing lies between them. */
static int plane_is_sound(const Plane *plane, uint64_t *bytes, uint64_t *end, int *is_dense) {
  if (plane->address == 0 || plane->blocks == 0 || plane->run_bytes == 0 || plane->axes > PLANE_AXES_MAX) {
    return 0;
  }
  if (plane->run_bytes > UINT32_MAX || plane->offset > UINT32_MAX) {
    return 0;
  }
  *bytes = plane->run_bytes;
  *end = plane->offset + plane->run_bytes;
  *is_dense = 1;
  for (uint64_t axis = plane->axes; axis-- > 0;) {
    if (plane->counts[axis] == 0 || plane->counts[axis] > UINT32_MAX || plane->slot_strides[axis] > UINT32_MAX) {
      return 0;
    }
    *is_dense &= plane->slot_strides[axis] == *bytes;
    *bytes *= plane->counts[axis];
    *end += (plane->counts[axis] - 1) * plane->slot_strides[axis];
    if (*bytes > UINT32_MAX || *end > 2 * (uint64_t)UINT32_MAX) {
      return 0;
    }
  }
  return 1;
}

static PyObject *tensors_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"planes", "block_ids", "block_bytes", "is_shard", NULL};
  int is_shard = 0;
  Py_buffer planes;
  Py_buffer ids;
  unsigned long long block_bytes;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*y*K|p", names, &planes, &ids, &block_bytes, &is_shard)) {
    return NULL;
  }
  Tensors *self = NULL;
  if (planes.len == 0 || planes.len % sizeof(Plane) != 0 || ids.len % sizeof(int64_t) != 0) {
    PyErr_Format(invalid_argument, "planes of %zd bytes and ids of %zd: expected multiples of %zu and 8", planes.len,
        ids.len, sizeof(Plane));
    goto done;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  self = (Tensors *)allocate(type, 0);
  if (self == NULL) {
    goto done;
  }
  self->plane_count = planes.len / (Py_ssize_t)sizeof(Plane);
  self->count = ids.len / (Py_ssize_t)sizeof(int64_t);
  self->block_bytes = block_bytes;
  self->is_shard = is_shard;
  self->planes = malloc((size_t)planes.len);
  self->ids = malloc((size_t)ids.len + 1);
  if (self->planes == NULL || self->ids == NULL) {
    PyErr_NoMemory();
    goto failed;
  }
  memcpy(self->planes, planes.buf, (size_t)planes.len);
  memcpy(self->ids, ids.buf, (size_t)ids.len);
  uint64_t blocks = UINT64_MAX;
  uint64_t covered = 0;
  uint64_t end = 0;
  for (Py_ssize_t i = 0; i < self->plane_count; i++) {
    const Plane *plane = &self->planes[i];
    uint64_t bytes;
    uint64_t plane_end;
    int is_dense;
    if (!plane_is_sound(plane, &bytes, &plane_end, &is_dense) || plane_end > block_bytes) {
      PyErr_Format(invalid_argument, "plane %zd does not lie in a block of %llu bytes", i, block_bytes);
      goto failed;
    }
    if (!is_shard && (!is_dense || plane->offset < end)) {
      PyErr_Format(invalid_argument, "plane %zd does not lie behind the one before it in a block of %llu bytes", i,
          block_bytes);
      goto failed;
    }
    end = plane_end;
    covered += bytes;
    blocks = plane->blocks < blocks ? plane->blocks : blocks;
  }
  self->is_whole = !is_shard && covered == block_bytes;
  for (Py_ssize_t i = 0; i < self->count; i++) {
    if (self->ids[i] < 0 || (uint64_t)self->ids[i] >= blocks) {
      PyErr_Format(invalid_argument, "block id %lld: the tensors have %llu blocks, from 0 on", (long long)self->ids[i],
          (unsigned long long)blocks);
      goto failed;
    }
  }
  goto done;
failed:
  Py_DECREF(self);
  self = NULL;
done:
  PyBuffer_Release(&planes);
  PyBuffer_Release(&ids);
  return (PyObject *)self;
}

static void tensors_dealloc(PyObject *object) {
  Tensors *self = (Tensors *)object;
  PyTypeObject *type = Py_TYPE(object);
  free(self->planes);
  free(self->ids);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

/* Where a run of a block begins, in its tensor and in the block, counted along the axes of its plane. */
typedef struct {
  const Plane *plane;
  uint8_t *base;
  uint64_t offset;
  uint64_t index[PLANE_AXES_MAX];
} Walk;

static void walk_begin(Walk *walk, const Plane *plane, int64_t block) {
  walk->plane = plane;
  walk->base = (uint8_t *)(uintptr_t)plane->address + (uint64_t)block * plane->block_stride;
  walk->offset = plane->offset;
  memset(walk->index, 0, sizeof walk->index);
}

/* The next run and its offset in the block, or NULL after the last one. The last axis moves fastest. */
static uint8_t *walk_next(Walk *walk, uint64_t *offset) {
  const Plane *plane = walk->plane;
  uint8_t *run = walk->base;
  *offset = walk->offset;
  if (run == NULL) {
    return NULL;
  }
  for (uint64_t axis = plane->axes; axis-- > 0;) {
    walk->base += plane->strides[axis];
    walk->offset += plane->slot_strides[axis];
    if (++walk->index[axis] < plane->counts[axis]) {
      return run;
    }
    walk->base -= plane->strides[axis] * plane->counts[axis];
    walk->offset -= plane->slot_strides[axis] * plane->counts[axis];
    walk->index[axis] = 0;
  }
  walk->base = NULL;
  return run;
}

/* Copies the planes of a block to their places in its slot. */
static void copy_in(const Tensors *tensors, Py_ssize_t index, uint8_t *slot) {
  for (Py_ssize_t i = 0; i < tensors->plane_count; i++) {
    const Plane *plane = &tensors->planes[i];
    Walk walk;
    uint64_t offset;
    walk_begin(&walk, plane, tensors->ids[index]);
    for (const uint8_t *run; (run = walk_next(&walk, &offset)) != NULL;) {
      kvtier_copy(slot + offset, run, plane->run_bytes);
    }
  }
}

/* Copies a block into its slot; the CRC32C of what stands there. A shard of a block has no checksum: 0. */
uint32_t tensors_into_slot(const Tensors *tensors, Py_ssize_t index, uint8_t *slot) {
  uint32_t crc = 0;
  if (!tensors->is_whole) {
    copy_in(tensors, index, slot);
    return 0;
  }
  for (Py_ssize_t i = 0; i < tensors->plane_count; i++) {
    const Plane *plane = &tensors->planes[i];
    uint8_t *to = slot + plane->offset;
    uint8_t *piece = to;
    Walk walk;
    uint64_t offset;
    walk_begin(&walk, plane, tensors->ids[index]);
    for (const uint8_t *run; (run = walk_next(&walk, &offset)) != NULL; to += plane->run_bytes) {
      if (plane->run_bytes >= RUN_BYTES_FUSED_MIN) {
        crc = kvtier_copy_crc32c(crc, to, run, plane->run_bytes);
      } else {
        memcpy(to, run, plane->run_bytes);
      }
    }
    if (plane->run_bytes < RUN_BYTES_FUSED_MIN) {
      crc = kvtier_crc32c(crc, piece, (size_t)(to - piece));
    }
  }
  return crc;
}

/* Copies the planes of a block out of its slot. */
static void copy_out(const Tensors *tensors, Py_ssize_t index, const uint8_t *slot) {
  for (Py_ssize_t i = 0; i < tensors->plane_count; i++) {
    const Plane *plane = &tensors->planes[i];
    Walk walk;
    uint64_t offset;
    walk_begin(&walk, plane, tensors->ids[index]);
    for (uint8_t *run; (run = walk_next(&walk, &offset)) != NULL;) {
      kvtier_copy(run, slot + offset, plane->run_bytes);
    }
  }
}

/* Copies a block out of its slot, and checks it where that is wanted: a wrong one is in the tensors all the same. */
int tensors_from_slot(const Tensors *tensors, Py_ssize_t index, const uint8_t *slot, const uint32_t *expected) {
  if (expected == NULL) {
    copy_out(tensors, index, slot);
    return 1;
  }
  if (!tensors->is_whole) {
    /* The checksum is that of the whole block. What has changed the slot before the copy is seen after it. */
    copy_out(tensors, index, slot);
    return kvtier_crc32c(0, slot, tensors->block_bytes) == *expected;
  }
  uint32_t crc = 0;
  for (Py_ssize_t i = 0; i < tensors->plane_count; i++) {
    const Plane *plane = &tensors->planes[i];
    const uint8_t *from = slot + plane->offset;
    Walk walk;
    uint64_t offset;
    walk_begin(&walk, plane, tensors->ids[index]);
    for (uint8_t *run; (run = walk_next(&walk, &offset)) != NULL; from += plane->run_bytes) {
      crc = kvtier_copy_crc32c(crc, run, from, plane->run_bytes);
    }
  }
  return crc == *expected;
}

static PyType_Slot tensors_slots[] = {
    {Py_tp_doc, "Blocks that lie scattered over tensors, as memory for gather and scatter."},
    {Py_tp_new, tensors_new},
    {Py_tp_dealloc, tensors_dealloc},
    {0, NULL},
};

PyType_Spec tensors_spec = {"kvtier._core.Tensors", sizeof(Tensors), 0, Py_TPFLAGS_DEFAULT, tensors_slots};
