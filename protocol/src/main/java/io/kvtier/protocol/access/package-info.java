/**
 * Who may do what, as it is written down: roles, and the tokens that stand for them. The daemon
 * holds callers to it; the admin command makes tokens.
 */
@NullMarked
package io.kvtier.protocol.access;

import org.jspecify.annotations.NullMarked;
