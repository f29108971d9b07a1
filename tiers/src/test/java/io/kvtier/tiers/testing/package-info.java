/** What tests of several packages share. */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.testing;
