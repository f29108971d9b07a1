package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.MethodDescriptor;
import com.google.protobuf.Descriptors.ServiceDescriptor;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The page of the gRPC interface: its structure from the compiled file, its comments from the
 * source.
 */
final class GrpcPage {
  private static final Pattern DECLARATION =
      Pattern.compile(
          "^(?:service|message|enum|oneof|rpc)\\s+(\\w+)|^(?:[\\w.<>, ]+\\s)?(\\w+)\\s*=\\s*\\d+");

  private final Map<String, String> comments;
  private final FileDescriptor file;

  GrpcPage(FileDescriptor file, String source) {
    this.file = file;
    this.comments = comments(source);
  }

  String text() {
    Markdown page = new Markdown("gRPC");
    page.paragraph("Package " + code(file.getPackage()) + ", file " + code(file.getName()) + ".");
    page.paragraph(comment(""));
    for (ServiceDescriptor service : file.getServices()) {
      page.heading(2, "Service " + code(service.getName()), anchor(service.getName()));
      page.paragraph(comment(service.getName()));
      for (MethodDescriptor method : service.getMethods()) {
        page.heading(3, code(method.getName()), anchor(method.getName()));
        page.paragraph(
            (method.isClientStreaming() ? "A stream of " : "")
                + link(method.getInputType().getName())
                + " → "
                + (method.isServerStreaming() ? "a stream of " : "")
                + link(method.getOutputType().getName()));
        page.paragraph(comment(service.getName() + "." + method.getName()));
      }
    }
    page.heading(2, "Messages", "messages");
    file.getMessageTypes().forEach(message -> message(page, message));
    page.heading(2, "Enumerations", "enumerations");
    file.getEnumTypes().forEach(one -> enumeration(page, one));
    return page.toString();
  }

  private void message(Markdown page, Descriptor message) {
    page.heading(3, code(message.getName()), anchor(message.getName()));
    page.paragraph(comment(message.getName()));
    List<List<String>> rows = new ArrayList<>();
    for (FieldDescriptor field : message.getFields()) {
      rows.add(
          List.of(
              String.valueOf(field.getNumber()),
              code(field.getName()),
              type(field),
              comment(message.getName() + "." + field.getName())));
    }
    if (rows.isEmpty()) {
      page.paragraph("No fields.");
    } else {
      page.table(List.of("Number", "Field", "Type", "Meaning"), rows);
    }
  }

  private void enumeration(Markdown page, EnumDescriptor enumeration) {
    page.heading(3, code(enumeration.getName()), anchor(enumeration.getName()));
    page.paragraph(comment(enumeration.getName()));
    List<List<String>> rows = new ArrayList<>();
    for (EnumValueDescriptor value : enumeration.getValues()) {
      rows.add(
          List.of(
              String.valueOf(value.getNumber()),
              code(value.getName()),
              comment(enumeration.getName() + "." + value.getName())));
    }
    page.table(List.of("Number", "Name", "Meaning"), rows);
  }

  private String type(FieldDescriptor field) {
    if (field.isMapField()) {
      List<FieldDescriptor> parts = field.getMessageType().getFields();
      return "map of " + word(parts.get(0)) + " to " + word(parts.get(1));
    }
    return (field.isRepeated() ? "repeated " : "") + word(field);
  }

  private String word(FieldDescriptor field) {
    return switch (field.getJavaType()) {
      case MESSAGE -> link(field.getMessageType().getName());
      case ENUM -> link(field.getEnumType().getName());
      default -> code(field.getType().name().toLowerCase(Locale.ROOT));
    };
  }

  private static String link(String name) {
    return "[" + code(name) + "](#" + anchor(name) + ")";
  }

  private static String anchor(String name) {
    return name.toLowerCase(Locale.ROOT);
  }

  private String comment(String name) {
    return escaped(comments.getOrDefault(name, ""));
  }

  /** The comment above each declaration, by its name with those of what it stands in. */
  static Map<String, String> comments(String source) {
    Map<String, String> found = new HashMap<>();
    Deque<String> within = new ArrayDeque<>();
    List<String> comment = new ArrayList<>();
    for (String line : source.lines().map(String::strip).toList()) {
      Matcher declaration = DECLARATION.matcher(line);
      if (line.startsWith("//")) {
        comment.add(line.substring(2).strip());
        continue;
      }
      if (line.startsWith("syntax")) {
        found.put("", paragraphs(comment));
      } else if (declaration.find()) {
        String name = declaration.group(1) != null ? declaration.group(1) : declaration.group(2);
        // The fields of a oneof are fields of its message.
        List<String> path = new ArrayList<>(within.stream().filter(one -> !one.isEmpty()).toList());
        path.add(name);
        found.put(String.join(".", path), paragraphs(comment));
        if (line.endsWith("{")) {
          within.addLast(line.startsWith("oneof") ? "" : name);
        }
      }
      if (line.equals("}")) {
        within.removeLast();
      }
      // The head of the file has an empty line before what it belongs to.
      if (!line.isEmpty() || !within.isEmpty()) {
        comment.clear();
      }
    }
    return found;
  }

  private static String paragraphs(List<String> comment) {
    StringBuilder text = new StringBuilder();
    for (String line : comment) {
      text.append(line.isEmpty() ? "\n\n" : line + " ");
    }
    return text.toString().replace("  ", " ").strip();
  }
}
