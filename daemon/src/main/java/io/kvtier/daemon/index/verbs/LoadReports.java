package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.LoadReportDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import java.util.function.LongSupplier;

/** REPORT_LOADS: what engines have saved. */
final class LoadReports {
  private final Accounts accounts;
  private final CompletionWriter writer;
  private final LongSupplier clock;

  LoadReports(Accounts accounts, CompletionWriter writer, LongSupplier clock) {
    this.accounts = accounts;
    this.writer = writer;
    this.clock = clock;
  }

  void report(Session session, Request request) throws ProtocolViolation {
    if (request.count != LoadReportDescriptor.BYTES) {
      throw new ProtocolViolation(
          "REPORT_LOADS has a record of "
              + request.count
              + " bytes, expected "
              + LoadReportDescriptor.BYTES);
    }
    LoadReport report = LoadReport.read(request.segment, request.body);
    String why = accounts.reported(request.namespaceId, report, clock.getAsLong());
    if (why == null) {
      writer.completeShort(session, request, Status.OK, 0);
    } else {
      writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
    }
  }
}
