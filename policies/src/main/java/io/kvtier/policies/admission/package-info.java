/** The admission policies: which blocks of the tier above may be copied into a tier, and when. */
@org.jspecify.annotations.NullMarked
package io.kvtier.policies.admission;
