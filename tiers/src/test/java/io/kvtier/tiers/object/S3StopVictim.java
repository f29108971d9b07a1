package io.kvtier.tiers.object;

import java.lang.foreign.Arena;
import java.net.URI;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Puts an object when its Java machine has begun to shut down, and prints how that ended. */
final class S3StopVictim {
  static final String NAME = "v/at-the-end";
  static final int BYTES = 100_000;

  private S3StopVictim() {}

  public static void main(String[] arguments) {
    S3ObjectStore store =
        new S3ObjectStore(
            S3Options.of(URI.create(arguments[0]), "us-east-1", S3Server.BUCKET),
            S3Server.credentials());
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(store)));
    System.exit(0);
  }

  private static void stop(S3ObjectStore store) {
    try {
      // The client's own hook runs beside this one, and shall be through with it.
      Thread.sleep(500);
      System.out.println(
          store
              .put(
                  NAME,
                  List.of(Arena.global().allocate(BYTES)),
                  false,
                  TimeUnit.SECONDS.toNanos(30))
              .result()
              .get(40, TimeUnit.SECONDS));
    } catch (Exception e) {
      System.out.println(e);
    }
    store.close();
  }
}
