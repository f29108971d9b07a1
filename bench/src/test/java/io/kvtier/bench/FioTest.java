package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import org.junit.jupiter.api.Test;

final class FioTest {
  private static final String REPORT =
      """
      { "jobs" : [ { "jobname" : "limit",
        "read" : { "io_bytes" : 0, "runtime" : 0 },
        "write" : { "io_bytes" : 4000000000, "bw_bytes" : 1, "runtime" : 2000 },
        "job_runtime" : 2000, "usr_cpu" : 5.5, "sys_cpu" : 14.500000 } ] }
      """;

  @Test
  void parse_report_hasRateAndProcessorTime() throws IOException {
    Fio.Rate rate = Fio.parse(REPORT, "write");
    assertEquals(2.0, rate.gbps(), 1e-9);
    assertEquals(0.1, rate.processorSPerGb(), 1e-9);
  }

  @Test
  void parse_anotherProgramsWords_isRefused() {
    assertThrows(IOException.class, () -> Fio.parse("bad option", "write"));
  }
}
