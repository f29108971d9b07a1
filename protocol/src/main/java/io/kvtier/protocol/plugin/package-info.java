/**
 * Plug-ins: a folder of jars whose classes the daemon and the command line load. This package says
 * which jars are loaded and who may have written them. Each interface of plug-ins is in the module
 * that uses it.
 */
@NullMarked
package io.kvtier.protocol.plugin;

import org.jspecify.annotations.NullMarked;
