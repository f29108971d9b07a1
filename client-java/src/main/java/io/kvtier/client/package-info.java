/**
 * The Java client of kvtierd. {@link io.kvtier.client.KvtierClient} uses the daemon of this
 * machine, {@link io.kvtier.client.RemoteClient} uses gRPC. The packages below {@code internal} are
 * no API, and may change in any version.
 */
@NullMarked
package io.kvtier.client;

import org.jspecify.annotations.NullMarked;
