package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class NotifySocketTest {
  private static final int AF_UNIX = 1;
  private static final int SOCK_DGRAM = 2;

  @TempDir private Path folder;

  @Test
  void send_path_arrivesWhole() throws Throwable {
    String path = folder.resolve("notify").toString();
    try (Descriptor manager = bound(path.getBytes(StandardCharsets.UTF_8));
        NotifySocket socket = NotifySocket.to(path)) {
      socket.send("READY=1\nSTATUS=päckchen");
      socket.send("WATCHDOG=1");
      assertEquals("READY=1\nSTATUS=päckchen", received(manager));
      assertEquals("WATCHDOG=1", received(manager));
    }
  }

  @Test
  void send_abstractName_arrives() throws Throwable {
    String name = "kvtier-test-" + UUID.randomUUID();
    try (Descriptor manager = bound(("\0" + name).getBytes(StandardCharsets.UTF_8));
        NotifySocket socket = NotifySocket.to("@" + name)) {
      socket.send("STOPPING=1");
      assertEquals("STOPPING=1", received(manager));
    }
  }

  @Test
  void send_nobodyListens_saysWhere() throws IOException {
    String path = folder.resolve("nobody").toString();
    try (NotifySocket socket = NotifySocket.to(path)) {
      IOException refused = assertThrows(IOException.class, () -> socket.send("READY=1"));
      assertTrue(String.valueOf(refused.getMessage()).contains(path), refused.toString());
    }
  }

  @Test
  void to_neitherPathNorName_isRefused() {
    IOException refused = assertThrows(IOException.class, () -> NotifySocket.to("vsock:2:1234"));
    assertTrue(String.valueOf(refused.getMessage()).contains("vsock:2:1234"), refused.toString());
  }

  @Test
  void to_tooLong_isRefused() {
    IOException refused =
        assertThrows(IOException.class, () -> NotifySocket.to("/" + "x".repeat(108)));
    assertTrue(String.valueOf(refused.getMessage()).contains("at most 108"), refused.toString());
  }

  private static Descriptor bound(byte[] name) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      Descriptor socket =
          new Descriptor((int) Libc.SOCKET.invokeExact(Libc.capture(), AF_UNIX, SOCK_DGRAM, 0));
      MemorySegment address = arena.allocate(2 + name.length, 8);
      address.set(JAVA_SHORT, 0, (short) AF_UNIX);
      MemorySegment.copy(name, 0, address, JAVA_BYTE, 2, name.length);
      int code =
          (int)
              Libc.BIND.invokeExact(
                  Libc.capture(), socket.number(), address, (int) address.byteSize());
      assertEquals(0, code);
      return socket;
    }
  }

  private static String received(Descriptor socket) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment data = arena.allocate(4096);
      MemorySegment iovec = arena.allocate(16, 8);
      iovec.set(ADDRESS, 0, data);
      iovec.set(JAVA_LONG, 8, data.byteSize());
      MemorySegment header = arena.allocate(56, 8);
      header.set(ADDRESS, 16, iovec);
      header.set(JAVA_LONG, 24, 1L);
      long bytes = (long) Libc.RECVMSG.invokeExact(Libc.capture(), socket.number(), header, 0);
      return new String(data.asSlice(0, bytes).toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
  }
}
