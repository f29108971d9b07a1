/** The configuration file: what can be set, within which bounds, and what is wrong with it. */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.config;
