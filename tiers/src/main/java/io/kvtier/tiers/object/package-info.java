/**
 * The object tier below the index: stores of named objects (S3, a folder), the self-describing
 * object that a block becomes, the pipeline that carries blocks there and back, and what is known
 * of the presence of objects without asking.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.object;
