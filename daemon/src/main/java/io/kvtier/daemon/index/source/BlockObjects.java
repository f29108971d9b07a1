package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;

/** The names and keys of blocks' objects. Confined to the index. */
final class BlockObjects {
  private final Directory directory;
  private final Namespaces namespaces;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];

  BlockObjects(Directory directory, Namespaces namespaces) {
    this.directory = directory;
    this.namespaces = namespaces;
  }

  /** The key of a block's object. */
  ObjectKey keyOf(int block) {
    directory.copyKey(block, key);
    return key(namespaces.of(directory, block), directory.keyBytes(block), directory.group(block));
  }

  /** The name of a block's object. */
  String nameOf(int block) {
    directory.copyKey(block, key);
    return name(namespaces.of(directory, block), directory.keyBytes(block), directory.group(block));
  }

  /** The key of the object for the block key that was sought last. */
  ObjectKey keyOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    directory.copySought(key);
    return key(namespace, keyBytes, group);
  }

  /** The name of the object for the block key that was sought last. */
  String nameOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    directory.copySought(key);
    return name(namespace, keyBytes, group);
  }

  private ObjectKey key(Namespaces.Namespace namespace, int keyBytes, int group) {
    return ObjectKey.of(namespace.high(), namespace.low(), key, keyBytes, group);
  }

  private String name(Namespaces.Namespace namespace, int keyBytes, int group) {
    return ObjectNames.ofBlock(namespace.high(), namespace.low(), key, keyBytes, group);
  }
}
