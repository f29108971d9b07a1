/** What can be wrong with a machine, and how it is found out. */
@NullMarked
package io.kvtier.daemon.doctor;

import org.jspecify.annotations.NullMarked;
