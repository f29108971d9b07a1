/* A mapped slab: a buffer for Python, a span of memory for the copies. */
#include "_core.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_PAGE ((uintptr_t)2 << 20)

/* Maps a file so that a huge page of it is one of the mapping. The daemon took all pages at its start: they are entered
   now rather than by a fault each. */
static void *map_aligned(int fd, size_t bytes, int protection) {
  int flags = MAP_SHARED | MAP_POPULATE;
  if (bytes < HUGE_PAGE) {
    return mmap(NULL, bytes, protection, flags, fd, 0);
  }
  size_t reserved = bytes + HUGE_PAGE;
  void *begin = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    return MAP_FAILED;
  }
  uintptr_t first = (uintptr_t)begin;
  uintptr_t base = (first + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t end = base + ((bytes + page - 1) & ~(page - 1));
  void *mapped = mmap((void *)base, bytes, protection, flags | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    int reason = errno;
    munmap(begin, reserved);
    errno = reason;
    return MAP_FAILED;
  }
  if (base > first) {
    munmap(begin, base - first);
  }
  if (first + reserved > end) {
    munmap((void *)end, first + reserved - end);
  }
  return mapped;
}

static PyObject *slab_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"fd", "nbytes", "writable", NULL};
  int fd;
  unsigned long long bytes;
  int writable;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "iKp", names, &fd, &bytes, &writable)) {
    return NULL;
  }
  struct stat file;
  if (fstat(fd, &file) < 0) {
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  if (bytes == 0 || bytes > (uint64_t)PY_SSIZE_T_MAX || (uint64_t)file.st_size < bytes) {
    return PyErr_Format(session_error, "the slab's file has %lld bytes, expected at least %llu",
        (long long)file.st_size, bytes);
  }
  void *base = map_aligned(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ);
  if (base == MAP_FAILED) {
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  /* When this process ends, its slots are others': a forked child that lives on must not write to them. */
  if (writable && madvise(base, bytes, MADV_DONTFORK) < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    munmap(base, bytes);
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Slab *self = (Slab *)allocate(type, 0);
  if (self == NULL) {
    munmap(base, bytes);
    return NULL;
  }
  self->base = base;
  self->bytes = bytes;
  self->writable = writable;
  self->owner = getpid();
  return (PyObject *)self;
}

static void slab_dealloc(PyObject *object) {
  Slab *self = (Slab *)object;
  PyTypeObject *type = Py_TYPE(object);
  /* In a forked child something else may lie where the parent has a slab mapped for writing. */
  if (self->base != NULL && (!self->writable || self->owner == getpid())) {
    munmap(self->base, self->bytes);
  }
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static int slab_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  Slab *self = (Slab *)object;
  return PyBuffer_FillInfo(view, object, self->base, (Py_ssize_t)self->bytes, !self->writable, flags);
}

static Py_ssize_t slab_length(PyObject *object) { return (Py_ssize_t)((Slab *)object)->bytes; }

static PyType_Slot slab_slots[] = {
    {Py_tp_doc, "A slab of the daemon, mapped: a buffer of bytes."},
    {Py_tp_new, slab_new},
    {Py_tp_dealloc, slab_dealloc},
    {Py_bf_getbuffer, slab_getbuffer},
    {Py_sq_length, slab_length},
    {0, NULL},
};

PyType_Spec slab_spec = {"kvtier._core.Slab", sizeof(Slab), 0, Py_TPFLAGS_DEFAULT, slab_slots};
