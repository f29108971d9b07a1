package io.kvtier.tiers.object;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.DeleteObjectsResponse;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.MultipartUpload;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Error;
import software.amazon.awssdk.services.s3.model.S3Object;

/** A bucket of a server that speaks S3, or the part of one behind a prefix. */
public final class S3ObjectStore implements ObjectStore {
  private final S3Options options;
  private final S3AsyncClient client;
  private final StoreCalls calls = new StoreCalls("s3-deadlines");
  private final AtomicBoolean closed = new AtomicBoolean();

  /** Connects when it is first used. */
  public S3ObjectStore(S3Options options) {
    this(options, chain(options));
  }

  /** A store with the caller's credentials. */
  public S3ObjectStore(S3Options options, AwsCredentialsProvider credentials) {
    this.options = options;
    CrtLife.acquire();
    try {
      client = S3Clients.create(options, credentials);
    } catch (RuntimeException e) {
      CrtLife.release();
      throw e;
    }
  }

  private static AwsCredentialsProvider chain(S3Options options) {
    DefaultCredentialsProvider.Builder builder = DefaultCredentialsProvider.builder();
    return options.profile().isEmpty()
        ? builder.build()
        : builder.profileName(options.profile()).build();
  }

  @Override
  public StoreCall put(String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs) {
    String key = key(name);
    StoreCall call = calls.begin(timeoutNs);
    long bytes = parts.stream().mapToLong(MemorySegment::byteSize).sum();
    return run(
        call,
        () ->
            client.putObject(putRequest(key, parts, ifAbsent), new SegmentBody(call.views(parts))),
        _ -> new StoreResult.Done(bytes),
        thrown -> S3Errors.ofPut(thrown, ifAbsent));
  }

  private PutObjectRequest putRequest(String key, List<MemorySegment> parts, boolean ifAbsent) {
    PutObjectRequest.Builder request =
        PutObjectRequest.builder().bucket(options.bucket().name()).key(key);
    if (ifAbsent) {
      request.ifNoneMatch("*");
    }
    S3Options.Writing writing = options.writing();
    if (!writing.encryption().isEmpty()) {
      request.serverSideEncryption(writing.encryption());
    }
    if (!writing.kmsKey().isEmpty()) {
      request.ssekmsKeyId(writing.kmsKey());
    }
    if (!writing.storageClass().isEmpty()) {
      request.storageClass(writing.storageClass());
    }
    if (options.checksums() == S3Options.ChecksumMode.WHEN_SUPPORTED) {
      request.checksumCRC32C(checksum(parts));
    }
    return request.build();
  }

  /** As the header has it: big-endian, in base 64. */
  private static String checksum(List<MemorySegment> parts) {
    CRC32C crc = new CRC32C();
    for (MemorySegment part : parts) {
      crc.update(part.asByteBuffer());
    }
    byte[] bytes = ByteBuffer.allocate(Integer.BYTES).putInt((int) crc.getValue()).array();
    return Base64.getEncoder().encodeToString(bytes);
  }

  @Override
  public StoreCall get(String name, long offset, List<MemorySegment> parts, long timeoutNs) {
    return read(name, offset, parts, null, timeoutNs);
  }

  @Override
  public StoreCall get(
      String name, long offset, List<MemorySegment> parts, PartDigest digest, long timeoutNs) {
    return read(name, offset, parts, digest, timeoutNs);
  }

  private StoreCall read(
      String name,
      long offset,
      List<MemorySegment> parts,
      @Nullable PartDigest digest,
      long timeoutNs) {
    String key = key(name);
    long bytes = parts.stream().mapToLong(MemorySegment::byteSize).sum();
    if (offset < 0 || bytes == 0) {
      throw new IllegalArgumentException(
          "a get reads at least a byte, from the offset 0 on: " + bytes + " at " + offset);
    }
    StoreCall call = calls.begin(timeoutNs);
    GetObjectRequest request =
        GetObjectRequest.builder()
            .bucket(options.bucket().name())
            .key(key)
            .range("bytes=" + offset + "-" + (offset + bytes - 1))
            .build();
    return run(
        call,
        () -> client.getObject(request, new SegmentSink(call.views(parts), digest)),
        Function.identity());
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    String key = key(name);
    return run(
        calls.begin(timeoutNs),
        () -> client.headObject(request -> request.bucket(options.bucket().name()).key(key)),
        S3ObjectStore::length);
  }

  private static StoreResult length(HeadObjectResponse response) {
    Long length = response.contentLength();
    return length == null
        ? new StoreResult.Unavailable("the store does not say how long the object is")
        : new StoreResult.Done(length);
  }

  @Override
  public StoreCall list(String prefix, String after, int max, long timeoutNs) {
    checkCount(max);
    return run(
        calls.begin(timeoutNs),
        () ->
            client.listObjectsV2(request -> {
              request.bucket(options.bucket().name()).maxKeys(max);
              request.prefix(options.bucket().prefix() + prefix);
              if (!after.isEmpty()) {
                request.startAfter(options.bucket().prefix() + after);
              }
            }),
        this::page);
  }

  private StoreResult page(ListObjectsV2Response response) {
    List<StoredObject> objects = new ArrayList<>(response.contents().size());
    for (S3Object object : response.contents()) {
      Instant modified = object.lastModified();
      objects.add(
          new StoredObject(
              object.key().substring(options.bucket().prefix().length()),
              object.size() == null ? 0 : object.size(),
              modified == null ? 0 : modified.toEpochMilli()));
    }
    return new StoreResult.Page(objects, Boolean.TRUE.equals(response.isTruncated()));
  }

  @Override
  public StoreCall delete(List<String> names, long timeoutNs) {
    checkCount(names.size());
    List<ObjectIdentifier> objects = new ArrayList<>(names.size());
    for (String name : names) {
      objects.add(ObjectIdentifier.builder().key(key(name)).build());
    }
    return run(
        calls.begin(timeoutNs),
        () ->
            client.deleteObjects(request ->
                request
                    .bucket(options.bucket().name())
                    .delete(delete -> delete.objects(objects).quiet(true))),
        response -> deleted(response, names.size()));
  }

  /** The first name that was refused stands for all of them: the others may be gone. */
  private static StoreResult deleted(DeleteObjectsResponse response, int count) {
    for (S3Error error : response.errors()) {
      String code = error.code() == null ? "" : error.code();
      if (!code.equals("NoSuchKey")) {
        return S3Errors.ofAnswer(
            code.equals("AccessDenied") ? 403 : 500, code, code + ": " + error.message(), 0);
      }
    }
    return new StoreResult.Done(count);
  }

  @Override
  public StoreCall removeUnfinished(long beganBeforeMs, long timeoutNs) {
    StoreCall call = calls.begin(timeoutNs);
    return run(
        call, () -> abortUploads(call, UploadPlace.FIRST, beganBeforeMs, 0), StoreResult.Done::new);
  }

  /** Behind which upload a page of them begins. */
  private record UploadPlace(@Nullable String key, @Nullable String id) {
    static final UploadPlace FIRST = new UploadPlace(null, null);
  }

  /** Page by page, for the old ones may stand behind all that are under way. */
  private CompletableFuture<Long> abortUploads(
      StoreCall call, UploadPlace after, long beganBeforeMs, long before) {
    return client
        .listMultipartUploads(request ->
            request
                .bucket(options.bucket().name())
                .prefix(options.bucket().prefix())
                .keyMarker(after.key())
                .uploadIdMarker(after.id()))
        .thenCompose(page ->
            abort(page.uploads(), beganBeforeMs)
                .thenCompose(count ->
                    Boolean.TRUE.equals(page.isTruncated()) && !call.hasEnded()
                        ? abortUploads(
                            call,
                            new UploadPlace(page.nextKeyMarker(), page.nextUploadIdMarker()),
                            beganBeforeMs,
                            before + count)
                        : CompletableFuture.completedFuture(before + count)));
  }

  /** One after the other: there are few, and nobody waits. */
  private CompletableFuture<Long> abort(List<MultipartUpload> uploads, long beganBeforeMs) {
    CompletableFuture<Long> aborted = CompletableFuture.completedFuture(0L);
    for (MultipartUpload upload : uploads) {
      Instant began = upload.initiated();
      if (began != null && began.toEpochMilli() < beganBeforeMs) {
        aborted = aborted.thenCompose(count -> abort(upload).thenApply(one -> count + one));
      }
    }
    return aborted;
  }

  private CompletableFuture<Long> abort(MultipartUpload upload) {
    return client
        .abortMultipartUpload(request ->
            request.bucket(options.bucket().name()).key(upload.key()).uploadId(upload.uploadId()))
        .handle((_, thrown) -> counted(thrown));
  }

  /** An upload that another node has ended meanwhile is no error. */
  private static long counted(@Nullable Throwable thrown) {
    if (thrown == null) {
      return 1;
    }
    if (S3Errors.outcome(thrown) instanceof StoreResult.Absent) {
      return 0;
    }
    throw new CompletionException(thrown);
  }

  private static void checkCount(int count) {
    if (count < 1 || count > NAMES_MAX) {
      throw new IllegalArgumentException(
          "one call takes 1 to " + NAMES_MAX + " names, not " + count);
    }
  }

  private String key(String name) {
    ObjectNames.check(name);
    return options.bucket().prefix() + name;
  }

  private static <T> StoreCall run(
      StoreCall call, Supplier<CompletableFuture<T>> begin, Function<T, StoreResult> outcome) {
    return run(call, begin, outcome, S3Errors::outcome);
  }

  private static <T> StoreCall run(
      StoreCall call,
      Supplier<CompletableFuture<T>> begin,
      Function<T, StoreResult> outcome,
      Function<Throwable, StoreResult> failure) {
    if (call.hasEnded()) {
      return call;
    }
    CompletableFuture<T> future;
    try {
      future = begin.get();
    } catch (RuntimeException e) {
      call.end(failure.apply(e));
      return call;
    }
    call.onAbort(() -> future.cancel(true));
    BiFunction<T, Throwable, Boolean> finish =
        (value, thrown) -> call.end(thrown == null ? outcome.apply(value) : failure.apply(thrown));
    var _ = future.handle(finish);
    return call;
  }

  @Override
  public String describe() {
    return options.describe();
  }

  @Override
  public void close() {
    if (closed.getAndSet(true)) {
      return;
    }
    calls.close();
    try {
      client.close();
    } finally {
      CrtLife.release();
    }
  }
}
