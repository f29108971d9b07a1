package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import org.junit.jupiter.api.Test;

final class ReportTest {
  @Test
  void json_hasTheSixFieldsOfEachRow() {
    Report report = new Report();
    report.add(new Row("get_us", 3, "us", "ping_pong_us", 1.5));
    report.add(Row.plain("count", 1_234_567, "1/s"));
    assertEquals(
        """
        [
          {"name": "get_us", "value": 3.00000, "unit": "us", "limit_name": "ping_pong_us", "limit": 1.50000, "ratio": 2.00000},
          {"name": "count", "value": 1.23457e+06, "unit": "1/s", "limit_name": "", "limit": null, "ratio": null}
        ]
        """,
        report.json());
  }

  @Test
  void json_skippedRow_saysWhyAndIsNullElsewhere() {
    Report report = new Report();
    report.add(Row.skipped("peer", "1/s", "no \"library\"\nhere\u0001"));
    assertEquals(
        "[\n  {\"name\": \"peer\", \"value\": null, \"unit\": \"1/s\", \"limit_name\":"
            + " \"skipped: no \\\"library\\\"\\nhere\\u0001\", \"limit\": null, \"ratio\": null}\n]\n",
        report.json());
  }

  @Test
  void json_ofNothing_isAnEmptyArray() {
    assertEquals("[\n]\n", new Report().json());
  }

  @Test
  void table_showsValueLimitAndRatio() {
    Report report = new Report();
    report.add(new Row("get_us", 3, "us", "ping_pong_us", 1.5));
    report.add(Row.skipped("peer", "1/s", "absent"));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    report.print(new PrintStream(bytes, true, UTF_8), "today, here");
    String[] lines = bytes.toString(UTF_8).split("\n", -1);
    assertEquals("today, here", lines[0]);
    assertTrue(lines[3].matches("get_us +3\\.000 +us +1\\.500 +2\\.000 +ping_pong_us"), lines[3]);
    assertTrue(lines[4].matches("peer +- +1/s +- +- +skipped: absent"), lines[4]);
  }

  @Test
  void row_withoutAName_isRefused() {
    assertThrows(IllegalArgumentException.class, () -> Row.plain(" ", 1, "us"));
  }
}
