package io.kvtier.reference;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

/** What would break a page. */
final class MarkdownTest {
  @Test
  void table_cellWithABarOrALineBreak_staysOneCell() {
    String page =
        new Markdown("T").table(List.of("A"), List.of(List.of("one|two\nthree"))).toString();

    assertEquals("# T\n\n| A |\n| --- |\n| one\\|two three |\n\n", page);
  }

  @Test
  void escaped_textWithMarkup_isShownAsItIs() {
    assertEquals("a\\_b &lt;c&gt; `d_<e>` \\[f\\]", Markdown.escaped("a_b <c> `d_<e>` [f]"));
  }
}
