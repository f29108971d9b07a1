/**
 * Linux system calls through the foreign-function API: shared memory, Unix sockets with descriptor
 * passing, event descriptors, epoll, futexes and direct file IO. One small class per facility;
 * every failure is a {@link io.kvtier.protocol.linux.ErrnoException} that names the call, the errno
 * and the arguments that matter.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.protocol.linux;
