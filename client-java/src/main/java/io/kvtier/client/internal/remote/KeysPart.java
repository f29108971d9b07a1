package io.kvtier.client.internal.remote;

import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.internal.shared.CopyArguments;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.v1.PutHeader;
import java.util.List;

/** The keys of a batch that go in one call. */
record KeysPart(Keys keys, int from, int count, Options options, long deadlineNs) {
  static KeysPart at(int from, Keys keys, Options options, long deadlineNs) {
    return new KeysPart(
        keys, from, Math.min(Protocol.KEYS_MAX, keys.count() - from), options, deadlineNs);
  }

  int end() {
    return from + count;
  }

  <T> List<T> of(List<T> batch) {
    return batch.subList(from, end());
  }

  /** The header of a put; the annotations may be none. */
  PutHeader putHeader(long namespaceId, List<byte[]> annotations) {
    PutHeader.Builder header =
        PutHeader.newBuilder().setKeys(message(namespaceId)).setImportance(options.importance());
    annotations.forEach(
        annotation -> header.addAnnotations(UnsafeByteOperations.unsafeWrap(annotation)));
    return header.build();
  }

  /** The keys; the key before them is their parent. */
  io.kvtier.protocol.v1.Keys message(long namespaceId) {
    Options own = CopyArguments.at(options, keys, from);
    io.kvtier.protocol.v1.Keys.Builder message =
        io.kvtier.protocol.v1.Keys.newBuilder()
            .setNamespaceId(namespaceId)
            .setGroup(own.group())
            .setDepth(own.depth());
    for (int i = from; i < end(); i++) {
      message.addKeys(UnsafeByteOperations.unsafeWrap(keys.get(i)));
    }
    Keys parent = own.parent();
    if (parent != null) {
      message.setParent(UnsafeByteOperations.unsafeWrap(parent.get(0)));
    }
    return message.build();
  }
}
