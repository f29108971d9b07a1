package io.kvtier.reference;

import io.kvtier.daemon.config.ConfigLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** The manual page kvtier.yaml(5), from the configuration that is embedded in the daemon. */
public final class ConfigurationManual {
  private static final String HEAD =
      """
      .TH "KVTIER.YAML" "5" "" "kvtier" "kvtier"
      .SH NAME
      kvtier.yaml \\- configuration of kvtierd
      .SH DESCRIPTION
      """;
  private static final String KEYS =
      """
      .PP
      The file is YAML. Below, a key is written with its section: host.bytes is the key bytes of the section host.
      """;
  private static final String END =
      """
      .SH FILES
      .TP
      \\fI/etc/kvtier/kvtier.yaml\\fR
      Configuration of the service. The daemon reads it at its start, and again by \\fBsystemctl reload kvtierd\\fR.
      .SH SEE ALSO
      \\fBkvtierd\\fR(8), \\fBkvtier\\fR(1)
      """;

  private ConfigurationManual() {}

  /** Writes the page into a file. */
  public static void main(String[] arguments) throws Exception {
    Files.writeString(Path.of(arguments[0]), text());
  }

  /** The page, in the macros of man. */
  static String text() {
    String yaml = ConfigLoader.defaults();
    StringBuilder page = new StringBuilder(HEAD);
    page.append(roff(ConfigurationPage.head(yaml))).append('\n').append(KEYS);
    for (ConfigurationPage.Key key : ConfigurationPage.keys(yaml)) {
      boolean isTop = key.name().indexOf('.') < 0;
      if (isTop) {
        page.append(".SH \"").append(key.name().toUpperCase(Locale.ROOT)).append("\"\n");
      } else if (key.section()) {
        page.append(".SS \"").append(key.name()).append("\"\n");
      }
      if (key.section()) {
        page.append(key.comment().isEmpty() ? "" : ".PP\n" + roff(key.comment()) + "\n");
      } else {
        page.append(".TP\n\\fB").append(roff(key.name())).append("\\fR (default: ");
        page.append(roff(key.value().equals("\"\"") ? "empty" : key.value())).append(")\n");
        page.append(key.comment().isEmpty() ? "\\&" : roff(key.comment())).append('\n');
      }
    }
    return page.append(END).toString();
  }

  /** A text without requests of roff. */
  static String roff(String text) {
    String escaped = text.replace("\\", "\\e").replace("-", "\\-");
    return escaped.startsWith(".") || escaped.startsWith("'") ? "\\&" + escaped : escaped;
  }
}
