package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.FolderObjectStore;
import io.kvtier.tiers.object.ObjectStore;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;

final class FolderJanitorTest extends JanitorContract {
  @TempDir private Path folder;

  @Override
  ObjectStore open() throws IOException {
    return new FolderObjectStore(folder, 4);
  }
}
