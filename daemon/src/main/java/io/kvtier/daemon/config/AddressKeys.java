package io.kvtier.daemon.config;

import io.kvtier.tiers.node.NodeAddress;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Reads keys whose values are addresses of nodes. */
final class AddressKeys {
  private final KeyReader keys;

  AddressKeys(KeyReader keys) {
    this.keys = keys;
  }

  /** One address; null: it is empty, or wrong. */
  @Nullable NodeAddress one(String key) {
    String text = keys.text(key);
    return text.isEmpty() ? null : parsed(key, text, "HOST:PORT");
  }

  /** Some addresses, each of which stands there once; empty if one is wrong. */
  List<NodeAddress> some(String key) {
    List<NodeAddress> addresses = new ArrayList<>();
    for (String text : keys.list(key)) {
      NodeAddress address = parsed(key, text, "HOST:PORT of each node");
      if (address != null) {
        addresses.add(address);
      }
    }
    keys.require(key, new HashSet<>(addresses).size() == addresses.size(), "each node only once");
    return keys.isMistaken(key) ? List.of() : addresses;
  }

  private @Nullable NodeAddress parsed(String key, String text, String expected) {
    try {
      return NodeAddress.of(text);
    } catch (IllegalArgumentException e) {
      keys.require(key, false, expected + "; " + e.getMessage());
      return null;
    }
  }
}
