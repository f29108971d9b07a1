package io.kvtier.daemon.access;

import io.kvtier.protocol.access.Role;

/**
 * What a caller was found to be.
 *
 * @param name whose it is, for logs
 * @param role NONE for one who may not even connect
 * @param tenant the number of the tenant whose blocks it sees; 0 is the one of all who have none
 */
public record Grant(String name, Role role, int tenant) {
  /** The number of the tenant of all who belong to none. */
  public static final int NO_TENANT = 0;

  /** What the daemon itself may. */
  public static final Grant ALL = new Grant("kvtierd", Role.ADMIN, NO_TENANT);
}
