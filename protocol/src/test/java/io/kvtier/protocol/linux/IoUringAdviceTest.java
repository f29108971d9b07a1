package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class IoUringAdviceTest {
  @ParameterizedTest
  @CsvSource({
    Errno.ENOSYS + ",'',Linux 5.10",
    Errno.EPERM + ",'',seccomp",
    Errno.EPERM + ",0,seccomp",
    Errno.EACCES + ",0,security module",
    Errno.EPERM + ",1,kernel.io_uring_group",
    Errno.EPERM + ",2,sysctl kernel.io_uring_disabled=0",
    Errno.ENOMEM + ",0,LimitMEMLOCK",
    Errno.EMFILE + ",0,LimitNOFILE",
    Errno.EINVAL + ",0,Linux 5.10"
  })
  void advice_errno_saysWhatToDo(int errno, String setting, String expected) {
    String advice = IoUring.advice(errno, setting);
    assertTrue(advice.contains(expected), advice);
  }
}
