@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.directory;
