package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import io.kvtier.daemon.access.VerbRoles;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** The page of status codes, verbs, roles and tiers. */
final class StatusPage {
  private StatusPage() {}

  static String text() {
    Markdown page = new Markdown("Status codes, verbs and roles");
    page.heading(2, "Status codes", "status-codes");
    page.paragraph(
        "Every operation and every block of an operation ends with one of these. The numbers are the"
            + " same on the local rings, in gRPC (with the prefix `STATUS_`), in Java and in Python.");
    page.table(
        List.of("Number", "Name", "Meaning"),
        Arrays.stream(Status.values())
            .map(one ->
                List.of(String.valueOf(one.code()), code(one.name()), sentence(one.meaning())))
            .toList());
    page.heading(2, "Verbs", "verbs");
    page.paragraph("What a client can ask for, and the least role that a caller needs for it.");
    page.table(
        List.of("Number", "Verb", "Least role", "Body of the request"),
        Arrays.stream(Verb.values())
            .map(one ->
                List.of(
                    String.valueOf(one.code()),
                    code(one.name()),
                    code(VerbRoles.needed(one).word()),
                    one.body().name().toLowerCase(Locale.ROOT).replace('_', ' ')))
            .toList());
    page.heading(2, "Roles", "roles");
    page.paragraph("Each role has the permissions of the roles before it.");
    page.table(
        List.of("Role", "Verbs that need it"),
        Arrays.stream(Role.values())
            .map(role ->
                List.of(
                    code(role.word()),
                    String.join(
                        ", ",
                        Arrays.stream(Verb.values())
                            .filter(verb -> VerbRoles.needed(verb) == role)
                            .map(verb -> code(verb.name()))
                            .toList())))
            .toList());
    page.heading(2, "Tiers", "tiers");
    page.table(
        List.of("Number", "Tier"),
        Arrays.stream(TierId.values())
            .map(one -> List.of(String.valueOf(one.code()), code(one.name())))
            .toList());
    return page.toString();
  }

  private static String sentence(String meaning) {
    return escaped(meaning.substring(0, 1).toUpperCase(Locale.ROOT) + meaning.substring(1) + ".");
  }
}
