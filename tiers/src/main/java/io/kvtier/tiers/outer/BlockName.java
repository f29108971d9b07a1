package io.kvtier.tiers.outer;

import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.transfer.Transfer;
import java.util.HexFormat;

/**
 * The name of a block. The key stands for the tokens of the block and all tokens before them. The
 * namespace stands for everything else that determines the bytes, such as the model, its weights
 * and the layout.
 *
 * @param namespace the fingerprint of the namespace, 32 hexadecimal digits, as {@code kvtier
 *     namespaces} shows it
 * @param key the key, in hexadecimal digits
 * @param group the group of layers
 */
public record BlockName(String namespace, String key, int group) {
  /** The block that a transfer is about. */
  static BlockName of(Transfer transfer) {
    HexFormat hex = HexFormat.of();
    return new BlockName(
        hex.toHexDigits(transfer.namespaceHigh) + hex.toHexDigits(transfer.namespaceLow),
        hex.formatHex(transfer.key, 0, transfer.keyBytes),
        transfer.group);
  }

  /** The block whose object has a name of {@link ObjectNames#ofBlock}. */
  static BlockName ofObject(String name) {
    Transfer transfer = new Transfer(0);
    if (!ObjectNames.readBlock(name, transfer)) {
      throw new IllegalArgumentException("'" + name + "' is no name of a block's object");
    }
    return of(transfer);
  }
}
