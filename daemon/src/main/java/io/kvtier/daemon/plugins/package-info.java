/** Plug-ins of the daemon: which policies, codecs and sources the jars of a folder bring. */
@NullMarked
package io.kvtier.daemon.plugins;

import org.jspecify.annotations.NullMarked;
