package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The doctor has a finding for each trouble that the daemon reports. */
final class DaemonTroublesTest {
  private static JsonArray findings(String report) {
    JsonArray findings = new JsonArray();
    DaemonTroubles.addTo(findings, new Report(Json.parse(report).asObject()));
    return findings;
  }

  @Test
  void addTo_noTrouble_passes() {
    JsonArray findings = findings("{\"troubles\":[]}");
    assertEquals(1, findings.size());
    assertEquals("pass", findings.get(0).asObject().getString("level", ""));
  }

  @Test
  void addTo_drainedDaemon_isAWarning() {
    JsonArray findings =
        findings(
            "{\"troubles\":[{\"part\":\"puts/drain\",\"reason\":\"new blocks are refused\"}]}");
    assertEquals("warn", findings.get(0).asObject().getString("level", ""));
    assertFalse(DoctorCommand.fails(findings));
  }

  @Test
  void addTo_aLedgerOrADeviceFails_isAFailureWithACure() {
    for (String part :
        List.of("host/ledger", "object/ledger", "ssd/0", "object/load", "gpu/1", "host/keep")) {
      JsonArray findings =
          findings(
              "{\"troubles\":[{\"part\":\""
                  + part
                  + "\",\"reason\":\"no space left on device\",\"cure\":\"free space\"}]}");
      JsonObject finding = findings.get(0).asObject();
      assertEquals(part, finding.getString("check", ""));
      assertTrue(DoctorCommand.fails(findings), part);
      assertTrue(finding.getString("what", "").contains("no space left"), finding.toString());
      assertEquals("free space", finding.getString("cure", ""));
    }
  }
}
