/**
 * Which other nodes there are: a list, or a group of daemons that find each other. What is done
 * with the nodes is in {@code daemon.node}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.member;
