package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;

/**
 * Another node of the cluster.
 *
 * @param address where it serves other nodes
 * @param name empty if only its address is known
 * @param incarnation the number of its present start; 0 if only its address is known
 */
public record Member(NodeAddress address, String name, long incarnation) {}
