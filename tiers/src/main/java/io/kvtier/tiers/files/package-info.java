/** What several tiers do with files alike. */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.files;
