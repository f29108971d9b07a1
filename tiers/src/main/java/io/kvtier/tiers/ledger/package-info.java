/**
 * What lets a tier survive its process: the ledger, which says durably which block stands in which
 * slot. The bytes themselves stay where they are.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.ledger;
