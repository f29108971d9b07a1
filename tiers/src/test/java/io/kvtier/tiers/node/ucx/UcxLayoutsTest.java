package io.kvtier.tiers.node.ucx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The numbers of {@link UcxLayouts} are those of the header that scripts/test installs. */
class UcxLayoutsTest {
  private static final Path HEADERS = Path.of("../target/ucx/libucx/include");

  private static String equal(String expression, long value) {
    return "_Static_assert((long)(%s) == %d, \"%s\");%n".formatted(expression, value, expression);
  }

  private static String room(String type, int bytes) {
    return "_Static_assert(sizeof(%s) <= %d, \"%s\");%n".formatted(type, bytes, type);
  }

  private static String source() {
    return "#include <stddef.h>\n#include <ucp/api/ucp.h>\n"
        + room("ucp_params_t", UcxLayouts.PARAMS_BYTES)
        + room("ucp_worker_params_t", UcxLayouts.WORKER_PARAMS_BYTES)
        + room("ucp_ep_params_t", UcxLayouts.ENDPOINT_PARAMS_BYTES)
        + room("ucp_request_param_t", UcxLayouts.REQUEST_PARAM_BYTES)
        + equal("sizeof(ucs_status_t)", 1)
        + equal("offsetof(ucp_params_t, field_mask)", 0)
        + equal("offsetof(ucp_params_t, features)", UcxLayouts.PARAMS_FEATURES_OFFSET)
        + equal("UCP_PARAM_FIELD_FEATURES", UcxLayouts.PARAM_FIELD_FEATURES)
        + equal("UCP_FEATURE_TAG", UcxLayouts.FEATURE_TAG)
        + equal("UCP_FEATURE_WAKEUP", UcxLayouts.FEATURE_WAKEUP)
        + equal("offsetof(ucp_worker_params_t, field_mask)", 0)
        + equal("offsetof(ucp_worker_params_t, thread_mode)", UcxLayouts.WORKER_THREAD_MODE_OFFSET)
        + equal("UCP_WORKER_PARAM_FIELD_THREAD_MODE", UcxLayouts.WORKER_FIELD_THREAD_MODE)
        + equal("UCS_THREAD_MODE_SINGLE", UcxLayouts.THREAD_MODE_SINGLE)
        + equal("offsetof(ucp_ep_params_t, field_mask)", 0)
        + equal("offsetof(ucp_ep_params_t, address)", UcxLayouts.ENDPOINT_ADDRESS_OFFSET)
        + equal("offsetof(ucp_ep_params_t, err_mode)", UcxLayouts.ENDPOINT_ERROR_MODE_OFFSET)
        + equal(
            "offsetof(ucp_ep_params_t, err_handler.cb)", UcxLayouts.ENDPOINT_ERROR_HANDLER_OFFSET)
        + equal("UCP_EP_PARAM_FIELD_REMOTE_ADDRESS", UcxLayouts.ENDPOINT_FIELD_ADDRESS)
        + equal("UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE", UcxLayouts.ENDPOINT_FIELD_ERROR_MODE)
        + equal("UCP_EP_PARAM_FIELD_ERR_HANDLER", UcxLayouts.ENDPOINT_FIELD_ERROR_HANDLER)
        + equal("UCP_ERR_HANDLING_MODE_PEER", UcxLayouts.ERROR_MODE_PEER)
        + equal("offsetof(ucp_request_param_t, op_attr_mask)", 0)
        + equal("offsetof(ucp_request_param_t, flags)", UcxLayouts.REQUEST_FLAGS_OFFSET)
        + equal("UCP_OP_ATTR_FIELD_FLAGS", UcxLayouts.REQUEST_FIELD_FLAGS)
        + equal("UCP_EP_CLOSE_FLAG_FORCE", UcxLayouts.CLOSE_BY_FORCE)
        + equal("UCS_OK", UcxLayouts.OK)
        + equal("UCS_INPROGRESS", UcxLayouts.IN_PROGRESS)
        + equal("UCS_ERR_MESSAGE_TRUNCATED", UcxLayouts.MESSAGE_TRUNCATED)
        + equal("UCS_ERR_BUSY", UcxLayouts.BUSY)
        + equal("UCS_ERR_CANCELED", UcxLayouts.CANCELED);
  }

  @Test
  void numbers_areThoseOfTheHeader(@TempDir Path folder) throws Exception {
    // scripts/test has installed the headers, and the Python client needs a compiler.
    boolean isNeeded = System.getenv("KVTIER_TESTS_NEED_UCX") != null;
    assumeTrue(isNeeded || Files.isDirectory(HEADERS), "no headers of UCX in target/ucx");
    Path source = Files.writeString(folder.resolve("layouts.c"), source());
    assertEquals("", compile(source));
  }

  private static String compile(Path source) throws IOException, InterruptedException {
    Process compiler =
        new ProcessBuilder("cc", "-fsyntax-only", "-I" + HEADERS, source.toString())
            .redirectErrorStream(true)
            .start();
    byte[] said = compiler.getInputStream().readAllBytes();
    var _ = compiler.waitFor(1, TimeUnit.MINUTES);
    return new String(said, StandardCharsets.UTF_8);
  }
}
