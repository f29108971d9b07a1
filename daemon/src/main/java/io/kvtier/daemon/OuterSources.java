package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.PluginsConfig;
import io.kvtier.daemon.config.KvtierdConfig.SourceConfig;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.OuterBlocks;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.outer.OuterSource;
import io.kvtier.tiers.outer.OuterSourceProvider;
import io.kvtier.tiers.outer.OuterSourceSetup;
import io.kvtier.tiers.outer.OuterTier;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;

/** The sources of blocks that plug-ins bring and the configuration names. */
final class OuterSources implements AutoCloseable {
  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final List<BlockSource.Opener> openers = new ArrayList<>();

  /**
   * Opens the configured sources.
   *
   * @param bell wakes the index
   * @param defect receives failures that should never happen
   * @throws IOException naming the source that can't be opened, and why
   */
  OuterSources(PluginsConfig config, Runnable bell, Consumer<Throwable> defect) throws IOException {
    try {
      for (SourceConfig source : config.sources()) {
        OuterTier tier =
            new OuterTier(source.name(), open(config, source), source.threads(), bell, defect);
        parts.push(tier);
        openers.add(OuterBlocks.opener(tier, bell));
      }
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  private static OuterSource open(PluginsConfig config, SourceConfig source) throws IOException {
    OuterSourceProvider provider =
        Objects.requireNonNull(config.plugins().source(source.name()), source.name());
    String why;
    try {
      OuterSourceSetup setup = new OuterSourceSetup(source.options());
      OuterSource opened = provider.open(setup);
      if (opened != null) {
        setup.requireAllRead();
        return opened;
      }
      why = "its provider opened none (null); ask the author of the plug-in";
    } catch (IllegalArgumentException e) {
      why = String.valueOf(e.getMessage());
    } catch (IOException e) {
      why = FileErrors.words(e);
    } catch (RuntimeException | LinkageError e) {
      why = "its provider failed: " + e + "; ask the author of the plug-in";
    }
    throw new IOException("plugins.sources: '" + source.name() + "' can't be opened: " + why);
  }

  /** Makes the sources for an index, in the configured order. */
  List<BlockSource.Opener> openers() {
    return openers;
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
