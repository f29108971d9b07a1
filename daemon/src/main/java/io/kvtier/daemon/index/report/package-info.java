/**
 * The daemon's state for operators. The index's thread copies numbers into a {@link
 * io.kvtier.daemon.index.report.Report}. Other threads make JSON of it with {@link
 * io.kvtier.daemon.index.report.ReportJson}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.report;
