/**
 * Tests of several modules together: the Java client, the commands and a daemon in a process of its
 * own, and the rules about dependencies between modules.
 */
@NullMarked
package io.kvtier.systemtests;

import org.jspecify.annotations.NullMarked;
