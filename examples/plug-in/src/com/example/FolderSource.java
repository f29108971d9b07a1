package com.example;

import io.kvtier.tiers.outer.BlockName;
import io.kvtier.tiers.outer.OuterSource;
import io.kvtier.tiers.outer.OuterSourceProvider;
import io.kvtier.tiers.outer.OuterSourceSetup;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Blocks in the files of a folder, written by another program: {@code NAMESPACE/KEY.GROUP}. A file
 * has the CRC-32C of the block in four bytes, little-endian, and then the block.
 */
public final class FolderSource implements OuterSource {
  /** Opens the source. */
  public static final class Provider implements OuterSourceProvider {
    @Override
    public String name() {
      return "folder";
    }

    @Override
    public OuterSource open(OuterSourceSetup setup) throws IOException {
      Path folder = Path.of(setup.required("path"));
      if (!Files.isDirectory(folder)) {
        throw new IOException("path '" + folder + "' is no folder; expected one with blocks");
      }
      return new FolderSource(folder);
    }
  }

  private final Path folder;

  private FolderSource(Path folder) {
    this.folder = folder;
  }

  private Path file(BlockName block) {
    return folder.resolve(block.namespace()).resolve(block.key() + "." + block.group());
  }

  @Override
  public boolean has(BlockName block) {
    return Files.exists(file(block));
  }

  @Override
  public long read(BlockName block, MemorySegment target) throws IOException {
    try (FileChannel file = FileChannel.open(file(block), StandardOpenOption.READ)) {
      ByteBuffer checksum = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      fill(file, checksum);
      fill(file, target.asByteBuffer());
      return Integer.toUnsignedLong(checksum.getInt(0));
    } catch (NoSuchFileException e) {
      return ABSENT;
    }
  }

  private static void fill(FileChannel file, ByteBuffer buffer) throws IOException {
    while (buffer.hasRemaining()) {
      if (file.read(buffer) < 0) {
        throw new EOFException("the file is shorter than a block");
      }
    }
  }
}
