package io.kvtier.tiers.node.ucx;

/**
 * The numbers of {@code ucp/api/ucp.h} and {@code ucs/type/status.h} that are used here. They are
 * equal in UCX 1.13 to 1.22. A wrong one lets UCX end the process, so a test compares them with the
 * header.
 */
final class UcxLayouts {
  /** The oldest version of the interface that has these numbers: 1.13. */
  static final int MAJOR = 1;

  static final int MINOR = 13;

  // ucp_params_t
  static final int PARAMS_BYTES = 128;
  static final int PARAMS_FEATURES_OFFSET = 8;
  static final long PARAM_FIELD_FEATURES = 1;
  static final long FEATURE_TAG = 1;
  static final long FEATURE_WAKEUP = 16;

  // ucp_worker_params_t
  static final int WORKER_PARAMS_BYTES = 256;
  static final int WORKER_THREAD_MODE_OFFSET = 8;
  static final long WORKER_FIELD_THREAD_MODE = 1;
  static final int THREAD_MODE_SINGLE = 0;

  // ucp_ep_params_t
  static final int ENDPOINT_PARAMS_BYTES = 128;
  static final int ENDPOINT_ADDRESS_OFFSET = 8;
  static final int ENDPOINT_ERROR_MODE_OFFSET = 16;
  static final int ENDPOINT_ERROR_HANDLER_OFFSET = 24;
  static final long ENDPOINT_FIELD_ADDRESS = 1;
  static final long ENDPOINT_FIELD_ERROR_MODE = 2;
  static final long ENDPOINT_FIELD_ERROR_HANDLER = 4;
  static final int ERROR_MODE_PEER = 1;

  // ucp_request_param_t
  static final int REQUEST_PARAM_BYTES = 128;
  static final int REQUEST_FLAGS_OFFSET = 4;
  static final int REQUEST_FIELD_FLAGS = 16;
  static final int CLOSE_BY_FORCE = 1;

  // ucs_status_t, which has one byte
  static final byte OK = 0;
  static final byte IN_PROGRESS = 1;
  static final byte MESSAGE_TRUNCATED = -9;
  static final byte BUSY = -15;
  static final byte CANCELED = -16;

  private UcxLayouts() {}
}
