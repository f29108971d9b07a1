/** Tests of what finds other nodes, and members that exist only in memory. */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.member;
