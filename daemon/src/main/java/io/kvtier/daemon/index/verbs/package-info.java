/**
 * What requests do, a class for each verb, or for a few that belong together. Uses all packages of
 * the index but {@code report}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.verbs;
