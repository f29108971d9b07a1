package io.kvtier.daemon.grpc;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.MethodDescriptor;
import com.google.protobuf.Descriptors.ServiceDescriptor;
import io.kvtier.protocol.v1.KvtierOuterClass;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.health.v1.HealthProto;
import io.vertx.grpc.reflection.v1.ErrorResponse;
import io.vertx.grpc.reflection.v1.ExtensionNumberResponse;
import io.vertx.grpc.reflection.v1.FileDescriptorResponse;
import io.vertx.grpc.reflection.v1.ListServiceResponse;
import io.vertx.grpc.reflection.v1.ServerReflectionProto;
import io.vertx.grpc.reflection.v1.ServerReflectionRequest;
import io.vertx.grpc.reflection.v1.ServerReflectionResponse;
import io.vertx.grpc.reflection.v1.ServiceResponse;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The descriptions of the server's services, which {@code grpc.reflection.v1} gives to clients
 * without generated code. Immutable; for any thread.
 */
final class SchemaBook {
  private static final List<FileDescriptor> FILES =
      List.of(
          KvtierOuterClass.getDescriptor(),
          HealthProto.getDescriptor(),
          ServerReflectionProto.getDescriptor());

  private final Map<String, FileDescriptor> byName = new HashMap<>();
  private final Map<String, FileDescriptor> bySymbol = new HashMap<>();

  SchemaBook() {
    FILES.forEach(this::add);
  }

  private void add(FileDescriptor file) {
    if (byName.put(file.getName(), file) != null) {
      return;
    }
    for (ServiceDescriptor service : file.getServices()) {
      bySymbol.put(service.getFullName(), file);
      for (MethodDescriptor method : service.getMethods()) {
        bySymbol.put(method.getFullName(), file);
      }
    }
    file.getMessageTypes().forEach(this::add);
    file.getEnumTypes().forEach(this::add);
    file.getDependencies().forEach(this::add);
  }

  private void add(Descriptor message) {
    bySymbol.put(message.getFullName(), message.getFile());
    message.getNestedTypes().forEach(this::add);
    message.getEnumTypes().forEach(this::add);
  }

  private void add(EnumDescriptor type) {
    bySymbol.put(type.getFullName(), type.getFile());
  }

  /** Answers a question. */
  ServerReflectionResponse answer(ServerReflectionRequest question) {
    ServerReflectionResponse.Builder answer =
        ServerReflectionResponse.newBuilder()
            .setValidHost(question.getHost())
            .setOriginalRequest(question);
    return fill(answer, question).build();
  }

  private ServerReflectionResponse.Builder fill(
      ServerReflectionResponse.Builder answer, ServerReflectionRequest question) {
    return switch (question.getMessageRequestCase()) {
      case LIST_SERVICES -> answer.setListServicesResponse(services());
      case FILE_BY_FILENAME -> file(answer, byName, question.getFileByFilename());
      case FILE_CONTAINING_SYMBOL -> file(answer, bySymbol, question.getFileContainingSymbol());
      case ALL_EXTENSION_NUMBERS_OF_TYPE ->
          bySymbol.containsKey(question.getAllExtensionNumbersOfType())
              ? answer.setAllExtensionNumbersResponse(
                  ExtensionNumberResponse.newBuilder()
                      .setBaseTypeName(question.getAllExtensionNumbersOfType()))
              : answer.setErrorResponse(unknown());
      case FILE_CONTAINING_EXTENSION -> answer.setErrorResponse(unknown());
      case MESSAGEREQUEST_NOT_SET ->
          answer.setErrorResponse(
              ErrorResponse.newBuilder()
                  .setErrorCode(GrpcStatus.INVALID_ARGUMENT.code)
                  .setErrorMessage("the message asks for nothing"));
    };
  }

  private static ListServiceResponse services() {
    ListServiceResponse.Builder all = ListServiceResponse.newBuilder();
    for (FileDescriptor file : FILES) {
      for (ServiceDescriptor service : file.getServices()) {
        all.addService(ServiceResponse.newBuilder().setName(service.getFullName()));
      }
    }
    return all.build();
  }

  private static ServerReflectionResponse.Builder file(
      ServerReflectionResponse.Builder answer, Map<String, FileDescriptor> files, String name) {
    FileDescriptor file = files.get(name);
    if (file == null) {
      return answer.setErrorResponse(unknown());
    }
    Set<FileDescriptor> needed = new LinkedHashSet<>();
    collect(file, needed);
    FileDescriptorResponse.Builder all = FileDescriptorResponse.newBuilder();
    needed.forEach(each -> all.addFileDescriptorProto(each.toProto().toByteString()));
    return answer.setFileDescriptorResponse(all);
  }

  private static void collect(FileDescriptor file, Set<FileDescriptor> needed) {
    if (needed.add(file)) {
      file.getDependencies().forEach(other -> collect(other, needed));
    }
  }

  private static ErrorResponse unknown() {
    return ErrorResponse.newBuilder()
        .setErrorCode(GrpcStatus.NOT_FOUND.code)
        .setErrorMessage("this server has nothing of that name")
        .build();
  }
}
