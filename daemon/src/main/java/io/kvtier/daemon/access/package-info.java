/**
 * Who may do what: which role a verb needs, whom a token or a local user stands for, and what a
 * listener must have before others than this machine's may reach it. Used by every transport.
 */
@NullMarked
package io.kvtier.daemon.access;

import org.jspecify.annotations.NullMarked;
