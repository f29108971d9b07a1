package io.kvtier.daemon.http;

import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.json.schema.Draft;
import io.vertx.json.schema.JsonSchema;
import io.vertx.json.schema.JsonSchemaOptions;
import io.vertx.json.schema.OutputFormat;
import io.vertx.json.schema.OutputUnit;
import io.vertx.json.schema.Validator;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/** The OpenAPI file of the distribution, which answers are held to. */
public final class ApiDescription {
  private static final Path CONFIG = Path.of("..", "config");

  private final JsonObject description;

  private ApiDescription(JsonObject description) {
    this.description = description;
  }

  /** Reads it. */
  public static ApiDescription read() {
    try {
      return new ApiDescription(new JsonObject(yaml("openapi.yaml")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A YAML file of the distribution, as JSON. */
  static String yaml(String file) throws IOException {
    Load load = new Load(LoadSettings.builder().build());
    return Json.encode(plain(load.loadFromString(Files.readString(CONFIG.resolve(file)))));
  }

  private static Object plain(Object yaml) {
    return switch (yaml) {
      case Map<?, ?> map -> {
        JsonObject object = new JsonObject();
        map.forEach(
            (key, value) -> object.put(String.valueOf(key), value == null ? null : plain(value)));
        yield object;
      }
      case List<?> list -> {
        JsonArray array = new JsonArray();
        list.forEach(item -> array.add(plain(item)));
        yield array;
      }
      default -> yaml;
    };
  }

  /** All paths. */
  Set<String> paths() {
    return description.getJsonObject("paths").fieldNames();
  }

  /** What the answer of a path with that status has, by type. */
  JsonObject content(String path, String status) {
    JsonObject operation =
        description.getJsonObject("paths").getJsonObject(path).getJsonObject("get");
    return operation.getJsonObject("responses").getJsonObject(status).getJsonObject("content");
  }

  /** Holds a path's answer to its schema. */
  public OutputUnit validate(String path, Object answer) {
    return validate(
        content(path, "200").getJsonObject("application/json").getJsonObject("schema"), answer);
  }

  OutputUnit validate(JsonObject schema, Object answer) {
    JsonObject whole =
        new JsonObject()
            .put("allOf", new JsonArray().add(schema))
            .put("$defs", description.getJsonObject("components").getJsonObject("schemas"));
    JsonObject local = new JsonObject(whole.encode().replace("#/components/schemas/", "#/$defs/"));
    return Validator.create(
            JsonSchema.of(local),
            new JsonSchemaOptions()
                .setBaseUri("https://kvtier.invalid")
                .setDraft(Draft.DRAFT202012)
                .setOutputFormat(OutputFormat.Basic))
        .validate(answer);
  }
}
